"""Finds the primary that Redis Sentinels name: they are asked at each connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from weakref import WeakValueDictionary

import redis
from redis.connection import parse_url
from redis.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from fairqueue._settings import mask_password
from fairqueue._stores.redis.looking import Looking, asking_options
from fairqueue.errors import ConfigurationError

SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
"""Those of core URLs, and what the primary's own would be."""

SOCKET_TIMEOUT_SECONDS = 5.0
"""Where the URL says nothing: redis-py's own default since 8.0. Before, it waited for ever."""

ENCODED = "in a user or password '/', '?', '#', ',' and '@' must be percent-encoded"
DEFAULT_PORT = 26379
OPTION = "sentinel_"
"""How an option of the connections to Sentinels begins in a URL's query."""
_YES = {"1", "true", "yes", "on"}


@dataclass(frozen=True)
class Place:
    """What a URL says of Sentinels."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    primary_url: str
    """A URL with the primary's options, and a host that is not its own."""
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
    except _Unreadable as error:
        raise ConfigurationError(f"bad URL {mask_password(url)!r}: {error}") from None


class _Unreadable(Exception):
    """What is wrong with a URL, without a part of it that may be a password."""


def _read(scheme: str, rest: str) -> Place:
    head, _, query = rest.partition("?")
    authority, _, path = head.partition("/")
    login, at, hosts = authority.rpartition("@")
    pairs = dict(parse_qsl(query, keep_blank_values=True))
    service, database = _service(unquote(path).strip("/"), pairs.pop("master_name", ""))
    others = pairs.pop("min_other_sentinels", "0")
    if not others.isdecimal():
        raise _Unreadable("min_other_sentinels must be a number from 0")
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
        raise _Unreadable(
            "it names no service of the Sentinels, such as mymaster in "
            "redis+sentinel://host:26379/mymaster/0; Celery's option master_name does so, too"
        )
    if database and not database.isdecimal():
        raise _Unreadable(f"behind the service stands a database, a number such as /0; {ENCODED}")
    return service, database or "0"


def _host(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text.strip()}")
        port = parts.port
    except ValueError:
        raise _Unreadable(f"the port of a Sentinel must be a number; {ENCODED}") from None
    if not parts.hostname:
        raise _Unreadable(f"a Sentinel has no host; {ENCODED}")
    return unquote(parts.hostname), port or DEFAULT_PORT


class Sentinels:
    """The Sentinels of one service. redis-py's pool asks it where the primary is.

    Its connections last for one question, so that neither a fork nor a Sentinel that went silent
    matters to the next one. The Sentinel that answered last is asked first, unless what it named
    was doubted since: it may be behind, and name a dead primary for as long as it is.
    """

    def __init__(
        self, hosts: Sequence[tuple[str, int]], options: Mapping[str, Any], min_others: int = 0
    ) -> None:
        self._hosts = list(hosts)
        self.configured = sorted(self._hosts)
        self._options = {**asking_options(), **options}
        self._min_others = min_others
        self.named: tuple[str, int] | None = None
        """The primary that was named last, unless it was doubted since."""
        Sentinel(self._hosts, min_others, self._options)  # else the first call would find out

    def discover_master(self, service: str) -> tuple[str, int]:
        """The address of the primary; MasterNotFoundError if no Sentinel knows one that is up."""
        said = []
        for host in list(self._hosts):
            try:
                found = self._ask(host, service)
            except redis.RedisError as error:
                said.append(f"{host[0]}:{host[1]}: {error}")
            else:
                self._hosts = [host, *(each for each in self._hosts if each != host)]
                self.named = found
                return found
        raise MasterNotFoundError(
            f"no Sentinel knows a primary of {service!r} that is up ({'; '.join(said)}): "
            "do they run, watch this service, and accept the sentinel_… options?"
        )

    def doubt(self, address: tuple[str, int] | None) -> None:
        """Ask the Sentinel last from now on that has named this address, which is no primary."""
        if address is not None and address == self.named:
            self.named = None
            self._hosts = [*self._hosts[1:], self._hosts[0]]

    def _ask(self, host: tuple[str, int], service: str) -> tuple[str, int]:
        one = Sentinel([host], self._min_others, self._options)
        client: Any = one.sentinels[0]
        try:  # not by its discover_master, which does not say why a Sentinel cannot be reached
            state = client.sentinel_masters().get(service)
        finally:
            client.close()
            client.connection_pool.disconnect()
        if state is None or not one.check_master_state(state, service):
            raise MasterNotFoundError("it knows none")
        return state["ip"], state["port"]


