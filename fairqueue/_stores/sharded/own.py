"""The operations that take several steps on several shards: ``MERGE own`` in their headers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from fairqueue._lazy import explained, reports, rows
from fairqueue._shards.placement import SHARDS_MOST
from fairqueue._stores import replies
from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.later import fleet as fleets
from fairqueue._stores.later import row_readers
from fairqueue._stores.lists import MOST_FLOWS
from fairqueue._stores.permits import Count, home_of, limit_of
from fairqueue._stores.sharded.asking import each, first
from fairqueue._stores.sharded.merges import added, joined
from fairqueue._stores.sharded.router import Router
from fairqueue._stores.store import Store, StoreBase
from fairqueue._types import Job, JobState
from fairqueue.errors import ConfigurationError, StoreUnavailable

T = TypeVar("T")

NOT_HERE = {JobState.ENDED: 1, JobState.UNKNOWN: 2}
"""The answer of a shard that does not have the job; the lower one is the better answer."""


class OwnMethods(Router, StoreBase):
    """Operations whose steps no header can describe, except limits and publishes."""

    def waiting(
        self, queue: str = "", *, workspace: str = "", cursor: str = "", **chosen: Any
    ) -> rows.JobPage:
        """Return a queue's waiting jobs, shard by shard; a cursor begins with the shard."""
        if workspace:
            home = self.home(workspace)
            return home.waiting(queue, workspace=workspace, cursor=cursor, **chosen)
        shard, _, inside = cursor.partition(":")
        at = int(shard or 0) if (shard or "0").isdecimal() else SHARDS_MOST
        if at >= len(self.every):
            raise ConfigurationError(f"{cursor!r} is not a cursor of this list: begin without one")
        found = self.shards[at].waiting(queue, cursor=inside, **chosen)
        if found.cursor:
            return replace(found, cursor=f"{at}:{found.cursor}")
        return replace(found, cursor=f"{at + 1}:" if at + 1 < len(self.shards) else "")

    def why(
        self,
        *,
        workspace: str | None,
        fleet: Callable[[], fleets.Fleet] | None = None,
        **asked: Any,
    ) -> explained.Why:
        """Ask the workspace's shard, or each for the job; count workers and leases of all.

        The jobs and turns ahead are those of the workspace's shard. A workspace that moves is
        looked for on its old shard, then on its new one.
        """
        elsewhere: list[explained.Why] = []
        shards = self._places_of(workspace) if workspace else self.every

        def fleet_of_all() -> fleets.Fleet:
            return replace((fleet or self.fleet)(), used=self.permits_used)

        def ask(shard: Store) -> explained.Why | None:
            why = shard.why(workspace=workspace, fleet=fleet_of_all, **asked)
            elsewhere.append(why)
            is_left = why.state is JobState.IDLE and shard is not shards[-1]
            return None if is_left or why.state in NOT_HERE else why

        found = first(shards, ask, nothing=(None,))
        return found or min(elsewhere, key=lambda why: NOT_HERE.get(why.state, 0))

    def permits_used(self, limits: Collection[str]) -> dict[str, int]:
        """Return how many jobs run under limits wider than a shard; ask the homes that answer."""
        return {limit: found.used for limit, found in self._permits_of(limits).items()}

    def _permits_of(self, limits: Collection[str]) -> dict[str, Count]:
        found: dict[str, Count] = {}
        for home in {home_of(limit) for limit in limits}:
            here = [limit for limit in limits if home_of(limit) == home]
            with suppress(StoreUnavailable):
                found |= zip(here, self.shards[home].count_permits(here), strict=True)
        return found

    def runnable(self, queue: str, *, most: int = MOST_FLOWS) -> rows.Runnable:
        """Add up what could run, bounded by the limits over all shards."""
        found: rows.Runnable = added([shard.runnable(queue, most=most) for shard in self.every])
        if len(self.shards) == 1:
            return found
        counts = self._permits_of([limit_of("total", ""), limit_of("queue", queue)]).values()
        rooms = [count.room for count in counts if count.room is not None]
        return replace(found, startable=min([found.startable, *rooms]))

    def _places_of(self, workspace: str) -> tuple[Store, ...]:
        """Return a workspace's shard; while it moves, the old one, then the new one."""
        try:
            return (self.home(workspace),)
        except WorkspaceMoves:
            at, forwarding = self.followed(workspace)
            return at, at if forwarding.to is None else self.shards[forwarding.to]

    def snapshot(self, names: Sequence[str] = ()) -> list[rows.WorkspaceStats]:
        """Join the workspaces; ask each named workspace's shard."""
        of_shard: dict[Store, list[str]] = {} if names else {shard: [] for shard in self.every}
        for name in names:
            for place in dict.fromkeys(self._places_of(name)):
                of_shard.setdefault(place, []).append(name)
        found = chain.from_iterable(shard.snapshot(some) for shard, some in of_shard.items())
        return joined(found, "workspace")

    def sample(self, queue: str, n: int, *, by: str = "workspace") -> Counter[str]:
        """Sample each shard in proportion to its jobs of the queue."""
        depths = {shard: shard.depth(queue, running=True) for shard in self.every}
        part, chosen = n / max(1, sum(depths.values())), Counter[str]()
        for shard, depth in depths.items():
            chosen.update(shard.sample(queue, round(part * depth), by=by))
        return chosen

    def choose_dead(
        self, choice: rows.DeadFilter, *, payloads: int = 0, cursor: str = ""
    ) -> Iterator[row_readers.LetterAt]:
        """Yield the matching letters, the workspace with the oldest letter first."""
        shards = [self.home(choice.workspace)] if choice.workspace else self.every
        found = (shard.choose_dead(choice, payloads=payloads, cursor=cursor) for shard in shards)
        yield from merge(*found, key=attrgetter("order"))

    def drop_failure_notices(self, letters: Sequence[reports.DeadLetter]) -> int:
        """Mark failures as reported, each on the shard of its workspace.

        A workspace that moves takes its notices along, and they are reported again.
        """
        of_shard = _grouped(letters, lambda letter: self.home(letter.job.workspace))
        return sum(each(of_shard, lambda shard: shard.drop_failure_notices(of_shard[shard])))

    def import_message(self, source: str, job: Job, **how: Any) -> bool:
        """Import a message that the caller has taken from its list; waits as a publish does.

        Raises ConfigurationError for a message in a list, which may be on another shard.
        """
        is_one = len(self.every) == 1
        if source and not is_one:
            raise ConfigurationError(
                f"a message of the list {source!r} cannot be imported where workspaces are spread "
                f"over {len(self.shards)} shards, since the list and the shard are not always on "
                "one server: take it from there first, and import it with source='' and a job_id"
            )

        def import_there() -> bool:
            home, known = self.placed(job.workspace)
            return home.import_message(source if is_one else "", job, **{**how, "shards": known})

        return self.patiently(import_there)

    def export_jobs(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move a queue's jobs into lists on each shard, whose keys begin as exported() says.

        Raises ConfigurationError while workspaces move: their jobs are on two shards.
        """
        shards = self.every
        if len(shards) == 1:
            yield from shards[0].export_jobs(queue, lists)
            return
        if self.layout.mark.to is not None:
            raise ConfigurationError(
                f"jobs of queue {queue!r} cannot be exported while the number of shards changes: "
                "let 'fairqueue reshard' end first"
            )
        for shard in shards:
            begin = shard.engine.keys.exported()
            yield from shard.export_jobs(queue, [(least, begin + key) for least, key in lists])

    def renew_requests(self, tickets: Sequence[str], *, lease_seconds: float) -> list[str]:
        """Renew requests on each shard; those of a workspace that has moved on its new one."""
        of_shard = _grouped(
            tickets, lambda ticket: self.placed(replies.workspace_of_ticket(ticket))[0]
        )

        def renew(shard: Store) -> None:
            for ticket in shard.renew_requests(of_shard[shard], lease_seconds=lease_seconds):
                with suppress(WorkspaceMoves):  # it takes its tickets along
                    home = self.home(replies.workspace_of_ticket(ticket))
                    home.renew_requests([ticket], lease_seconds=lease_seconds)

        each(of_shard, renew)
        return []


def _grouped(found: Iterable[T], home: Callable[[T], Store]) -> Mapping[Store, list[T]]:
    """Group by the shard of each workspace, without those that move."""
    of_shard = defaultdict[Store, list[T]](list)
    for one in found:
        with suppress(WorkspaceMoves):
            of_shard[home(one)].append(one)
    return of_shard
