"""Sends many publishes in few calls, and reads the outcome of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairqueue._keys import encode, encode_task
from fairqueue._stores import replies
from fairqueue._types import Admission, Job, JobId
from fairqueue.errors import (
    CapacityExceeded,
    FairQueueError,
    PublishInterrupted,
    StoreUnavailable,
)

PUBLISHED_AT_ONCE = 100  # jobs in one call: more would be a long script
BYTES_AT_ONCE = 1_000_000  # of payload in one call, unless one job alone has more

REJECTED_WITH_ITS_GROUP = 5
GROUP_REJECTION_WORDS = 9

Outcome = JobId | FairQueueError
Call = Callable[[str, bytes], Any]
"""Runs the script with these groups and jobs."""
Pair = tuple[int, Job, Admission]
"""A job and its index among all."""


@dataclass
class _Group:
    """The jobs of one group, which are admitted together."""

    name: str
    entries: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How many jobs capacity applies to, by queue, workspace and task."""
    is_decided: bool = False
    rejection: CapacityExceeded | None = None

    def add(self, job: Job, admission: Admission) -> None:
        if not admission.exempt:
            self.entries[job.queue, job.workspace, job.task] += 1

    def line(self) -> str:
        """Write it for the script; only the first call decides, later ones just name the group."""
        counted = {} if self.is_decided else self.entries
        entries = (
            f"{encode(q)} {encode(w)} {encode_task(t)} {n};" for (q, w, t), n in counted.items()
        )
        return f"{encode(self.name)}|{''.join(entries)}\n"

    def reject(self, reply: Sequence[Any]) -> CapacityExceeded:
        _, *words, wanted, entry = reply
        queue, workspace, task = list(self.entries)[entry]
        self.rejection = replies.refusal(words, Job("", workspace, queue, task, b""), wanted or 1)
        return self.rejection


class Publishes:
    """Jobs that are published together, in calls of at most a hundred."""

    def __init__(
        self,
        jobs: Sequence[tuple[Job, Admission]],
        shards: str = "",
        names: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._shards, self._names = shards, names
        self._pairs = [(at, *pair) for at, pair in enumerate(jobs)]
        self._outcomes: list[Outcome] = []
        self._groups: dict[str, _Group] = {}
        for job, admission in jobs:
            if admission.group is not None:
                group = self._groups.setdefault(admission.group, _Group(admission.group))
                group.add(job, admission)

    def send(self, call: Call) -> list[Outcome]:
        """Publish all; return their outcomes in order. Raises PublishInterrupted."""
        for part in self._parts():
            try:
                self._outcomes += self._sent(part, call)
            except StoreUnavailable as error:
                raise PublishInterrupted(str(error), self._outcomes) from error
        return self._outcomes

    def _parts(self) -> Iterator[list[Pair]]:
        part: list[Pair] = []
        size = 0
        for pair in self._pairs:
            size += len(pair[1].payload)
            if part and (len(part) == PUBLISHED_AT_ONCE or size > BYTES_AT_ONCE):
                yield part
                part, size = [], len(pair[1].payload)
            part.append(pair)
        if part:
            yield part

    def _sent(self, part: list[Pair], call: Call) -> list[Outcome]:
        groups: dict[str, int] = {}
        found = {at: self._rejection(admission) for at, _, admission in part}
        asked = [pair for pair in part if found[pair[0]] is None]
        if asked:
            packed = b"".join(self._packed(job, how, groups) for _, job, how in asked)
            lines = "".join(self._groups[name].line() for name in groups)
            reply = call(lines, packed)
            answers = [reply] * len(asked) if isinstance(reply, int) else reply
            for (at, job, how), answer in zip(asked, answers, strict=True):
                found[at] = self._outcome(job, how, answer)
        for name in groups:
            self._groups[name].is_decided = True
        return [found[at] for at, _, _ in part]  # type: ignore[misc] # each has one now

    def _packed(self, job: Job, admission: Admission, groups: dict[str, int]) -> bytes:
        """Write one job; its group is named by its number."""
        number = 0
        if admission.group is not None:
            number = groups.setdefault(admission.group, len(groups) + 1)
            admission = admission._replace(group=None)
        names = self._names(job.task)
        text = replies.publish_text(job, admission, self._shards, names=names).encode()
        return b"%d %d %d %b%b" % (number, len(text), len(job.payload), text, job.payload)

    def _rejection(self, admission: Admission) -> Outcome | None:
        return None if admission.group is None else self._groups[admission.group].rejection

    def _outcome(self, job: Job, admission: Admission, reply: Any) -> Outcome:
        if admission.group is not None:
            group = self._groups[admission.group]
            if reply == REJECTED_WITH_ITS_GROUP and group.rejection is not None:
                return group.rejection
            if not isinstance(reply, int) and len(reply) == GROUP_REJECTION_WORDS:
                return group.reject(reply)
        try:
            return replies.published(reply, job)
        except FairQueueError as error:
            return error
