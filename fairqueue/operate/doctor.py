"""Checks and rebuilds keys, and changes the number of shards: ``queue.doctor``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice

from fairqueue._reports import DeadLetter
from fairqueue._settings import Settings
from fairqueue._stores.schedules import next_schedules
from fairqueue._stores.sharded import sharded
from fairqueue._stores.sharded.limits import refuse_small
from fairqueue._stores.sharded.mover import Moved, Mover
from fairqueue._stores.store import Store, StoreBase
from fairqueue.audit import (
    Audit,
    Checkup,
    Finding,
    Mended,
    Status,
    certain_findings,
    rebuild,
    remarks,
)
from fairqueue.errors import StoreUnavailable
from fairqueue.operate.dead import DeadLetters
from fairqueue.operate.limits import LiveLimits
from fairqueue.operate.progress import Progress, ignore
from fairqueue.operate.views import Views, demand_of
from fairqueue.rows import DeadFilter

MOST_QUEUES, MOST_JOBS = 100, 500
"""Queues with the most in line, and running jobs, that a status looks at."""
MOST_DEAD = 1000
"""Dead letters at which a status looks for the most frequent kind: those of the workspace with
the most."""


class Doctor:
    """Checks the keys, the server and the workers."""

    def __init__(self, connected: Callable[[], StoreBase], settings: Settings) -> None:
        self._connected, self._settings = connected, settings

    def audit(self) -> list[Finding]:
        """Check every key against the invariants; return what does not hold.

        Every key of the namespace is read, page by page. That is not atomic, so a finding counts
        only if further looks find it again. On a large namespace it takes memory and time. With
        several shards, each text names the shard.
        """
        return list(remarks.named([found for _, found in _looks(self._connected().shards)]))

    def rebuild(self) -> Mended:
        """Rebuild what :meth:`audit` finds; return each repair, and what still does not hold.

        It may run beside workers: each step mends one thing, looks again before, and changes
        nothing that is sound. No job whose record can be read is lost. Foreign keys, set-aside
        texts, and a limit that is exceeded until it has drained are only named.
        """
        return rebuild(self._connected())

    def checkup(self, *, repair: bool = False) -> Checkup:
        """Check the keys, the server and the workers; with ``repair`` rebuild keys first.

        Of several servers those that do not answer are named, and only the others are checked.
        Raises StoreUnavailable if none answers, or with ``repair`` if one does not.
        """
        store = self._connected()
        store.look()
        mended = rebuild(store) if repair else Mended()
        away = remarks.servers_away(store)
        there = [shard for shard in store.shards if shard.engine.server not in away]
        seen = _looks(there)
        told = chain(self._status(away).remarks, remarks.of_looks([look for look, _ in seen]))
        found = remarks.named(
            [of_shard for _, of_shard in seen], [one.engine.shard for one in there]
        )
        return Checkup(self._settings.namespace, tuple(told), tuple(found), mended.repairs)

    def status(self) -> Status:
        """Say whether anything is wrong with the servers, the workers, the queues or the limits.

        It is what :meth:`checkup` tells without the keys, which it does not read: cheap enough for
        a probe. Raises StoreUnavailable if no server answers.
        """
        return self._status(remarks.servers_away(self._connected()))

    def _status(self, away: Mapping[str, StoreUnavailable]) -> Status:
        store = self._connected()
        there = [shard for shard in store.shards if shard.engine.server not in away]
        here = sharded(store).of_these(there) if away else store
        views = Views(lambda: here, self._settings)
        servers = chain(
            remarks.of_away(store, away), remarks.of_servers(there), remarks.of_layout(there)
        )
        rows, every = views.queues(), views.workers(gone=True)
        workers = [row for row in every if row.is_alive]
        fullest = sorted(rows, key=lambda row: -row.runnable)[:MOST_QUEUES]
        busy = [row for row in fullest if row.runnable]
        found = {row.queue: views.runnable(row.queue, of_queues=len(busy)) for row in busy}
        late = remarks.late_queues((row, found[row.queue]) for row in busy)
        wanted = {row.queue: demand_of(row, workers, found[row.queue]) for row, _ in late}
        stored = LiveLimits(lambda: here).list()
        averages = {row.task: row.average_seconds for row in here.tasks()}
        told = chain(
            servers,
            remarks.of_workers(workers),
            remarks.silent_workers(every),
            remarks.failing_workers(every),
            remarks.stuck_queues(late, workers),
            remarks.missing_slots(wanted),
            remarks.long_jobs(views.running(n=MOST_JOBS).jobs, averages),
            remarks.unknown_tasks(views.unknown_tasks()),
            remarks.waits(views.blocked_waits()),
            remarks.late_schedules(next_schedules(there)),
            remarks.recent_deaths(_recent_dead(here), most=MOST_DEAD),
            remarks.paused(here.pauses()),
            remarks.contradictions(stored),
            remarks.limits_remark(stored),
        )
        running, waiting = (sum(getattr(row, n) for row in rows) for n in ("running", "waiting"))
        return Status(running, waiting, len(workers), tuple(told))

    def drop_set_aside(self) -> int:
        """Forget what was set aside because it could not be read; return how many records it was.

        An audit names each of them until then.
        """
        return self._connected().drop_set_aside()

    def reshard(
        self,
        to: int,
        *,
        dry_run: bool = False,
        wait_seconds: float = 60.0,
        progress: Progress = ignore,
    ) -> Moved:
        """Move workspaces one by one until they are spread over ``to`` shards; return what moved.

        While a workspace moves, its jobs do not start, and its publishes wait, or raise
        StoreUnavailable after 2 s. One whose jobs still run after ``wait_seconds`` stays, and is
        ``late``: call this again, as after any error. Running processes follow by themselves; new
        ones may come with either number until it is done. ``dry_run`` counts what would move.

        Raises ConfigurationError for a namespace without shards, an impossible number, a capacity
        below it, or another one than a change that has not ended; FairQueueError while another
        process does this.
        """
        mover = Mover(self._connected(), to, wait_seconds=wait_seconds, progress=progress)
        for row in self._connected().shards[0].stored_limits():
            refuse_small(row.scope, row.name, row.limits, to)
        return mover.survey() if dry_run else mover.run()


def _recent_dead(store: StoreBase) -> list[DeadLetter]:
    """Return the dead letters of the last hour, up to some."""
    chosen = DeadFilter(since=time.time() - remarks.RECENT_SECONDS)
    return list(islice(DeadLetters(lambda: store).list(chosen), MOST_DEAD))


def _looks(shards: Sequence[Store]) -> list[tuple[Audit, list[Finding]]]:
    return [certain_findings(shard.engine) for shard in shards]
