"""Makes the client of a URL, and reports errors in a URL without showing its password."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import redis
from redis.exceptions import ResponseError

from fairqueue._settings import ENCODED, mask_password, servers_of
from fairqueue._stores.redis.cluster import SlotFinder, cluster_pool, is_cluster
from fairqueue._stores.redis.connections import TIMEOUTS
from fairqueue._stores.redis.errors import is_from_wrong_server, remedy_of
from fairqueue._stores.redis.looking import (
    SOCKET_TIMEOUT_SECONDS,
    Finder,
    LookingConnection,
    LookingSSLConnection,
    load_credentials,
)
from fairqueue._stores.redis.sentinel import OPTION as OF_SENTINELS
from fairqueue._stores.redis.sentinel import Sentinels, is_sentinel, sentinel_pool
from fairqueue.errors import ConfigurationError

MOST_SECONDS = 1e6
"""The longest time-out of a connection. A socket refuses one of 300 years."""
_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")
_PORT = re.compile(r":\d*$")
_CELERYS_NAME = re.compile(r"(?<=ssl_cert_reqs=)CERT_(?:NONE|OPTIONAL|REQUIRED)\b")
"""What Celery calls none, optional and required in a URL, also of Sentinels."""
_SAFE = re.compile(
    r"Invalid value for '\w+'|Port out of range|Invalid SSL Certificate|Invalid IPv6 URL$"
)
"""How the client's errors begin that quote neither user, password nor host."""


def is_resolved_at_connect(url: str) -> bool:
    """Whether a core URL's server is looked up at each connect: by Sentinels, or in a Cluster."""
    return is_sentinel(url) or is_cluster(url)


def resolving_pool(url: str, tag: str, kind: Any = None, **changed: Any) -> Any:
    """Return redis-py's pool of connections that look their server up; not connected yet.

    ``tag``: the hash tag whose slot they need, in a Cluster. ``kind``: see
    :func:`resolving_connections`, else the URL says whether they use TLS. ``changed`` overrides the
    URL's options.
    """
    if is_cluster(url):
        return cluster_pool(url, tag, kind, **changed)
    return sentinel_pool(url, kind, **changed)


def resolving_connections() -> tuple[Any, Any]:
    """Return the classes of such connections: without and with TLS."""
    return LookingConnection, LookingSSLConnection


def doubt_server(pool: Any) -> None:
    """Let a pool of such connections look again: its server turned out to be a replica."""
    finder: Finder | None = pool.connection_kwargs.get("finder")
    if finder is not None:
        finder.doubt(finder.known())


def server_of(pool: Any) -> str:
    """Return a pool's server, without credentials; in a Cluster the node, if it is known.

    The next call may go to another node.
    """
    options = pool.connection_kwargs
    if isinstance(finder := options.get("finder"), SlotFinder):
        node = finder.known()
        return f"slot {finder.number}" if node is None else f"{node[0]}:{node[1]}"
    if finder is not None:
        return str(finder.configured)
    return str(
        options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
    )


def address_of(pool: Any) -> str:
    """Return the address as the URL has it: server, Sentinels or nodes, and the database.

    Without credentials. Two names of one server are different addresses.
    """
    options = pool.connection_kwargs
    finder: Finder | None = options.get("finder")
    if finder is not None and finder.has_slots:
        return finder.configured
    where = server_of(pool)
    if (service := getattr(pool, "service_name", None)) is not None:
        asked = (each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels)
        where = f"{service} of {sorted((place['host'], place['port']) for place in asked)}"
    return f"{where}/{options.get('db') or 0}"


def with_bytes(client: Any) -> Any:
    """Return a client whose replies are bytes, as payloads are: this one, unless it decodes."""
    if not isinstance(client, redis.Redis):
        kind = type(client)
        raise ConfigurationError(
            f"client must be a redis.Redis, not a {kind.__module__}.{kind.__name__}"
        )
    pool = client.connection_pool
    if not pool.connection_kwargs.get("decode_responses"):
        return client
    options = {**pool.connection_kwargs, "decode_responses": False}
    made = redis.Redis(connection_pool=redis.ConnectionPool(pool.connection_class, **options))
    made.made_from = client  # type: ignore[attr-defined]  # whose pool asks its Sentinels
    return made


