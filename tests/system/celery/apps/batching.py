"""The same app, with tasks that gather their jobs and run them together, as celery-batches' do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Task, signals
from celery.worker.request import Request
from shop import app, note  # type: ignore[import-not-found]

from fairqueue import ConfigurationError, step

FLUSH_EVERY = 20
LATCH = os.environ.get("BATCH_LATCH")
"""No batch ends before this file exists."""


def trace(task: Any, batch: list[int]) -> None:
    """Run one batch in the pool."""
    task(batch)


class Gathering(Task):
    """Keeps what it receives until there is enough."""

    abstract = True
    flush_every = FLUSH_EVERY

    def Strategy(self, task: Any, app: Any, consumer: Any) -> Any:  # noqa: N802 - Celery's name
        """Return what handles each message of the task."""
        kept: list[Any] = []
        flush = self._flusher(consumer, kept)

        def handle(message: Any, _body: Any, ack: Any, reject: Any, *_: Any, **_more: Any) -> None:
            request = Request(
                message,
                on_ack=ack,
                on_reject=reject,
                app=app,
                task=task,
                hostname=consumer.hostname,
                eventer=consumer.event_dispatcher,
                connection_errors=consumer.connection_errors,
                body=message.body,
                headers=message.headers,
                decoded=False,
                utc=True,
            )
            kept.append(request)
            signals.task_received.send(sender=consumer, request=request)
            if len(kept) == self.flush_every:
                flush()

        return handle

    def _flusher(self, consumer: Any, kept: list[Any]) -> Any:
        def acknowledge(batch: list[Any], *, late: bool) -> None:
            for request in batch:
                if bool(self.acks_late) is late:
                    request.acknowledge()

        def flush() -> None:
            batch = kept[:]
            kept.clear()
            consumer.pool.apply_async(
                trace,
                (self, [request._payload[0][0] for request in batch]),
                accept_callback=lambda *_: acknowledge(batch, late=False),
                callback=lambda _: acknowledge(batch, late=True),
            )

        return flush


def index(numbers: list[int]) -> None:
    """Run a batch; one with the number -1 ends its process, the first time."""
    note("batch", n=len(numbers))
    try:
        step.run("of a batch", note, "step")
    except ConfigurationError as error:
        note("refused", said=str(error))
    for n in numbers:
        note("start", n=n, workspace="batch")
    died = Path(f"{os.environ['SHOP_LEDGER']}.died")
    if -1 in numbers and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    while LATCH and not Path(LATCH).exists():
        time.sleep(0.02)
    for n in numbers:
        note("end", n=n, workspace="batch")


early = app.task(name="shop.index", base=Gathering)(index)
late = app.task(name="shop.index_late", base=Gathering, acks_late=True)(index)
