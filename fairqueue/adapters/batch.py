"""Collects an adapter's publishes, to send them together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairqueue._publish.capacity_wait import wait_seconds, waited
from fairqueue._publish.new_job import NewJob
from fairqueue._queue import FairQueue
from fairqueue._stores.publishes import PUBLISHED_AT_ONCE
from fairqueue._types import Admission, Job, JobId
from fairqueue._validation import new_job_id
from fairqueue.errors import (
    BatchInterrupted,
    BatchRefused,
    CapacityExceeded,
    FairQueueError,
    LeaseLost,
    PublishInterrupted,
)

PART_SECONDS = 0.05
"""How long a job of a batch of unknown size waits at most for others."""


def _as_set(core: FairQueue) -> float:
    return wait_seconds(core.settings, None)


@dataclass(slots=True)
class Collected:
    """One publish that waits to be sent with its batch."""

    core: FairQueue
    job: Job
    admission: Admission
    name: str
    stored: Callable[[JobId], None]
    at: float = field(default_factory=time.monotonic)
    follows: list[Callable[[], object]] = field(default_factory=list)
    """Calls to make after the publish, once it is stored."""

    def now(self) -> tuple[Job, Admission]:
        """Return the job to publish now: its delay and expiry count from the original call."""
        if self.job.delay_seconds or self.job.expires_seconds is not None:
            return waited(self.job, time.monotonic() - self.at), self.admission
        return self.job, self.admission


class Batch:
    """Publishes in their order. With a ``group``, all of them are accepted or none."""

    def __init__(self, group: str | None = None) -> None:
        self.group = group
        self.is_open = True
        self.has_exempt = False
        self.latest: Collected | None = None
        """The last publish, until the next begins; the calls that follow it are added there."""
        self.kept: dict[Any, Any] = {}
        """What an adapter keeps from one publish to the next."""
        self._waiting: list[Collected] = []
        self._keys: set[tuple[str, str]] = set()
        self._stored: list[str] = []
        self._refused: dict[str, FairQueueError] = {}
        self._to_follow: deque[tuple[Collected, JobId]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self) -> None:
        """Begin another publish: the calls that follow the last one are complete."""
        self.latest = None

    def add(
        self, core: FairQueue, new: NewJob, *, name: str, stored: Callable[[JobId], None]
    ) -> None:
        """Collect a publish once; raises ConfigurationError as the publish would.

        ``name`` is its id in its framework, and ``stored`` is called once it is stored.
        """
        new.group = self.group or new.group
        job, admission = core._checked(new, is_new=True)  # noqa: SLF001 - of this package
        key = job.queue, admission.other_id or job.id
        if key not in self._keys:
            self._keys.add(key)
            self.has_exempt |= admission.exempt
            self.latest = Collected(core, job, admission, name, stored)
            self._waiting.append(self.latest)

    def join(self, other: Batch) -> None:
        """Take over another batch's publishes."""
        self._waiting += other._waiting
        self._keys |= other._keys

    def send(self, block_seconds: Callable[[FairQueue], float] = _as_set) -> None:
        """Publish all; call it again after BatchInterrupted, which stored a part.

        ``block_seconds``: how long to wait for capacity; default: the setting. Raises LeaseLost,
        CapacityExceeded if a whole batch was rejected, BatchRefused.
        """
        while self._waiting:
            core = self._waiting[0].core
            mine = [one for one in self._waiting if one.core is core]
            try:
                self._publish(core, mine, block_seconds(core))
            except PublishInterrupted as error:
                self._interrupted(error)
        self._raise_refused()

    def _publish(self, core: FairQueue, mine: list[Collected], block_seconds: float) -> None:
        pairs = [one.now() for one in mine]
        try:
            publish = partial(core._publish_many, pairs, within_seconds=block_seconds)  # noqa: SLF001
            outcomes = core.outages.publish_many(pairs, publish)
        except PublishInterrupted as error:
            self._settle(mine, list(error.outcomes))
            raise
        self._settle(mine, outcomes)

    def _settle(self, mine: list[Collected], outcomes: list[JobId | FairQueueError]) -> None:
        done = {id(one) for one in mine[: len(outcomes)]}
        self._waiting = [one for one in self._waiting if id(one) not in done]
        for one, outcome in zip(mine, outcomes, strict=False):
            if isinstance(outcome, FairQueueError):
                self._refused[one.name] = outcome
                continue
            if one.admission.tick is not None and not outcome.is_new:
                continue  # another process has published it, or it is skipped
            self._stored.append(one.name)
            self._to_follow.append((one, outcome))
        self._settled()

    def _settled(self) -> None:
        self.follow()

    def follow(self) -> None:
        """Make the calls that follow the stored publishes."""
        while self._to_follow:
            one, job_id = self._to_follow.popleft()
            one.stored(job_id)
            for follow in one.follows:
                follow()

    def finish(self, send: Callable[[Batch], None]) -> None:
        """The block has ended: send what is left."""
        if self._waiting:
            send(self)

    def close(self) -> None:
        """End the block, maybe with an error: collect no more."""
        self.is_open = False

    def _interrupted(self, error: PublishInterrupted) -> None:
        for one in self._waiting:  # some of them may be stored
            one.admission = one.admission._replace(is_new=False)
        raised = BatchInterrupted(str(error))
        raised.stored = tuple(self._stored)
        raised.unknown = tuple(one.name for one in self._waiting)
        raise raised from error

    def _raise_refused(self) -> None:
        for error in self._refused.values():
            if isinstance(error, LeaseLost):
                raise error
        for error in self._refused.values():
            if self.group is not None and not self._stored:
                raise error
            if isinstance(error, CapacityExceeded):
                raised = BatchRefused(*error.args)
                raised.stored, raised.refused = tuple(self._stored), dict(self._refused)
                raise raised