class _Asking(Looking):
    """Asks the Sentinels whenever it connects."""

    host: str
    port: int
    connection_pool: Any

    def connect_to(self, address: tuple[str, int]) -> None:
        """Connect to what a Sentinel named."""
        self.host, self.port = address
        self.note_server()
        try:
            super().connect_to(address)  # type: ignore[misc]
        except redis.RedisError:
            self.doubt()
            raise

    def look_again(self) -> None:
        """Ask the Sentinel last that has named this server."""
        sentinels = self.connection_pool.sentinel_manager
        if isinstance(sentinels, Sentinels):  # else redis-py's own, which knows no doubt
            sentinels.doubt((self.host, self.port))


class SentinelConnection(_Asking, SentinelManagedConnection):
    """A connection to the primary that the Sentinels name when it is opened."""


class SentinelSSLConnection(_Asking, SentinelManagedSSLConnection):
    """The same over TLS."""


def asking(kind: Any) -> Any:
    """The connections of a pool; those that redis-py's Sentinel has made ask at each connect."""
    if not issubclass(kind, SentinelManagedConnection) or issubclass(kind, _Asking):
        return kind
    return type("AskingConnection", (_Asking, kind), {})


_shared: WeakValueDictionary[Place, Sentinels] = WeakValueDictionary()
"""Those of a place: what one pool finds out, another need not."""


def sentinel_pool(url: str, kind: Any = None, **changed: Any) -> Any:
    """A pool of connections to the primary that a URL's Sentinels name, not connected yet.

    ``kind``: a class of connections that ask Sentinels, else the URL says whether they use TLS.
    ``changed`` overrides the URL's options for connections to the primary. Raises
    ConfigurationError, ValueError, TypeError or a redis error for a URL that cannot be used.
    """
    place = read_place(url)
    options = {
        "socket_timeout": SOCKET_TIMEOUT_SECONDS,
        **_parsed(place.primary_url),
        **changed,
    }
    secured = options.pop("connection_class", None) is redis.SSLConnection
    by_url = SentinelSSLConnection if secured else SentinelConnection
    sentinels = _shared.get(place)
    if sentinels is None:
        sentinels = _shared[place] = Sentinels(
            place.hosts, _sentinel_options(place.options), place.min_others
        )
    return _pool(place.service, sentinels, kind or by_url, options)


def _pool(service: str, sentinels: Any, kind: Any, options: dict[str, Any]) -> Any:
    return SentinelConnectionPool(service, sentinels, connection_class=kind, **options)


def pool_like(pool: Any, changed: Mapping[str, Any]) -> Any:
    """Another pool that leads to the same server, with some options changed."""
    options = {**pool.connection_kwargs, **changed}
    if not isinstance(pool, SentinelConnectionPool):
        return redis.ConnectionPool(pool.connection_class, **options)
    options.pop("connection_pool")
    return _pool(pool.service_name, pool.sentinel_manager, pool.connection_class, options)


def _parsed(url: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(parse_url(url))
    options.pop("host")
    options.pop("port", None)
    return options


def _sentinel_options(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    options = _parsed(f"redis://sentinels?{urlencode(pairs)}")
    if "ssl" in options:
        options["ssl"] = str(options["ssl"]).lower() in _YES
    return options
