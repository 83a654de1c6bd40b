"""Turns messages in kombu's own lists into jobs, since old producers still push them there.

Each message leaves its list and becomes a job in one atomic step, so none is lost or doubled,
however many workers do this at once, beside workers of the old broker. A worker also puts back
what a worker of the old broker held for longer than the visibility timeout, as the old workers
would: when the last of them is gone, nothing else does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fairqueue import ConfigurationError, FairQueue, WorkspaceUnresolved
from fairqueue.adapters import (
    BackgroundLoop,
    Throttle,
    following_client,
    job_ids,
    new_job_id,
    translated_redis_errors,
)
from fairqueue_celery._channel.broker import Broker
from fairqueue_celery._kombu_lists.lists import KombuLists, Layout, is_task, parse, priority_of
from fairqueue_celery._kombu_lists.transfer import Aside
from fairqueue_celery._publish.publish import (
    are_headers,
    foreign_call,
    json_body,
    seconds_until,
    workspace_or_default,
)

logger = logging.getLogger("fairqueue_celery.adopt")

READ_AT_ONCE = 50
"""Messages that are read in one call."""

ASIDE = "fairqueue.import.aside"  # hash at the source: "id queue" -> message
ADOPT_AT_ONCE = 500
SHORTEST_REST_SECONDS = 0.5
LONGEST_REST_SECONDS = 5.0
RESTORE_EVERY_SECONDS = 60.0
RESTORE_AT_ONCE = 100


@dataclass(frozen=True)
class Adopted:
    """One message as a job."""

    job_id: str
    """It ends in the task's id, by which the job is found."""
    workspace: str | None = None
    task: str = ""
    priority: int = 0
    delay_seconds: float = 0.0
    was_read: bool = False
    """Whether its workspace could be looked for; of an unread one it is the default."""

    def named(self) -> dict[str, Any]:
        """What an import is told."""
        return {name: value for name, value in vars(self).items() if name != "was_read"}


def as_job(message: Any, core: FairQueue, start: str | None = None) -> Adopted:
    """What the core needs to know of a parsed message. A body is decoded only if it is JSON.

    ``start`` begins the job's id, by default at random.
    """
    start = start or new_job_id()
    if not is_task(message):
        return Adopted(start)  # the worker that gets it says what is wrong
    priority, sources = priority_of(message), core.settings.workspace_from
    call = foreign_call(message, sources)
    try:
        workspace = workspace_or_default(call, core, must_publish=True)
    except WorkspaceUnresolved as error:
        logger.error("a message from the old broker goes to the default workspace: %s", error)  # noqa: TRY400 - the text says it
        return Adopted(start, priority=priority)
    job_id = job_ids(str(call.fields.get("id") or ""), start=start)[1] or start
    delay_seconds = seconds_until(call.fields.get("eta")) or 0.0
    by_headers = "task" in message["headers"] and are_headers(sources)
    was_read = bool(workspace) or by_headers or json_body(message) is not None
    return Adopted(job_id, workspace, call.task, priority, delay_seconds, was_read)


class Adoption:
    """Takes messages from the lists of one Redis into the core on the same Redis."""

    def __init__(self, core: FairQueue, lists: KombuLists) -> None:
        self._core, self.lists = core, lists

    def finish_earlier(self, progress: Callable[[str, Adopted], Any]) -> None:
        """Adopt what an interrupted migration has left between: with one step there is none."""

    def adopt(
        self, queue: str, *, most: int, progress: Callable[[Adopted], Any] = lambda _: None
    ) -> int:
        """Adopt up to ``most`` messages from the lists of a queue, the most urgent first.

        Raises FairQueueError while jobs are exported back to that broker.
        """
        done = 0
        keys = [key for _, key in self.lists.layout.lists(queue)]
        if not self.lists.client.exists(*keys):  # as a rule: one call for all priorities
            return done
        for key in keys:
            while done < most:
                messages = self.lists.client.lrange(key, -READ_AT_ONCE, -1)
                if not messages:
                    break
                for message in reversed(messages):
                    job, is_done = self._adopt(key, queue, message)
                    if not is_done:
                        break  # another process took it: read again
                    done += 1
                    progress(job)
        return done

    def _adopt(
        self, key: str, queue: str, message: bytes, start: str | None = None
    ) -> tuple[Adopted, bool]:
        """Import a message as what it says; False: it is not the next one any more."""
        job = as_job(parse(message), self._core, start)
        take = partial(self._core.jobs.import_message, key, message, queue=queue)
        try:
            return job, take(**job.named())
        except ConfigurationError as error:
            logger.warning(
                "a message from the old broker goes to the default workspace, without its task's "
                "name: %s",
                error,
            )
            job = replace(job, workspace=None, task="", was_read=False)
            return job, take(**job.named())


