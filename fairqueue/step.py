"""Durable steps: what a task has finished does not run again when the task does.

``step.run`` calls a function once and keeps its value. A task that is retried, redelivered or
replayed runs again from the top, and ``step.run`` returns what a finished step has returned.

``step.send`` sends another task once, and ``step.result`` returns its result. A task that waits for
a result is suspended: it holds no slot, no process and no delivery, and runs again from the top.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from fairqueue._context import JobContext
from fairqueue._context import current as current_job
from fairqueue._keys import encode
from fairqueue._publish.framework_ids import message_id_of
from fairqueue._publish.must_publish import publish_until_answered
from fairqueue._worker.children import Child, Ended, InPlace, is_over
from fairqueue.errors import (
    ChildLost,
    ConfigurationError,
    LeaseLost,
    StepNotSerializable,
    StepRepeated,
    StepTooLarge,
    Suspended,
)
from fairqueue.plain import printable

log = logging.getLogger("fairqueue.step")

MOST_NAME_BYTES = 200
MOST_STEPS = 1000
MOST_BYTES = 256 * 1024

SETTLES_SECONDS = 1.0
"""A framework may store the result of a child a moment after its job has ended."""

_making = threading.Lock()


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
    with steps.begun(name):
        if steps.is_kept(name):
            return steps.value(name)
        return steps.keep(name, function(*args, **kwargs), started)


async def run_async(
    name: str, function: Callable[..., Awaitable[Any]], /, *args: Any, **kwargs: Any
) -> Any:
    """As :func:`run`, for a coroutine function. The event loop goes on meanwhile."""
    import asyncio  # noqa: PLC0415 - most programs need none

    steps, started = _of_run(name), time.monotonic()
    with steps.begun(name):
        if await asyncio.to_thread(steps.is_kept, name):
            return steps.value(name)
        value = await function(*args, **kwargs)
        return await asyncio.to_thread(steps.keep, name, value, started)


def send(name: str, task: Any, /, *args: Any, **kwargs: Any) -> str:
    """Send a child, a task or actor with these arguments, unless a run has; return its id.

    A signature or message may stand for the task and its arguments. Capacity does not refuse it.
    Outside a worker it runs in place. Raises as :func:`run` does.
    """
    return _of_run(name).send(name, task, args, kwargs).id


def result(name: str) -> Any:
    """Return the result of the child that :func:`send` has sent under this name.

    Until the child has ended, the task is suspended: nothing behind this line runs, and the task
    runs again from the top once it has. What the child has raised is raised here; the next attempt
    of the task sends the child again. Needs a late ack and a result backend, else it raises
    ConfigurationError; :class:`fairqueue.errors.ChildLost` if there is no result any more.
    """
    return _of_run(name).result(name)


def invoke(name: str, task: Any, /, *args: Any, **kwargs: Any) -> Any:
    """As :func:`send` and then :func:`result`."""
    steps = _of_run(name)
    steps.send(name, task, args, kwargs, awaited=True)
    return steps.result(name)


def key(name: str) -> str:
    """Return an idempotency key for a step, the same in all runs of this task: 32 hex digits."""
    words = json.dumps([*_of_run(name).of, name])
    return hashlib.sha256(words.encode()).hexdigest()[:32]


def end_steps(job: JobContext, *, succeeded: bool) -> Counter[str]:
    """Drop the steps of a task that has ended well; return how many ran, were kept or lost.

    After an attempt that has failed the next one sends the children that have failed again.

    For adapters, at the end of each run. A run without steps costs nothing.
    """
    steps: _Steps | None = job.steps
    if steps is None:
        return Counter()
    try:
        steps.end(succeeded=succeeded)
    except Exception as error:  # noqa: BLE001 - the run has ended
        log.warning("how the steps of %s end is not stored, and they expire: %s", job.task, error)
    return steps.counts


class _Steps:
    """The steps of one run. Safe to use from several threads of it."""

    def __init__(self, job: JobContext) -> None:
        self.job = job
        self.of = job.workspace, job.message_id or message_id_of(job.job_id)
        """The workspace, and the id of the framework's message: the same in all runs."""
        self.counts: Counter[str] = Counter()
        self.suspended = False
        self._failed: list[str] = []
        self._framework: InPlace = (job.children or InPlace)()
        self._name = f"task {printable(job.task)}" if job.task else "the task"
        self._lock = threading.RLock()  # of greenlets, too: it is held during calls
        self._begun: dict[str, object] = {}
        self._kept: Any = {} if job.store is None else None

    def is_kept(self, name: str) -> bool:
        """Return whether a step has finished in an earlier run; the first one reads which have."""
        if self.job.lost:
            raise self._lost()
        with self._lock:
            kept = {each for each in self._read() if "\n" not in each}
            if name not in kept and len(kept.union(self._begun)) > MOST_STEPS:
                raise StepTooLarge(
                    f"step {name!r} of {self._name} is one too many: at most {MOST_STEPS:,} are "
                    "kept; let each do more, or split the task"
                )
            self.counts["kept"] += name in kept
            return name in kept

    @contextmanager
    def begun(self, name: str) -> Iterator[None]:
        """Take the name for this run; a step that raises or is cancelled inside gives it back."""
        mine = object()
        if self._begun.setdefault(name, mine) is not mine:
            raise StepRepeated(
                f"{self._name} has two steps {name!r} in one run: name each by what it works on, "
                "such as f'row {row.id}'"
            )
        try:
            yield
        except BaseException:
            del self._begun[name]
            raise

    def value(self, name: str) -> Any:
        """Return what a finished step has returned, each time as an object of its own."""
        return json.loads(self._kept[name])

    def keep(self, name: str, value: Any, started: float) -> Any:
        """Store the value of a step, unless a run has done that before; return what is stored."""
        text, seconds = self._text(name, value), time.monotonic() - started
        with self._lock:
            size = len(text) + sum(map(len, self._kept.values()))
            if size > MOST_BYTES:
                raise StepTooLarge(
                    f"with step {name!r}, the values of {self._name} are {size / 1024:,.0f} KiB; "
                    f"at most {MOST_BYTES // 1024} KiB are kept: store the value elsewhere and "
                    "return its key"
                )
            if self.job.store is not None:
                line = f"{encode(name)} {seconds:.3f} {text}"
                kept = self._until_answered(lambda: self._note(name, line))
                if kept is None:
                    raise self._lost()
                text = kept.split(" ", 2)[2]
            self._kept[name] = text
            self.counts["run"] += "\n" not in name
        return self.value(name)

    def end(self, *, succeeded: bool) -> None:
        """Drop them, or let the next attempt send the children that have failed again."""
        if succeeded and self.job.store is not None and self._kept:
            self._note("", "ended")
        if not succeeded and not self.suspended:
            for name in self._failed:
                self.keep(f"{name}\nfailed {self._number(name)}", None, time.monotonic())

    # Children

    def send(self, name: str, task: Any, args: Any, kwargs: Any, *, awaited: bool = False) -> Child:
        """Send a child, unless a run has noted that, or its result is there."""
        with self.begun(name):
            self.is_kept(name)
            return self._child(name) or self._send(name, task, args, kwargs, awaited=awaited)

    def _send(self, name: str, task: Any, args: Any, kwargs: Any, *, awaited: bool) -> Child:
        started, number = time.monotonic(), self._number(name)
        child_id = str(uuid5(NAMESPACE_URL, json.dumps([*self.of, name, number])))
        call, *named = self._framework.call(task, args, kwargs)
        child = Child(child_id, self.job.workspace, *named)
        if self._ended(name, child, awaited=awaited) is None:
            child = self._framework.send(call, child, [*self.of])
        self.keep(f"{name}\n{number}", child, started)
        return child

    def result(self, name: str) -> Any:
        """Return what a child has returned, or raise what it has raised; else suspend the task."""
        child = self._child(name)
        if child is None:
            raise ConfigurationError(
                f"step.result({name!r}) of {self._name}: no child of this name was sent before; "
                "call step.send first, or step.invoke"
            )
        if name in self._kept:
            return self.value(name)
        started, ended = time.monotonic(), self._ended(name, child)
        store: Any = self.job.store
        if ended is None and self._until_answered(lambda: is_over(store(), child)):
            lost = ChildLost(
                f"child {name!r} of {self._name} has ended (task {child.task}, id {child.id}), "
                "and the result backend has no result: let it keep results for longer, or look "
                "whether the child's worker could store it"
            )
            time.sleep(SETTLES_SECONDS)
            ended = self._ended(name, child) or Ended(error=lost)
        if ended is None:
            self.suspended = True
            raise Suspended(f"{self._name} waits for child {name!r} (id {child.id})")
        if ended.error is not None:
            self._failed.append(name)
            raise ended.error
        return self.keep(name, ended.value, started)

    def _number(self, name: str) -> int:
        """Which child of this name is the present one: each that has failed has another id."""
        return sum(key.startswith(f"{name}\nfailed ") for key in list(self._kept))

    def _ended(self, name: str, child: Child, *, awaited: bool = True) -> Ended | None:
        """Look for the result of a child; ConfigurationError: it is awaited, and none can come."""
        if awaited and self.job.store is not None and not self.job.redeliverable:
            raise ConfigurationError(
                f"{self._name} cannot wait for child {name!r}, since a task that is acked early "
                "cannot be suspended: set acks_late=True"
            )
        try:
            return self._framework.ended(child)
        except ConfigurationError:
            if awaited:
                raise
            return None  # only the id of its job tells whether an earlier run has sent it

    def _child(self, name: str) -> Child | None:
        text = self._read().get(f"{name}\n{self._number(name)}")
        return None if text is None else Child(*json.loads(text))

    def _text(self, name: str, value: Any) -> str:
        try:
            return json.dumps(value, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise StepNotSerializable(
                f"step {name!r} of {self._name} returned a {type(value).__name__} that JSON cannot "
                f"hold: {error}; return text, numbers, lists and dicts of them, and give a "
                "coroutine function to step.run_async"
            ) from error

    def _read(self) -> Any:
        """Return what earlier runs have kept, which is read once, and what this one has."""
        job: Any = self.job
        with self._lock:
            if self._kept is not None:
                return self._kept
            if not job.redeliverable:
                _say_that_it_is_acked_early(self._name)
            try:
                self._kept = self._until_answered(lambda: job.store().steps(*self.of))
            except ValueError as error:
                log.warning("%s; all of them run again", error)
                self._until_answered(lambda: self._note("", "unread"))
                self._kept = {}
            return self._kept

    def _note(self, step: str, line: str) -> Any:
        job: Any = self.job
        return job.store().note_step(job.fence, *self.of, step, line, early=not job.redeliverable)

    def _until_answered(self, ask: Callable[[], Any]) -> Any:
        """What has run is not forgotten because the store is away for a moment."""
        return publish_until_answered(ask, f"a step of {self._name}", self.job.gives_up)

    def _lost(self) -> LeaseLost:
        self.counts["lost"] += 1
        return LeaseLost(self.job.job_id, self.job.workspace)


@lru_cache(1000)  # once for each task
def _say_that_it_is_acked_early(name: str) -> None:
    log.info(
        "%s is acked before it runs: its finished steps serve its retries, but a job whose worker "
        "dies does not run again; acks_late=True changes that",
        name,
    )


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
