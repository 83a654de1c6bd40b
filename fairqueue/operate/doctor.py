"""Checks and rebuilds keys, and changes the number of shards: ``queue.doctor``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from fairqueue._settings import Settings
from fairqueue._stores.sharded.limits import refuse_small_parts
from fairqueue._stores.store import Store, StoreBase
from fairqueue.operate.limits import LiveLimits
from fairqueue.operate.progress import Progress, ignore
from fairqueue.operate.views import Views

if TYPE_CHECKING:  # a worker imports no auditor: the methods below do
    from fairqueue._stores.sharded.mover import Moved
    from fairqueue.audit import Audit, Checkup, Finding, Mended


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
        from fairqueue.audit.shards import named  # noqa: PLC0415

        return list(named([found for _, found in _looks(self._connected().shards)]))

    def rebuild(self) -> Mended:
        """Rebuild what :meth:`audit` finds; return each repair, and what still does not hold.

        It may run beside workers: each step mends one thing, looks again before, and changes
        nothing that is sound. No job whose record can be read is lost. Foreign keys, set-aside
        texts, and a limit that is exceeded until it has drained are only named.
        """
        from fairqueue.audit import rebuild  # noqa: PLC0415

        return rebuild(self._connected())

    def checkup(self, *, repair: bool = False) -> Checkup:
        """Check the keys, the server and the workers; with ``repair`` rebuild keys first.

        Of several servers those that do not answer are named, and only the others are checked.
        Raises StoreUnavailable if none answers, or with ``repair`` if one does not.
        """
        from fairqueue.audit import Checkup, Mended, checkup, rebuild, shards  # noqa: PLC0415

        store = self._connected()
        store.look()
        mended = rebuild(store) if repair else Mended()
        away = shards.servers_away(store)
        there = [shard for shard in store.shards if shard.engine.server not in away]
        seen = _looks(there)
        here = store.of_these(there) if away else store
        views = Views(lambda: here, self._settings)
        workers = views.workers()
        told = chain(
            shards.of_away(store, away),
            shards.of_servers(there),
            shards.of_layout(there),
            checkup.remarks([look for look, _ in seen], workers),
            checkup.unknown_tasks(views.unknown_tasks()),
            checkup.waits(views.blocked_waits()),
            checkup.limits_remark(LiveLimits(lambda: here).list()),
        )
        found = shards.named(
            [of_shard for _, of_shard in seen], [one.engine.shard for one in there]
        )
        return Checkup(self._settings.namespace, tuple(told), tuple(found), mended.repairs)

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
        from fairqueue._stores.sharded.mover import Mover  # noqa: PLC0415

        mover = Mover(self._connected(), to, wait_seconds=wait_seconds, progress=progress)
        refuse_small_parts(self._connected().shards[0], to)
        return mover.survey() if dry_run else mover.run()


def _looks(shards: Sequence[Store]) -> list[tuple[Audit, list[Finding]]]:
    from fairqueue.audit import certain_findings  # noqa: PLC0415

    return [certain_findings(shard.engine) for shard in shards]
