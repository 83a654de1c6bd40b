"""Finds the primary by asking Redis Sentinels at each connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from weakref import WeakValueDictionary

import redis
from redis.connection import parse_url
from redis.sentinel import MasterNotFoundError, Sentinel

from fairqueue._settings import mask_password
from fairqueue._settings.parsing import boolean
from fairqueue._stores.redis.looking import Address, asking_options, load_credentials, pool_of
from fairqueue.errors import ConfigurationError

SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
"""Schemes of core URLs, and those of the primary's own URL."""

ENCODED = "in a user or password '/', '?', '#', ',' and '@' must be percent-encoded"
DEFAULT_PORT = 26379
OPTION = "sentinel_"
"""Prefix of options of connections to Sentinels in a URL's query."""


class Place(NamedTuple):
    """The Sentinels, the service and the options of a URL."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    primary_url: str
    """A URL with the primary's options, and a placeholder for its host."""
    options: tuple[tuple[str, str], ...] = ()
    min_others: int = 0


def is_sentinel(url: str) -> bool:
    """Whether a core URL names Sentinels."""
    return url.partition("://")[0] in SCHEMES


def read_place(url: str) -> Place:
    """Read ``redis+sentinel://[user:password@]host[:port],…/service[/db][?options]``.

    User and password are the primary's. ``sentinel_password`` and the like in the query are for
    the Sentinels. The service may stand there, too, as ``master_name``; then the path is the
    database. Raises ConfigurationError for what cannot be read.
    """
    try:
        return _read(*url.partition("://")[::2])
    except ConfigurationError as error:  # it shows no part that may be a password
        raise ConfigurationError(f"bad URL {mask_password(url)!r}: {error}") from None


def _read(scheme: str, rest: str) -> Place:
    head, _, query = rest.partition("?")
    authority, _, path = head.partition("/")
    login, at, hosts = authority.rpartition("@")
    pairs = dict(parse_qsl(query, keep_blank_values=True))
    service, database = _service(unquote(path).strip("/"), pairs.pop("master_name", ""))
    others = pairs.pop("min_other_sentinels", "0")
    if not others.isdecimal():
        raise ConfigurationError("min_other_sentinels must be a number from 0")
    options = {name: pairs.pop(name) for name in list(pairs) if name.startswith(OPTION)}
    return Place(
        hosts=tuple(_host(text) for text in hosts.split(",")),
        service=service,
        primary_url=f"{SCHEMES[scheme]}://{login}{at}sentinels/{database}?{urlencode(pairs)}",
        options=tuple((name.removeprefix(OPTION), text) for name, text in options.items()),
        min_others=int(others),
    )


def _service(path: str, named: str) -> tuple[str, str]:
    service, _, database = (named, "", path) if named else path.partition("/")
    if not service or (service.isdecimal() and not named):
        raise ConfigurationError(
            "it names no service of the Sentinels, such as mymaster in "
            "redis+sentinel://host:26379/mymaster/0; Celery's option master_name does so, too"
        )
    if database and not database.isdecimal():
        raise ConfigurationError(
            f"behind the service stands a database, a number such as /0; {ENCODED}"
        )
    return service, database or "0"


def _host(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text.strip()}")
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"the port of a Sentinel must be a number; {ENCODED}") from None
    if not parts.hostname:
        raise ConfigurationError(f"a Sentinel has no host; {ENCODED}")
    return unquote(parts.hostname), port or DEFAULT_PORT


class Sentinels:
    """The Sentinels of one service, which name its primary.

    Each question has its own connection, so that neither a fork nor a silent Sentinel matters to
    the next one. The Sentinel that answered last is asked first, unless its answer was doubted
    since: a Sentinel that lags behind names a dead primary.
    """

    has_slots = False

    def __init__(self, place: Place, options: Mapping[str, Any]) -> None:
        self._hosts, self._place = list(place.hosts), place
        self.configured = f"{place.service} of {sorted(place.hosts)}"
        self.options = {**asking_options(), **options}
        """Those of connections to them."""
        self._named: Address | None = None
        for one in Sentinel(self._hosts, 0, self.options).sentinels:
            pool = one.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # else the first call would find out

    def known(self) -> Address | None:
        """Return the primary that was named last, unless it was doubted since."""
        return self._named

    def find(self) -> Address:
        """Return the primary's address; MasterNotFoundError if no Sentinel knows one that is up."""
        said = []
        for host in list(self._hosts):
            try:
                found = self._ask(host)
            except redis.RedisError as error:
                said.append(f"{host[0]}:{host[1]}: {error}")
            else:
                self._hosts = [host, *(each for each in self._hosts if each != host)]
                self._named = found
                return found
        raise MasterNotFoundError(
            f"no Sentinel knows a primary of {self._place.service!r} that is up "
            f"({'; '.join(said)}): do they run, watch this service, and accept the sentinel_… "
            "options?"
        )

    def doubt(self, address: Address | None) -> None:
        """Ask the Sentinel last that has named this address, which is no primary."""
        if address is not None and address == self._named:
            self._named = None
            self._hosts = [*self._hosts[1:], self._hosts[0]]

    def _ask(self, host: Address) -> Address:
        service = self._place.service
        one = Sentinel([host], self._place.min_others, self.options)
        client: Any = one.sentinels[0]
        try:  # not by its discover_master, which does not say why a Sentinel cannot be reached
            state = client.sentinel_masters().get(service)
        finally:
            client.close()
            client.connection_pool.disconnect()
        if state is None or not one.check_master_state(state, service):
            raise MasterNotFoundError("it knows none")
        return state["ip"], state["port"]


_shared: WeakValueDictionary[Place, Sentinels] = WeakValueDictionary()
"""The Sentinels by place, so that pools share their findings."""


def sentinel_pool(url: str, kind: Any = None, **changed: Any) -> Any:
    """Return a pool of connections to the primary that a URL's Sentinels name; not connected yet.

    ``kind``: their class; default: the URL says whether they use TLS.
    ``changed`` overrides the URL's options for connections to the primary. Raises
    ConfigurationError, ValueError, TypeError or a redis error for a URL that cannot be used.
    """
    place = read_place(url)
    options = _parsed(place.primary_url)
    sentinels = _shared.get(place)
    if sentinels is None:
        sentinels = _shared[place] = Sentinels(place, _sentinel_options(place.options))
    return pool_of(sentinels, options, kind, changed)


def _parsed(url: str) -> dict[str, Any]:
    options = load_credentials(dict(parse_url(url)))
    options.pop("host")
    options.pop("port", None)
    return options


def _sentinel_options(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    options = _parsed(f"redis://sentinels?{urlencode(pairs)}")
    if "ssl" in options:
        try:
            options["ssl"] = boolean(options["ssl"])
        except ValueError:
            raise ConfigurationError("sentinel_ssl must be true or false") from None
    return options
