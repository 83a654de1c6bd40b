"""Accepts ``fairqueue://`` as result_backend and hands it to Celery's own Redis backend.

Many projects use one URL for broker and results.
"""

from __future__ import annotations

from typing import Any

import redis
from celery.app.defaults import DEFAULTS
from celery.backends.cache import CacheBackend
from celery.backends.redis import RedisBackend

from fairqueue import Settings
from fairqueue.adapters import (
    CREDENTIALS,
    SOCKET_TIMEOUT_SECONDS,
    following_primary,
    load_credentials,
    resolving_pool,
)
from fairqueue_celery._config.address import Address, read_url
from fairqueue_celery._config.options import sentinel_options


class FairQueueBackend(RedisBackend):
    """Celery's Redis backend at the address of a ``fairqueue…://`` URL."""

    by_tls_scheme = False
    """Celery leaves the part before ``+`` out of the URL: ``fairqueues+…`` has its own class."""

    def __new__(cls, app: Any = None, url: str | None = None, **_others: Any) -> Any:
        """Make one; for ``fairqueue+memory://`` it is Celery's cache in memory."""
        if url and read_url(url).scheme == "memory":
            return CacheBackend(app=app, backend="memory")
        return super().__new__(cls)

    def __init__(self, *args: Any, url: str | None = None, **kwargs: Any) -> None:
        given = url or kwargs.pop("host", None)
        self._address = read_url(given, tls=self.by_tls_scheme) if given else Address()
        super().__init__(*args, url=stock_url(given) if given else None, **kwargs)
        if not self._has_timeout:
            self.connparams["socket_timeout"] = SOCKET_TIMEOUT_SECONDS
        if self._address.scheme == "redis+cluster":  # all keys of a result need one slot
            tag = f"{{{self._namespace}}}".encode()
            for name in ("task_keyprefix", "group_keyprefix", "chord_keyprefix"):
                setattr(self, name, tag + getattr(self, name))

    @property
    def _has_timeout(self) -> bool:
        """Whether the user has said for how long a call waits.

        Celery takes a setting under several names, but its default is one object, which no number
        of the user's is.
        """
        is_default = self.app.conf.redis_socket_timeout is DEFAULTS["redis_socket_timeout"]
        return not is_default or "socket_timeout" in self._address.query

    @property
    def _namespace(self) -> str:
        default = Settings.model_fields["namespace"].default
        return str(self._address.query.get("namespace", default))

    def _get_pool(self, **params: Any) -> Any:
        params = load_credentials(params)  # before Celery 5.5 it is a name here
        if self._address.is_resolved:
            return self._resolving_pool(params)
        chosen = params.pop("connection_class", redis.Connection)
        return super()._get_pool(connection_class=following_primary(chosen), **params)

    def _resolving_pool(self, params: dict[str, Any]) -> Any:
        """Of the server that is found at each connect, with the options of the result backend."""
        options = {**self._address.query, **self.app.conf.result_backend_transport_options}
        address, chosen = self._address, params.get("connection_class")
        of_sentinels = sentinel_options(options) if address.scheme == "redis+sentinel" else {}
        if chosen is not None and issubclass(chosen, redis.SSLConnection) and address.tls is None:
            address = address._replace(tls={"ssl_cert_reqs": "required"})
        of_one = {"host", "port", "db", "connection_class"}
        given = {n: v for n, v in params.items() if n not in of_one and v is not None and v != ""}
        of_query = {n: v for n, v in address.query.items() if n == CREDENTIALS}
        url = address.core_url({**of_sentinels, **of_query})
        pool = resolving_pool(url, self._namespace, **given)
        pool.connection_class = following_primary(pool.connection_class)
        return pool


class SecuredBackend(FairQueueBackend):
    """That of ``fairqueues+sentinel://`` and ``fairqueues+cluster://``."""

    by_tls_scheme = True


def stock_url(url: str) -> str:
    """The URL that Celery's Redis backend understands, without fairqueue's settings.

    For ``fairqueue+socket:///path`` Celery passes ``socket:///path``.
    """
    address = read_url(url)
    if address.is_resolved:
        return f"redis://looked-for/{address.db}"
    query = {
        name: text for name, text in address.query.items() if name not in Settings.model_fields
    }
    first = address._replace(hosts=address.hosts[:1])
    return first.core_url(query).replace("unix://", "socket://", 1)
