"""Durable steps: what a task has finished does not run again when the task does.

``step.run`` calls a function once and keeps its value. A task that is retried, redelivered or
replayed runs again from the top, and ``step.run`` returns what a finished step has returned.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fairqueue._context import JobContext
from fairqueue._context import current as current_job
from fairqueue._keys import encode
from fairqueue._publish.continuation import publish_until_answered
from fairqueue._publish.unique_outcomes import message_id_of
from fairqueue._threads import native_lock
from fairqueue.errors import (
    ConfigurationError,
    LeaseLost,
    StepNotSerializable,
    StepRepeated,
    StepTooLarge,
)
from fairqueue.plain import printable

log = logging.getLogger("fairqueue.step")

MOST_NAME_BYTES = 200
MOST_STEPS = 1000
MOST_BYTES = 256 * 1024
NAMED_MOST = 1000

_making = native_lock()
_named: set[str] = set()


def run(name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call ``function(*args, **kwargs)`` in the running task, unless the step has finished before.

    Returns its value, as JSON gives it back: the same in the run that computes it and in each later
    run of this task, which has the same task or message id. A step that raises is not kept. At
    least once: a worker that dies after the call and before its value is kept calls it again, so
    pass :func:`key` to what can tell repetitions apart. Rename a step when its meaning changes.

    Raises LeaseLost if another worker has the job by now; StepRepeated for a second step of this
    name in one run; StepTooLarge beyond 256 KiB or 1,000 steps; StepNotSerializable if JSON cannot
    hold the value; ConfigurationError outside a job.
    """
    steps, started = _of_run(name), time.monotonic()
    if steps.begin(name):
        return steps.value(name)
    with steps.forgotten_if_it_raises(name):
        return steps.keep(name, function(*args, **kwargs), started)


async def run_async(
    name: str, function: Callable[..., Awaitable[Any]], /, *args: Any, **kwargs: Any
) -> Any:
    """As :func:`run`, for a coroutine function. The event loop goes on meanwhile."""
    import asyncio  # noqa: PLC0415 - most programs need none

    steps, started = _of_run(name), time.monotonic()
    if await asyncio.to_thread(steps.begin, name):
        return steps.value(name)
    with steps.forgotten_if_it_raises(name):
        value = await function(*args, **kwargs)
        return await asyncio.to_thread(steps.keep, name, value, started)


def key(name: str) -> str:
    """Return an idempotency key for a step, the same in all runs of this task: 32 hex digits."""
    steps = _of_run(name)
    words = [steps.job.workspace, steps.task_id, name]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:32]


def end_steps(job: JobContext, *, succeeded: bool) -> Counter[str]:
    """Drop the steps of a task that has ended well; return how many ran, were kept or lost.

    For adapters, at the end of each run. A run without steps costs nothing.
    """
    steps: _Steps | None = job.steps
    if steps is None:
        return Counter()
    if succeeded:
        steps.drop()
    return steps.counts


