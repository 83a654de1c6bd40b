"""An actor that waits for the result of another."""

from __future__ import annotations

import dramatiq
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from mill import broker, note, settings  # type: ignore[import-not-found]

broker.add_middleware(Results(backend=RedisBackend(url=settings["url"])))


@dramatiq.actor(store_results=True)
def child(*, tenant_id: str | None = None) -> int:
    return 7


@dramatiq.actor(max_retries=0, time_limit=120_000)
def parent(_n: int, *, tenant_id: str | None = None) -> None:
    message = child.send(tenant_id=tenant_id)
    note("start", child=message.message_id)
    note("end", found=message.get_result(block=True, timeout=60_000))
