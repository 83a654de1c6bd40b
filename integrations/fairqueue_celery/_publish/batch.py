"""Tasks that are sent together: a group, a chord, and what ``with batch(app):`` encloses."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from kombu.utils.functional import retry_over_time

import fairqueue
from fairqueue import adapters
from fairqueue_celery._consume import pool
from fairqueue_celery.errors import let_through

logger = logging.getLogger("fairqueue_celery.publish")

T = TypeVar("T")

batches = adapters.Batches("fairqueue_celery_batch")

chord_header: ContextVar[Any] = ContextVar("fairqueue_celery_chord_header", default=None)
"""Of the chord that this context begins."""

SENT = "task.sent"
"""The routing key of the event that follows a publish."""


def batch(app: Any) -> AbstractContextManager[None]:
    """Send the tasks that are called inside the block together, when it ends.

    One round trip for every hundred, with the results, signals and events of single calls; signals
    and events that follow a publish come at the end of the block. Groups in it are accepted whole
    or not at all. After an error in the block no task of it is sent.

    The end of the block raises :class:`fairqueue_celery.BatchRefused` for tasks that are refused,
    whose ``stored`` and ``refused`` name all of them by id, and
    :class:`fairqueue_celery.BatchInterrupted` if the store goes away. Retries and continuations of
    a running task are sent at once. The app says how often a publish is tried again.
    """
    return batches.collect(partial(_send, app), whole=False)


def whole_batch(app: Any, *, grows: bool) -> AbstractContextManager[None]:
    """The same for a group: tasks that are accepted together or not at all.

    One that ``grows`` comes from a generator: it is sent as it grows, and its first part decides.
    """
    return batches.collect(partial(_send, app), whole=True, grows=grows)


def block_seconds(core: fairqueue.FairQueue) -> float:
    """How long a publish of this process waits for room; a worker's main process does not."""
    if core.settings.on_full != "block":
        return 0.0
    is_free = adapters.running_job() is not None or not pool.is_worker()
    return core.settings.block_seconds if is_free else 0.0


def _send(app: Any, collected: adapters.Batch) -> None:
    act = partial(collected.send, block_seconds)
    with let_through:
        if collected.has_exempt and adapters.running_job() is not None:
            until_answered(act, "a group, which follows from a job,")
        else:
            _tried(app, act)


def until_answered(act: Callable[[], T], what: str) -> T:
    """Do it again while the store is away, unless the worker in this process is told to stop.

    A job that is acked late goes back then: Celery would reject it for good.
    """
    try:
        return adapters.publish_until_answered(act, what, pool.is_told_to_stop)
    except fairqueue.StoreUnavailable as error:
        give_back(f"{what} is not stored: {error}", error)
        raise


def named(task: str) -> str:
    """A task that follows from a job, as logs name it."""
    return f"task {task!r}, a retry or continuation,"


def give_back(why: str, error: Exception) -> None:
    """Let another worker run the job again, if it is acked late."""
    job = adapters.running_job()
    if job is not None and job.redeliverable:
        from celery.exceptions import Reject  # noqa: PLC0415 - a producer never imports it

        raise Reject(why, requeue=True) from error


def _tried(app: Any, act: Callable[[], None]) -> None:
    """Do it as often as Celery would try one publish."""
    policy = app.conf.task_publish_retry_policy or {}
    most = policy.get("max_retries", 3)
    if not app.conf.task_publish_retry or most == 0:
        return act()
    names = ("interval_start", "interval_step", "interval_max")
    intervals = {name: policy[name] for name in names if name in policy}
    retry_over_time(act, fairqueue.StoreUnavailable, max_retries=most, **intervals)
    return None


def follow(signal: Any) -> None:
    """Let this signal, which follows a publish, come after the publish of its batch."""
    live = signal._live_receivers  # noqa: SLF001 - Celery keeps ``signal.send`` by itself

    def receivers(sender: Any) -> Any:
        latest = _latest()
        if latest is None:
            return live(sender)

        def later(signal: Any, **named: Any) -> None:
            latest.follows.append(partial(signal.send, **named))

        return [later]

    signal._live_receivers = receivers  # noqa: SLF001


def _latest() -> Any:
    collecting = batches.active
    return None if collecting is None else collecting.latest


def follows_publish(routing_key: str, publish_event: Callable[[], Any]) -> bool:
    """Whether this is the event of a publish that waits for its batch; it comes after that."""
    latest = _latest() if routing_key == SENT else None
    if latest is None:
        return False
    latest.follows.append(partial(_publish_event, publish_event))
    return True


def _publish_event(publish_event: Callable[[], Any]) -> None:
    try:
        publish_event()
    except Exception as error:  # noqa: BLE001 - the task is published, its event may be missing
        logger.warning("the event task-sent of a task that was published is lost: %s", error)


def batch_groups(canvas: Any, producer_of: Callable[[Any], Any]) -> None:
    """Let groups and chords be sent as batches, by the producer of single calls."""
    apply_tasks, run = canvas.group._apply_tasks, canvas._chord.run  # noqa: SLF001 - no public hook

    def grows(tasks: Any) -> bool:
        """Whether a generator makes them; Celery makes those of a group inside a group at once."""
        return isinstance(tasks, canvas._regen)  # noqa: SLF001

    @functools.wraps(apply_tasks)
    def apply_whole(
        self: Any, tasks: Any, producer: Any = None, app: Any = None, *args: Any, **options: Any
    ) -> Iterator[Any]:
        app = app or self.app
        with whole_batch(app, grows=grows(self.tasks)):
            own = producer_of(app) if producer is None else producer
            return iter(list(apply_tasks(self, tasks, own, app, *args, **options)))

    @functools.wraps(run)
    def run_whole(self: Any, header: Any, *args: Any, **options: Any) -> Any:
        token = chord_header.set(header)
        try:
            with whole_batch(self.app, grows=grows(header.tasks)):
                return run(self, header, *args, **options)
        finally:
            chord_header.reset(token)

    canvas.group._apply_tasks, canvas._chord.run = apply_whole, run_whole  # noqa: SLF001
