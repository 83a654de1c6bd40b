"""Makes jobs of the messages in kombu's own lists, where old producers still push them.

Each message leaves its list and becomes a job in one step, so none is lost and none doubled,
however many workers do this at the same time, beside workers of the old broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairqueue import ConfigurationError, FairQueue, WorkspaceUnresolved
from fairqueue_celery.producing import describe_foreign
from fairqueue_celery.stocklists import StockLists, is_task, priority_of, read

logger = logging.getLogger(__name__)

AT_ONCE = 50
"""Messages that are read in one trip."""

READ = "read"
UNREAD = "unread"
"""How it was taken over: its workspace could be told, or it belongs to the default one."""


@dataclass(frozen=True)
class Adopted:
    """One message as a job."""

    workspace: str | None
    task: str
    priority: int
    delay_seconds: float
    kind: str


def as_job(message: bytes, sources: tuple[str, ...]) -> Adopted:
    """What the core is to know of a message. A body is opened only if it is JSON."""
    found = read(message)
    if not is_task(found):
        return Adopted(None, "", 0, 0.0, UNREAD)  # the worker that gets it says what is wrong
    try:
        about, opened = describe_foreign(found, sources)
    except WorkspaceUnresolved as error:
        logger.error("a message from the old broker belongs to the default workspace: %s", error)  # noqa: TRY400 - the text says it
        return Adopted(None, "", priority_of(found), 0.0, UNREAD)
    kind = READ if opened else UNREAD
    return Adopted(about.workspace, about.task, priority_of(found), about.delay_seconds, kind)


class Adoption:
    """Takes messages out of the lists of one Redis, into the core beside them."""

    def __init__(self, core: FairQueue, lists: StockLists) -> None:
        self._core, self._lists = core, lists

    def adopt(
        self, queue: str, *, most: int, progress: Callable[[Adopted], Any] = lambda _: None
    ) -> int:
        """Adopt what waits in the lists of a queue, the most urgent first, at most so many.

        Raises FairQueueError while jobs are handed back to that broker.
        """
        done = 0
        for _, key in self._lists.layout.lists(queue):
            while done < most:
                messages = self._lists.client.lrange(key, -AT_ONCE, -1)
                if not messages:
                    break
                for message in reversed(messages):
                    job = self._adopt(key, queue, message)
                    if job is None:
                        break  # somebody else took it: look again
                    done += 1
                    progress(job)
        return done

    def _adopt(self, key: str, queue: str, message: bytes) -> Adopted | None:
        job = as_job(message, self._core.settings.workspace_from)
        try:
            return job if self._take_over(key, queue, message, job) else None
        except ConfigurationError as error:  # a name that cannot be; what can be is kept
            logger.warning("a message from the old broker is adopted without its names: %s", error)
            job = Adopted(None, "", job.priority, job.delay_seconds, UNREAD)
            return job if self._take_over(key, queue, message, job) else None

    def _take_over(self, key: str, queue: str, message: bytes, job: Adopted) -> bool:
        return self._core.take_over(
            key,
            message,
            queue=queue,
            workspace=job.workspace,
            task=job.task,
            priority=job.priority,
            delay_seconds=job.delay_seconds,
            kind=job.kind,
        )