class SpreadAdoption(Adoption):
    """Takes messages from the lists of any Redis into a core on several shards.

    No step has both the list and the shard, so each message is set aside under the id of its job
    until that is stored. After an interruption it is imported again under this id.
    """

    def __init__(self, core: FairQueue, lists: KombuLists) -> None:
        super().__init__(core, lists)
        self._aside = Aside(lists, ASIDE)

    def finish_earlier(self, progress: Callable[[str, Adopted], Any]) -> None:
        """Adopt what an interrupted migration has set aside; tell queue and job of each."""
        for name, message in self._aside.kept():
            queue = name.partition(b" ")[2].decode()
            progress(queue, self._adopt_aside(name, queue, message))

    def adopt(
        self, queue: str, *, most: int, progress: Callable[[Adopted], Any] = lambda _: None
    ) -> int:
        """Adopt up to ``most`` messages from the lists of a queue, the most urgent first."""
        done = 0
        for _, key in self.lists.layout.lists(queue):
            while done < most:
                name = f"{new_job_id()} {queue}".encode()
                message = self._aside.take(key, name)
                if message is None:
                    break
                progress(self._adopt_aside(name, queue, message))
                done += 1
        return done

    def _adopt_aside(self, name: bytes, queue: str, message: bytes) -> Adopted:
        job, _ = self._adopt("", queue, message, start=name.partition(b" ")[0].decode())
        self._aside.forget(name)
        return job


class Adopter:
    """A chore of a worker: it adopts what waits in the lists of the queues it consumes."""

    def __init__(
        self, broker: Broker, core: FairQueue, layout: Layout, *, visibility_seconds: float
    ) -> None:
        self._broker = broker
        self._visibility_seconds = visibility_seconds
        self._lists = KombuLists(following_client(broker.url), layout)
        self._adoption = Adoption(core, self._lists)
        self._rest_seconds = SHORTEST_REST_SECONDS
        self._restore_throttle = Throttle(min(RESTORE_EVERY_SECONDS, visibility_seconds))
        self.loop = BackgroundLoop("adopting messages of the old broker", logger)

    @translated_redis_errors()
    def look(self) -> float:
        """Adopt some; return in how many seconds there may be more."""
        self._restore_overdue()
        queues = self._broker.consumed_queues()
        found = sum(self._adoption.adopt(queue, most=ADOPT_AT_ONCE) for queue in queues)
        longer = min(LONGEST_REST_SECONDS, self._rest_seconds * 1.5)
        self._rest_seconds = SHORTEST_REST_SECONDS if found else longer
        return 0.0 if found >= ADOPT_AT_ONCE else self._rest_seconds

    def close(self) -> None:
        """Close its connection."""
        self._lists.client.close()

    def _restore_overdue(self) -> None:
        if not self._restore_throttle.passes():
            return
        before = time.time() - self._visibility_seconds
        for held in self._lists.overdue(before, RESTORE_AT_ONCE):
            self._lists.restore(held)


def adopters(broker: Broker, core: FairQueue, options: Mapping[str, Any]) -> list[Adopter]:
    """Return the adopter of a worker; a broker in memory has no lists to adopt from.

    Nor is a list adopted by several shards or in a Cluster, since one step moves a message within
    one server, and what a worker has set aside would wait for as long as it is away.
    """
    if broker.url.startswith("memory://") or broker.keyprefix or len(broker.core.store.shards) > 1:
        return []
    visibility_seconds = float(options.get("visibility_timeout") or 3600)
    layout = Layout.from_options(options)
    return [Adopter(broker, core, layout, visibility_seconds=visibility_seconds)]
