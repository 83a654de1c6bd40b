"""Connections that look their server up whenever they connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue._settings import mask_password
from fairqueue._stores.breaker import ASK_SECONDS, CircuitBreaker, breaker_at
from fairqueue._stores.redis.errors import (
    SlotMoved,
    is_about_slot,
    is_from_wrong_server,
    is_moved,
)
from fairqueue._utils import load_function
from fairqueue.errors import ConfigurationError

SOCKET_TIMEOUT_SECONDS = 5.0
"""Default, as redis-py's own since 8.0; older ones wait for ever."""

CREDENTIALS = "credential_provider"
"""The option of a URL that names a class of redis-py's credential providers."""

Address = tuple[str, int]


def asking_options() -> dict[str, Any]:
    """Return options of a connection for one question; the next server is asked on failure."""
    return {
        "socket_timeout": ASK_SECONDS,
        "socket_connect_timeout": ASK_SECONDS,
        "retry": Retry(NoBackoff(), 0),
    }


def load_credentials(options: dict[str, Any]) -> dict[str, Any]:
    """Replace the name of a credential provider, as kombu's URLs have it, by such a provider.

    Its user and password count, not those of the URL.
    """
    name = options.get(CREDENTIALS)
    if isinstance(name, str):
        source = name if ":" in name else ":".join(name.rpartition(".")[::2])
        try:
            provider = load_function(source, setting=CREDENTIALS)()
        except ConfigurationError:
            raise
        except Exception as error:
            told = f"{CREDENTIALS} {name!r} cannot be made: {mask_password(repr(error))}"
            raise ConfigurationError(told) from error
        if not isinstance(provider, redis.CredentialProvider):
            raise ConfigurationError(f"{CREDENTIALS} {name!r} is no redis.CredentialProvider")
        options[CREDENTIALS] = provider
        options.pop("username", None)
        options.pop("password", None)
    return options


class Finder(Protocol):
    """Finds the address of a server: by its Sentinels, or as the node of a Cluster with a slot."""

    configured: str
    """The URL's addresses."""
    has_slots: bool
    """Whether it is a Cluster, whose nodes may answer that another one has the slot."""

    def find(self) -> Address:
        """Return the address; redis.ConnectionError if it is not known."""

    def known(self) -> Address | None:
        """Return the last known address, if any."""

    def doubt(self, address: Address | None) -> None:
        """Look again with the next call: the address does not answer, or is not the primary."""


class Looking:
    """Mixin for redis-py's connections: a finder says where they connect.

    redis-py's own connect to the last address again, or to localhost if there was none.
    """

    _sock: Any
    host: str
    port: int
    _breaker, _doubts = CircuitBreaker(), 0

    def __init__(self, *, finder: Finder, **options: Any) -> None:
        self._finder = finder
        super().__init__(**options)

    def connect(self) -> None:
        """Connect, if it is not connected."""
        if self._sock:
            return
        self.host, self.port = self._finder.find()
        self._breaker = breaker_at(f"{self.host}:{self.port}")
        self._doubts = self._breaker.doubts
        try:
            super().connect()  # type: ignore[misc]
        except redis.RedisError:
            self.doubt()
            raise

    @property
    def is_doubted(self) -> bool:
        """Whether the server was doubted in this process since this connection was made."""
        return self._breaker.doubts != self._doubts

    def _look_again(self) -> None:
        self._finder.doubt((self.host, self.port))

    def doubt(self) -> None:
        """Look again, and let all connections of this process to this server do so.

        It does not answer, or is not the primary.
        """
        self._look_again()
        if not self.is_doubted:  # else the other connections that are as old know
            self._breaker.doubts += 1

    def send_packed_command(self, *args: Any, **options: Any) -> Any:
        """Send it, over a new connection if this one was closed."""
        if not self._sock:
            self.connect()
        return super().send_packed_command(*args, **options)  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read one reply; doubt a server that breaks off, or answers that it is the wrong one."""
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except redis.RedisError as error:
            if is_about_slot(error):
                self._look_again()
            elif not isinstance(error, redis.ResponseError) or is_from_wrong_server(error):
                self.doubt()
            if is_moved(error) and self._finder.has_slots:
                raise SlotMoved(str(error).removeprefix("MOVED ")) from error
            raise


class LookingConnection(Looking, redis.Connection):
    """A connection to the server that a finder names when it is opened."""


class LookingSSLConnection(Looking, redis.SSLConnection):
    """The same over TLS."""


def pool_of(finder: Finder, options: dict[str, Any], kind: Any, changed: Mapping[str, Any]) -> Any:
    """Return a pool of connections to a finder's server; ``kind`` None: the options' class."""
    options = {"socket_timeout": SOCKET_TIMEOUT_SECONDS, **options, **changed}
    secured = options.pop("connection_class", None) is redis.SSLConnection
    kind = kind or (LookingSSLConnection if secured else LookingConnection)
    return redis.ConnectionPool(kind, finder=finder, **options)