class _Steps:
    """The steps of one run. Safe to use from several threads of it."""

    def __init__(self, job: JobContext) -> None:
        self.job = job
        self.task_id = job.message_id or message_id_of(job.job_id)
        self.counts: Counter[str] = Counter()
        self._name = f"task {printable(job.task)}" if job.task else "the task"
        self._lock = native_lock()
        self._begun: set[str] = set()
        self._kept: dict[str, str] | None = None

    def begin(self, name: str) -> bool:
        """Return whether a step has finished in an earlier run; the first one reads which have."""
        if self.job.lost:
            raise self._lost()
        with self._lock:
            kept = self._kept = self._read() if self._kept is None else self._kept
            if name in self._begun:
                raise StepRepeated(
                    f"{self._name} has two steps {name!r} in one run: name each by what it works "
                    "on, such as f'row {row.id}'"
                )
            if name not in kept and len(kept.keys() | self._begun) >= MOST_STEPS:
                raise StepTooLarge(
                    f"step {name!r} of {self._name} is one too many: at most {MOST_STEPS:,} are "
                    "kept; let each do more, or split the task"
                )
            self._begun.add(name)
            if name in kept:
                self.counts["kept"] += 1
        return name in kept

    def value(self, name: str) -> Any:
        """Return what a finished step has returned, each time as an object of its own."""
        return json.loads((self._kept or {})[name])

    @contextmanager
    def forgotten_if_it_raises(self, name: str) -> Iterator[None]:
        """Let a step that raises run again in this run."""
        try:
            yield
        except BaseException:
            self._begun.discard(name)
            raise

    def keep(self, name: str, value: Any, started: float) -> Any:
        """Store the value of a step, unless a run has done that before; return what is stored."""
        text, seconds = self._text(name, value), time.monotonic() - started
        with self._lock:
            assert self._kept is not None  # noqa: S101 - it has begun
            is_alone = len(text) > MOST_BYTES
            of_all = len(text) + (0 if is_alone else sum(map(len, self._kept.values())))
            if of_all > MOST_BYTES:
                whose = f"step {name!r}" if is_alone else f"with step {name!r} what is kept"
                raise StepTooLarge(
                    f"{whose} of {self._name} is {of_all / 2**20:.1f} MiB; at "
                    f"most {MOST_BYTES // 1024} KiB: store it elsewhere and return its key"
                )
            if self.job.store is not None:
                line = f"{encode(name)} {seconds:.3f} {text}"
                kept = self._until_answered(lambda: self._ask("note_step", name, line))
                if kept is None:
                    raise self._lost()
                text = kept.split(" ", 2)[2]
            self._kept[name] = text
            self.counts["run"] += 1
        return self.value(name)

    def drop(self) -> None:
        """The task has ended well. If this fails, its steps expire."""
        try:
            if self.job.store is not None and self._kept:
                self._ask("drop_steps")
        except Exception as error:  # noqa: BLE001 - the task has succeeded
            log.warning("the finished steps of %s stay for 30 days: %s", self._name, error)

    def _text(self, name: str, value: Any) -> str:
        try:
            return json.dumps(value, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise StepNotSerializable(
                f"step {name!r} of {self._name} returned a {type(value).__name__} that JSON cannot "
                f"hold: {error}; return text, numbers, lists and dicts of them"
            ) from error

    def _read(self) -> dict[str, str]:
        job = self.job
        if job.store is None:
            return {}
        if not job.redeliverable and self._name not in _named and len(_named) < NAMED_MOST:
            _named.add(self._name)
            log.info(
                "%s is acked before it runs: its finished steps serve its retries, but a job whose "
                "worker dies does not run again; acks_late=True changes that",
                self._name,
            )
        store = job.store()
        try:
            found = self._until_answered(lambda: store.steps(job.workspace, self.task_id))
        except ValueError as error:
            log.warning("%s; all of them run again", error)
            self._until_answered(lambda: self._ask("drop_steps", unread=True))
            found = {}
        return dict(found)

    def _ask(self, operation: str, *args: str, **how: bool) -> Any:
        job: Any = self.job
        act = getattr(job.store(), operation)
        return act(
            job.fence, job.workspace, self.task_id, *args, early=not job.redeliverable, **how
        )

    def _until_answered(self, ask: Callable[[], Any]) -> Any:
        """What has run is not forgotten because the store is away for a moment."""
        return publish_until_answered(ask, f"a step of {self._name}", self.job.gives_up)

    def _lost(self) -> LeaseLost:
        self.counts["lost"] += 1
        return LeaseLost(self.job.job_id, self.job.workspace)


def _of_run(name: object) -> _Steps:
    is_text = isinstance(name, str) and name.isprintable()
    if not is_text or not 0 < len(str(name).encode()) <= MOST_NAME_BYTES:
        raise ConfigurationError(
            f"the name of a step has 1 to {MOST_NAME_BYTES} printable bytes, not {name!r:.80}"
        )
    job = current_job()
    if job is None:
        raise ConfigurationError(
            f"step {name!r} was called outside a job: call it in a task or actor that a worker runs"
        )
    steps: _Steps
    with _making:  # several threads may begin at once
        job.steps = steps = job.steps or _Steps(job)
    return steps