class GrowingBatch(Batch):
    """A batch of unknown size, sent in parts; the first part decides whether it is accepted.

    Its producer may wait for results of its first jobs, so a thread sends each job within
    ``PART_SECONDS``. The calls that follow are made in the publishing thread.
    """

    def __init__(self, group: str | None, send: Callable[[Batch], None]) -> None:
        super().__init__(group)
        self._send = send
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        """Begin another publish: make the calls that follow those stored meanwhile."""
        super().begin()
        self.follow()

    def add(
        self, core: FairQueue, new: NewJob, *, name: str, stored: Callable[[JobId], None]
    ) -> None:
        """Collect a publish, and send each hundred; raises errors of earlier parts."""
        with self._lock:
            self._raise_error()
            if len(self) >= PUBLISHED_AT_ONCE:
                self._send(self)
            super().add(core, new, name=name, stored=stored)
            if self._timer is None:
                context = copy_context()
                self._timer = threading.Timer(PART_SECONDS, context.run, (self._send_part,))
                self._timer.daemon = True
                self._timer.start()

    def _send_part(self) -> None:
        with self._lock:
            self._timer = None
            try:
                if self.is_open and self._error is None:
                    self._send(self)
            except Exception as error:  # noqa: BLE001 - raised in the thread that publishes
                self._error = error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _settled(self) -> None:
        """Leave the calls that follow to the next publish: the last one may not be complete."""

    def finish(self, send: Callable[[Batch], None]) -> None:
        """The block has ended: send what is left."""
        self._raise_error()
        try:
            super().finish(send)
        finally:
            self.follow()

    def close(self) -> None:
        """End the block: wait for a part that is being sent."""
        super().close()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
        self.follow()


class Batches:
    """The batches of one adapter, one in each context."""

    def __init__(self, name: str) -> None:
        self._current: ContextVar[Batch | None] = ContextVar(name, default=None)

    @property
    def active(self) -> Batch | None:
        """The open batch of this context, if any; an asyncio task made in it may outlive it."""
        batch = self._current.get()
        return batch if batch is not None and batch.is_open else None

    @contextmanager
    def collect(
        self, send: Callable[[Batch], None], *, whole: bool, grows: bool = False
    ) -> Iterator[None]:
        """Collect the publishes inside the block, and ``send`` them at its end.

        A block inside another adds to that one. A ``whole`` block stays whole inside one that is
        not, and goes with it, unless it has publishes that must not be refused. After an error in
        the block nothing is sent. One that ``grows`` is sent in parts, unless it is inside another.
        """
        outer = self.active
        if outer is not None and (outer.group is not None or not whole):
            yield
            return
        group = new_job_id() if whole else None
        batch = GrowingBatch(group, send) if grows and outer is None else Batch(group)
        token = self._current.set(batch)
        try:
            yield
        finally:
            batch.close()
            self._current.reset(token)
        if outer is not None and not batch.has_exempt:
            outer.join(batch)
        else:
            batch.finish(send)
