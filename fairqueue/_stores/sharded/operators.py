"""What operators ask of a sharded store: limits, pauses, cancelling, dead letters, requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.sharded.asking import each, first, taken
from fairqueue._stores.sharded.limits import ShardedLimits
from fairqueue._stores.sharded.requests import ShardedRequests
from fairqueue._stores.store import Store
from fairqueue._types import Cancelled, DeadLetter, Job, Pause
from fairqueue.errors import ConfigurationError


class ShardedOperators(ShardedLimits, ShardedRequests):
    """What names a workspace is asked of its shard, the rest of one shard after the other.

    Where something must be done on every shard, one that is away does not keep the others from it:
    the first error is raised when all were asked. A search raises it only if it finds nothing.
    """

    def reap(self, *, max_deliveries: int | None) -> int:
        """Process expired leases and due timers of every shard; return how many."""
        return sum(each(self.every, lambda shard: shard.reap(max_deliveries=max_deliveries)))

    def depth(self, queue: str, *, running: bool = False) -> int:
        """Count a queue's jobs on all shards."""
        return sum(each(self.every, lambda shard: shard.depth(queue, running=running)))

    def declare(self, queue: str, *, plain: bool) -> None:
        """Store a queue's kind on every shard, later where one has not answered yet."""

        def declare(shard: Store) -> None:
            shard.declare(queue, plain=plain)

        self.later(declare)
        each(self.there, declare)

    def is_plain(self, queue: str) -> bool | None:
        """Return a queue's kind, which a publish declares on its own shard only; None: on none."""
        return first(self.there, lambda shard: shard.is_plain(queue), nothing=None)

    def purge(
        self,
        queue: str | None = None,
        workspace: str | None = None,
        task: str | None = None,
        *,
        cancelled: bool = False,
    ) -> Iterator[int]:
        """Remove waiting and scheduled jobs, on one shard after the other."""
        shards = (self.home(workspace),) if workspace else self.every
        return chain.from_iterable(
            shard.purge(queue, workspace, task, cancelled=cancelled) for shard in shards
        )

    def cancel(self, job_id: str, queue: str | None = None) -> Cancelled:
        """Cancel one job, on the first shard that has it."""

        def cancel(shard: Store) -> Cancelled:
            return shard.cancel(job_id, queue)

        return first(self.every, cancel, nothing=Cancelled.NOT_FOUND)

    def withdraw(self, job_id: str, queue: str) -> Job | None:
        """Cancel and return a waiting or scheduled job, of the first shard that has it."""
        return first(self.every, lambda shard: shard.withdraw(job_id, queue), nothing=None)

    def find(self, queue: str, text: bytes, words: Collection[bytes] = ()) -> Iterator[list[str]]:
        """Yield ids of jobs whose payload contains a text, of one shard after the other."""
        return chain.from_iterable(shard.find(queue, text, words) for shard in self.every)

    def cancel_running(self, workspace: str) -> Iterator[int]:
        """Cancel all running jobs of a workspace."""
        return self.home(workspace).cancel_running(workspace)

    def pause(self, scope: str, name: str, how: Pause | None) -> Pause | None:
        """Pause, drain or resume a scope; return the state before on the first shard that had one.

        Of all scopes but a workspace this is one step for each shard: call it again after an error.
        """
        before = each(self._of_scope(scope, name), lambda shard: shard.pause(scope, name, how))
        return next(filter(None, before), None)

    def dead_letters(
        self, workspace: str, *, job_id: str | None = None, start: int = 0, count: int = 100
    ) -> list[DeadLetter]:
        """Return a page of a workspace's dead letters, or the one with this id."""
        home = self.home(workspace)
        return home.dead_letters(workspace, job_id=job_id, start=start, count=count)

    def replay(
        self,
        workspace: str,
        *,
        job_id: str | None = None,
        delay_seconds: float = 0.0,
        spacing_seconds: float = 0.0,
    ) -> Iterator[int]:
        """Re-enqueue a workspace's dead letters."""
        return self.home(workspace).replay(
            workspace, job_id=job_id, delay_seconds=delay_seconds, spacing_seconds=spacing_seconds
        )

    def purge_dead(self, workspace: str, *, job_id: str | None = None) -> Iterator[int]:
        """Delete a workspace's dead letters."""
        return self.home(workspace).purge_dead(workspace, job_id=job_id)

    def take_failure_notices(
        self, queues: Sequence[str], *, n: int, hold_seconds: float
    ) -> list[DeadLetter]:
        """Take up to ``n`` notices, beginning at another shard each time.

        A shard that is away is passed where others have some.
        """

        def take(shard: Store, left: int) -> list[DeadLetter]:
            return shard.take_failure_notices(queues, n=left, hold_seconds=hold_seconds)

        return taken(self.in_turn, take, n=n)

    def drop_failure_notices(self, letters: Sequence[DeadLetter]) -> int:
        """Mark failures as reported, each on the shard of its workspace.

        One of a workspace that moves takes its notice along, and is reported again.
        """
        of_shard = defaultdict[Store, list[DeadLetter]](list)
        for letter in letters:
            with suppress(WorkspaceMoves):
                of_shard[self.home(letter.job.workspace)].append(letter)
        return sum(each(of_shard, lambda shard: shard.drop_failure_notices(of_shard[shard])))

    def import_message(
        self,
        source: str,
        job: Job,
        *,
        kind: str,
        without_workspace: bool = False,
        shards: str = "",  # noqa: ARG002 - the arguments are those of a store of one shard
    ) -> bool:
        """Import a message that the caller has taken from its list; waits as a publish does.

        Raises ConfigurationError for one that is in a list: no step has both that and the shard.
        """
        if source:
            raise ConfigurationError(
                f"a message of the list {source!r} cannot be imported where workspaces are spread "
                f"over {len(self.shards)} shards, since the list and the shard are not always on "
                "one server: take it from there first, and import it with source='' and a job_id"
            )

        def import_there() -> bool:
            home, known = self.placed(job.workspace)
            return home.import_message(
                "", job, kind=kind, without_workspace=without_workspace, shards=known
            )

        return self.patiently(import_there)

    def export_jobs(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move a queue's jobs into lists of each shard, whose keys begin as exported() says.

        Raises ConfigurationError while workspaces move, since jobs of these are on two shards.
        """
        shards = self.every
        if self.layout.mark.to is not None:
            raise ConfigurationError(
                f"jobs of queue {queue!r} cannot be exported while the number of shards changes: "
                "let 'fairqueue reshard' end first"
            )
        for workspace in chain.from_iterable(shard.under_way() for shard in shards):
            raise ConfigurationError(
                f"jobs of queue {queue!r} cannot be exported while workspace {workspace!r} moves "
                "to its parent's shard: set its parent again, which ends a move that was killed"
            )
        for shard in shards:
            begin = shard.engine.keys.exported()
            yield from shard.export_jobs(queue, [(least, begin + key) for least, key in lists])

    def suspend_imports(self, seconds: float) -> None:
        """Refuse imports for this many seconds, on every shard; 0: allow them."""
        each(self.shards, lambda shard: shard.suspend_imports(seconds))

    def imported(self) -> Mapping[str, int]:
        """Return how many messages were ever imported, by kind."""
        counts: Counter[str] = Counter()
        for some in each(self.shards, lambda shard: shard.imported()):
            counts.update(some)
        return dict(counts)
