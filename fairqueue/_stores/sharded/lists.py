"""What a sharded store lists: the rows of all shards, as of one store.

Each shard is read by itself, so a list is no picture of one moment, even where a page of one shard
is. Their rows come in no order where those of one store come in none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import chain
from operator import attrgetter
from typing import Literal, NoReturn

from fairqueue._shards import SHARDS_MOST
from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.fleet import Fleet, TakenSlot, fleet_of
from fairqueue._stores.list_rows import Held
from fairqueue._stores.lists import PAGE
from fairqueue._stores.sharded import rows
from fairqueue._stores.sharded.asking import each, first
from fairqueue._stores.sharded.shards import Shards
from fairqueue._stores.store import Store
from fairqueue._types import DeadLetter, JobState, Stats, Why, WithoutWorkspace
from fairqueue.errors import ConfigurationError
from fairqueue.lists import (
    DeadFilter,
    JobPage,
    PauseRow,
    QueueRow,
    Runnable,
    RunningJobs,
    Sample,
    StoredLimitsRow,
    TaskRow,
    WorkerRow,
)

NOT_HERE = {JobState.ENDED: 1, JobState.UNKNOWN: 2}
"""What a shard says of a job that it does not have; the lower one is the better answer."""
ONE_SHARD = "an auditor asks each of store.shards by itself"


class ShardedLists(Shards):
    """The lists. Where a workspace is given, its shard alone is asked."""

    def _asked(self, workspace: str) -> tuple[Store, ...]:
        return (self.home(workspace),) if workspace else self.every

    def running(
        self,
        n: int,
        *,
        workspace: str = "",
        queue: str = "",
        task: str = "",
        owners: Collection[str] = (),
        longer_than: float | None = None,
    ) -> RunningJobs:
        """Merge the longest of each shard, by when they started."""
        found = [
            shard.running(
                n,
                workspace=workspace,
                queue=queue,
                task=task,
                owners=owners,
                longer_than=longer_than,
            )
            for shard in self._asked(workspace)
        ]
        jobs = (job for part in found for job in part.jobs)
        oldest = nsmallest(n, jobs, key=attrgetter("since", "fence"))
        return RunningJobs(tuple(oldest), sum(part.total for part in found))

    def held(self, by: Literal["owner", "task"]) -> Iterator[list[Held]]:
        """Yield the pages of each shard in turn."""
        for shard in self.shards:
            yield from shard.held(by)

    def waiting(
        self, queue: str, *, workspace: str = "", task: str = "", cursor: str = "", n: int = PAGE
    ) -> JobPage:
        """Return those of a queue shard by shard; what a cursor leaves, divided by 64, is which."""
        if workspace:
            home = self.home(workspace)
            return home.waiting(queue, workspace=workspace, task=task, cursor=cursor, n=n)
        inside, at = self._place(cursor)
        found = self.shards[at].waiting(queue, task=task, cursor=str(inside or ""), n=n)
        if found.cursor:
            return replace(found, cursor=str(int(found.cursor) * SHARDS_MOST + at))
        return replace(found, cursor=str(at + 1) if at + 1 < len(self.shards) else "")

    def _place(self, cursor: str) -> tuple[int, int]:
        """Read the cursor in a shard, and which shard that is."""
        inside, at = divmod(int(cursor or 0), SHARDS_MOST)
        if at >= len(self.every):
            raise ConfigurationError(f"{cursor!r} is no cursor of this list: begin without one")
        return inside, at

    def queues(self) -> Iterator[list[QueueRow]]:
        """Yield all queues at once, each once, with what all shards have of it."""
        by_name = ({row.queue: row for page in one.queues() for row in page} for one in self.every)
        found = (row for of_shard in by_name for row in of_shard.values())
        yield rows.merged(found, attrgetter("queue"), rows.queue)

    def runnable(self, queue: str) -> Runnable:
        """Add up what could run on each shard."""
        return rows.runnable([shard.runnable(queue) for shard in self.every])

    def tasks(self) -> Iterator[list[TaskRow]]:
        """Yield all tasks at once, each once; an average is that of the shards' averages."""
        by_name = ({row.task: row for page in one.tasks() for row in page} for one in self.every)
        found = (row for of_shard in by_name for row in of_shard.values())
        yield rows.merged(found, attrgetter("task"), rows.task)

    def workers(self) -> Iterator[list[WorkerRow]]:
        """Yield all owners at once, each as the shard knows it that heard of it last."""
        found = (row for shard in self.every for page in shard.workers() for row in page)

        def newest(of_owner: Sequence[WorkerRow]) -> WorkerRow:
            return min(of_owner, key=attrgetter("silent_seconds"))

        yield rows.merged(found, attrgetter("owner"), newest)

    def introduce(
        self,
        owner: str,
        node: str,
        software: str,
        *,
        queues: Sequence[str] | None = None,
        slots: int | None = None,
        lease_seconds: float = 30.0,
        limits: str = "",
    ) -> None:
        """Tell each shard; if some do not answer tell the others, then raise the first error."""

        def introduce(shard: Store) -> None:
            shard.introduce(
                owner,
                node,
                software,
                queues=queues,
                slots=slots,
                lease_seconds=lease_seconds,
                limits=limits,
            )

        each(self.shards, introduce)

    def why(
        self,
        *,
        workspace: str | None,
        job_id: str | None,
        queue: str | None,
        fleet: Callable[[], Fleet] | None = None,
    ) -> Why:
        """Ask the workspace's shard, else each for the job; workers and leases are those of all.

        The jobs and turns ahead are those of the workspace's shard. One that moves is asked for on
        the shard that it leaves and, once nothing is left there, on the other one.
        """
        elsewhere: list[Why] = []
        asked = self._places_of(workspace) if workspace else self.every

        def ask(shard: Store) -> Why | None:
            why = shard.why(
                workspace=workspace, job_id=job_id, queue=queue, fleet=fleet or self.fleet
            )
            elsewhere.append(why)
            is_left = why.state is JobState.IDLE and shard is not asked[-1]
            return None if is_left or why.state in NOT_HERE else why

        found = first(asked, ask, nothing=None)
        found = found or min(elsewhere, key=lambda why: NOT_HERE.get(why.state, 0))
        return rows.why(found, self.quotas.used)

    def _places_of(self, workspace: str) -> tuple[Store, ...]:
        try:
            return (self.home(workspace),)
        except WorkspaceMoves:
            return tuple(self.shards[n] for n in self._both(workspace))

    def _both(self, workspace: str) -> tuple[int, int]:
        """Return the shard that a workspace leaves, and the one to which it goes."""
        at, way = self.followed(workspace)
        return at.engine.shard, at.engine.shard if way.to is None else way.to

    def fleet(self) -> Fleet:
        """Return what the workers and leases of all shards are."""
        return fleet_of(chain.from_iterable(self.workers()), *self.taken_slots())

    def taken_slots(self) -> tuple[list[TakenSlot], int]:
        """Return the same part of the leases of each shard, and how many there are in all."""
        return rows.slots([shard.taken_slots() for shard in self.every])

    def pauses(self) -> list[PauseRow]:
        """Return each pause once, as it was stored first."""
        found = (row for shard in self.every for row in shard.pauses())
        merged = rows.merged(found, attrgetter("scope", "name"), rows.pause)
        return sorted(merged, key=attrgetter("since", "scope", "name"))

    def names(self, place: str, scope: str) -> Iterator[list[str]]:
        """Yield the pages of each shard in turn; a name may come from several."""
        for shard in self.every:
            yield from shard.names(place, scope)

    def stored_limits(self) -> Iterator[list[StoredLimitsRow]]:
        """Yield the pages of each shard in turn, but what several have only once."""
        seen: set[tuple[str, str, str]] = set()
        for page in (page for shard in self.every for page in shard.stored_limits()):
            fresh = {(row.scope, row.name, row.source): row for row in page}
            yield [row for key, row in fresh.items() if key not in seen]
            seen |= fresh.keys()

    def snapshot(self, names: Sequence[str] = ()) -> Stats:
        """Put together the workspaces, and add up the queues; names are asked of their shards.

        Of a workspace that moves these are the one that it leaves, and the one to which it goes.
        """
        of_shard: dict[Store, list[str]] = {} if names else {shard: [] for shard in self.every}
        for name in names:
            for place in self._places_of(name):
                of_shard.setdefault(place, []).append(name)
        found = [shard.snapshot(some) for shard, some in of_shard.items()]
        found_rows = (row for part in found for row in part.workspaces)
        workspaces = rows.merged(found_rows, attrgetter("workspace"), rows.workspace)
        return Stats(
            tuple(sorted(workspaces, key=attrgetter("workspace"))),
            dict(rows.counts(part.queues for part in found)),
            self.without_workspace(),
            self.set_aside(),
        )

    def note_sample(self, sample: Sample) -> bool:
        """Add it to the history, which the first shard keeps for all."""
        return self.shards[0].note_sample(sample)

    def history(self) -> list[Sample]:
        """Return what the first shard keeps for all."""
        return self.shards[0].history()

    def without_workspace(self) -> dict[str, WithoutWorkspace]:
        """Add up the jobs of all shards; the last one is the latest of all."""
        return rows.without_workspace(shard.without_workspace() for shard in self.every)

    def set_aside(self) -> dict[str, int]:
        """Add up what the shards have set aside."""
        return dict(rows.counts(shard.set_aside() for shard in self.every))

    def drop_set_aside(self) -> int:
        """Forget it on each shard."""
        return sum(each(self.every, Store.drop_set_aside))

    def sample(self, queue: str, n: int) -> Counter[str]:
        """Choose from each shard by its part of the queue's jobs."""
        shards = self.every
        depths = [shard.depth(queue, running=True) for shard in shards]
        part = n / max(1, sum(depths))
        chosen = [round(part * depth) for depth in depths]
        return rows.counts(
            shard.sample(queue, some) for shard, some in zip(shards, chosen, strict=True)
        )

    def heads(self, *_: object, **__: object) -> NoReturn:
        """Refuse: an auditor reads the keys of one shard."""
        raise TypeError(ONE_SHARD)

    def mend(self, *_: object, **__: object) -> NoReturn:
        """Refuse: an auditor mends the keys of one shard."""
        raise TypeError(ONE_SHARD)

    def dead_workspaces(self) -> Iterator[tuple[float, str]]:
        """Give those of each shard in turn."""
        for shard in self.every:
            yield from shard.dead_workspaces()

    def choose_dead(self, choice: DeadFilter) -> Iterator[DeadLetter]:
        """Give those that match, as one store does: the workspace with the oldest letter first."""
        if choice.workspace:
            yield from self.home(choice.workspace).choose_dead(choice)
            return
        shards = enumerate(self.every)
        found = sorted((*oldest, n) for n, one in shards for oldest in one.dead_workspaces())
        for name, n in dict.fromkeys((name, n) for _, name, n in found):
            yield from self.shards[n].choose_dead(replace(choice, workspace=name))
