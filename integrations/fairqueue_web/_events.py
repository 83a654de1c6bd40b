"""The status of one job as server-sent events, until the job has ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, ClassVar

from fairqueue import FairQueue, JobStatus
from fairqueue.adapters import JobWatch
from fairqueue_web._sources import name_of

EVERY_SECONDS = 1.0
PING_SECONDS = 15.0
"""A comment is sent after so long without an event: it shows whether the client is there."""
SHOWN = ("deliveries", "waited_seconds", "run_seconds", "expected_seconds")


class JobEvents:
    """A body of server-sent events, for servers of both kinds: it can be iterated either way.

    Each event is a JSON object with ``id``, ``state``, ``progress`` and times. The first comes at
    once, the others when something has changed, and the last says ``ended`` or ``dead``. Limits and
    other workspaces are not mentioned.
    """

    HEADERS: ClassVar = {
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-cache",
        "X-Accel-Buffering": "no",
    }

    def __init__(self, queue: FairQueue, job_id: str, *, workspace: Any) -> None:
        self._id, self._name = job_id, name_of(workspace)
        look = partial(queue.job, job_id, workspace=self._name or "")
        self._look, self._watch, self._quiet = look, JobWatch(look), 0.0

    def is_known(self) -> bool:
        """Whether there is such a job in this workspace; if not, answer with 404."""
        return self._name is not None and self._look() is not None

    def _next(self) -> bytes:
        status = self._watch.news()
        self._quiet += EVERY_SECONDS
        if status is None and self._quiet < PING_SECONDS:
            return b""
        self._quiet = 0.0
        text = f"data: {json.dumps(_shown(self._id, status))}" if status else ": it goes on"
        return f"{text}\n\n".encode()

    def __iter__(self) -> Iterator[bytes]:
        while not self._watch.is_over:
            if text := self._next():
                yield text
            if not self._watch.is_over:
                time.sleep(EVERY_SECONDS)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._watch.is_over:
            if text := await asyncio.to_thread(self._next):
                yield text
            if not self._watch.is_over:
                await asyncio.sleep(EVERY_SECONDS)


def _shown(job_id: str, status: JobStatus) -> dict[str, Any]:
    found = status.progress
    named = ("current", "total", "message")
    progress = found and {name: getattr(found, name) for name in named}
    times = {name: getattr(status, name) for name in SHOWN}
    return {"id": job_id, "state": status.state.value, "progress": progress, **times}
