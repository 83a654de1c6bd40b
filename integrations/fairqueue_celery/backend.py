"""Accepts ``fairqueue://`` as result_backend and hands it to Celery's own Redis backend.

Many projects use one URL for broker and results.
"""

from __future__ import annotations

from typing import Any

from celery.backends.cache import CacheBackend
from celery.backends.redis import RedisBackend

from fairqueue import Settings
from fairqueue_celery._config.address import read_url


class FairQueueBackend(RedisBackend):
    """Celery's Redis backend at the address of a ``fairqueue…://`` URL."""

    def __new__(cls, app: Any = None, url: str | None = None, **_others: Any) -> Any:
        """Make one; for ``fairqueue+memory://`` it is Celery's cache in memory."""
        if url and read_url(url).memory:
            return CacheBackend(app=app, backend="memory")
        return super().__new__(cls)

    def __init__(self, *args: Any, url: str | None = None, **kwargs: Any) -> None:
        given = url or kwargs.pop("host", None)
        super().__init__(*args, url=stock_url(given) if given else None, **kwargs)


def stock_url(url: str) -> str:
    """The URL that Celery's Redis backend understands, without fairqueue's settings.

    For ``fairqueue+socket:///path`` Celery passes ``socket:///path``.
    """
    address = read_url(url)
    query = {
        name: text for name, text in address.query.items() if name not in Settings.model_fields
    }
    if address.path is not None:
        query.update({"virtual_host": address.db} if address.db != "0" else {})
    return address.core_url(query).replace("unix://", "socket://", 1)