def client_at(url: str, tag: str = "") -> redis.Redis:
    """Return a client that is not connected yet; ConfigurationError for an unusable URL.

    In a Cluster it connects to the node with the slot of this hash tag.
    """
    url = _CELERYS_NAME.sub(lambda found: found[0].removeprefix("CERT_").lower(), url)
    try:
        client = _client(url, tag)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # else the first call would find out
        _check_options(pool.connection_kwargs)
        if isinstance(finder := pool.connection_kwargs.get("finder"), Sentinels):
            _check_options(finder.options, OF_SENTINELS)
        _check_hosts(url)
    except ConfigurationError:
        raise
    except (ValueError, TypeError, redis.RedisError) as error:
        raise ConfigurationError(
            f"bad URL {mask_password(url)!r}: {_what_is_wrong(str(error), url)}"
        ) from None  # the original may quote a password
    if url.startswith("unix:") or is_resolved_at_connect(url):
        return client
    database = unquote(urlsplit(url).path).strip("/")
    if database and not database.isdecimal():
        raise ConfigurationError(  # the client would take database 0
            f"the URL {mask_password(url)!r} ends in {database!r}, but a Redis database is a "
            "number, such as /0"
        )
    return client


def _client(url: str, tag: str) -> redis.Redis:
    if is_resolved_at_connect(url):
        return redis.Redis(connection_pool=resolving_pool(url, tag))
    client = redis.Redis.from_url(url, socket_timeout=SOCKET_TIMEOUT_SECONDS)
    load_credentials(client.connection_pool.connection_kwargs)
    return client


def _check_hosts(url: str) -> None:
    """Raise UnicodeError for a host that cannot be looked up, such as one with an empty part."""
    for host in urlsplit(url).netloc.rpartition("@")[2].split(","):
        unquote(_PORT.sub("", host)).encode("idna")  # as a look-up does


def _check_options(options: Mapping[str, Any], prefix: str = "") -> None:
    """Raise ConfigurationError for time-outs and certificates that no connection could have.

    Else each connect fails as in an outage, with an error that does not name the option.
    ``prefix``: of their names in the URL.
    """
    for name in TIMEOUTS:
        seconds = options.get(name)
        if seconds is not None and not 0 < seconds < MOST_SECONDS:
            raise ConfigurationError(
                f"option {prefix + name!r} of the URL must be a number of seconds above 0, "
                f"not {seconds}"
            )
    load_own = partial(ssl.SSLContext.load_cert_chain, password=options.get("ssl_password"))
    loads: dict[tuple[str, str], Callable[[ssl.SSLContext, Any, Any], object]] = {
        ("ssl_ca_certs", "ssl_ca_path"): ssl.SSLContext.load_verify_locations,
        ("ssl_certfile", "ssl_keyfile"): load_own,
    }
    for names, load in loads.items():
        given = {name: options[name] for name in names if options.get(name)}
        try:
            if given:
                load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), *map(given.get, names))
        except (OSError, TypeError) as error:
            shown = ", ".join(f"{prefix}{name}={path}" for name, path in given.items())
            raise ConfigurationError(f"the URL's {shown} cannot be loaded: {error}") from None


def _what_is_wrong(text: str, url: str) -> str:
    unknown = _UNKNOWN.search(text)
    if unknown and unknown[1].startswith("ssl_") and not url.startswith("rediss"):
        return f"option {unknown[1]!r} is for TLS: rediss://…, or fairqueues://… of a Celery app"
    if unknown:
        return f"neither fairqueue nor the Redis client has an option {unknown[1]!r}: leave it out"
    if _SAFE.match(text):
        return text
    return ENCODED


def following_primary(connection_class: Any) -> Any:
    """Return such connections, which close once the server may no longer be the primary.

    The caller gets a ``redis.ConnectionError``, as for a broken link, and the next call connects
    again. redis-py would keep the connection, and be refused by a deposed primary for as long as it
    runs.
    """

    class Following(connection_class):  # type: ignore[misc]
        def read_response(self, *args: Any, **options: Any) -> Any:
            try:
                return super().read_response(*args, **options)
            except ResponseError as error:
                if not is_from_wrong_server(error):
                    raise
                self.disconnect()
                raise redis.ConnectionError(remedy_of(error)) from error

    return Following


def following_client(url: str, tag: str = "") -> redis.Redis:
    """Return redis-py's client for a core URL, over such connections; not connected yet.

    It connects to the first of several servers, which has kombu's own queues and lists, or in a
    Cluster to the node with the slot of this hash tag.
    """
    client = client_at(servers_of(url)[0], tag)
    pool = client.connection_pool
    pool.connection_class = following_primary(pool.connection_class)
    return client
