"""Another number of shards for a namespace in use: a part of ``queue.admin``."""

from __future__ import annotations

from collections.abc import Callable

from fairqueue._dead import Dead
from fairqueue._stores.sharded.limits import refuse_small_parts
from fairqueue._stores.sharded.mover import Moved, Mover


def _ignore(_: int) -> None:
    """Show no progress."""


class Reshard(Dead):
    """Move workspaces to another number of shards."""

    def reshard(
        self,
        to: int,
        *,
        dry_run: bool = False,
        wait_seconds: float = 60.0,
        progress: Callable[[int], object] = _ignore,
    ) -> Moved:
        """Move workspaces one by one until they are spread over ``to`` shards; return what moved.

        Nothing of a workspace starts while it moves, and its publishes wait, or raise
        StoreUnavailable after 2 s. One whose jobs still run after ``wait_seconds`` stays, and is
        ``late``: call this again. So it may be after any error. Processes that run follow by
        themselves; new ones may come with either number until it is done. ``dry_run`` counts what
        would move.

        Raises ConfigurationError for a namespace without shards, an impossible number, a capacity
        below it, or another one than a change that has not ended; FairQueueError while another
        process does this.
        """
        mover = Mover(self._connected(), to, wait_seconds=wait_seconds, progress=progress)
        refuse_small_parts(self._connected().shards[0], to)
        return mover.survey() if dry_run else mover.run()
