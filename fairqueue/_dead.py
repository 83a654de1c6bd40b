"""Dead letters of all workspaces: the part of ``queue.admin`` that lists, counts and ends them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isnan

from fairqueue._types import DeadLetter
from fairqueue._upkeep import Upkeep
from fairqueue._validation import check_name, check_text
from fairqueue.errors import ConfigurationError, UniqueKeyHeld
from fairqueue.lists import DeadCount, DeadFilter

log = logging.getLogger("fairqueue")

SLOWEST_REPLAY = 1e-6
"""Per second: one in eleven days. Anything slower is a mistake and would never be due."""


def _ignore(_: int) -> None:
    """Show no progress."""


def spacing_of(per_second: float | None) -> float:
    """Return the seconds between two replayed jobs; ConfigurationError: they would never be due."""
    if per_second is not None and not per_second >= SLOWEST_REPLAY:
        raise ConfigurationError(
            f"per_second must be at least {SLOWEST_REPLAY}, not {per_second!r}"
        )
    return 1 / per_second if per_second else 0.0


def _checked(chosen: DeadFilter) -> DeadFilter:
    """Return the filter, if its names and times are possible."""
    for kind in ("workspace", "queue", "task"):
        if name := getattr(chosen, kind):
            check_name(kind, name)
    check_text("job id", chosen.job_id)
    check_text("reason", chosen.reason)
    for name in ("since", "until"):
        if isnan(getattr(chosen, name)):
            raise ConfigurationError(f"{name} must be a time in seconds since 1970, not nan")
    return chosen


def _error_of(letter: DeadLetter) -> str:
    """Return the last line of its traceback; nothing, if none was kept."""
    return letter.details.rstrip().rpartition("\n")[2].strip()


class Dead(Upkeep):
    """Find dead letters without naming a workspace, and replay or delete those that match."""

    def list_dead(self, chosen: DeadFilter | None = None) -> Iterator[DeadLetter]:
        """Give the dead letters that match, without payloads: by workspace, the oldest first.

        They are read page by page as they are taken; :meth:`dead_letter` returns one with its
        payload.
        """
        return self._connected().choose_dead(_checked(chosen or DeadFilter()))

    def count_dead(self, chosen: DeadFilter | None = None) -> list[DeadCount]:
        """Count the dead letters that match by reason and task, the most first."""
        counts: dict[tuple[str, str], DeadCount] = {}
        for letter in self.list_dead(chosen):
            key = letter.reason, letter.job.task
            known = counts.get(key) or DeadCount(*key, 0, letter.died, letter.died)
            if letter.died >= known.newest:
                known = replace(known, newest=letter.died, error=_error_of(letter))
            oldest = min(known.oldest, letter.died)
            counts[key] = replace(known, count=known.count + 1, oldest=oldest)
        return sorted(counts.values(), key=lambda row: (-row.count, row.reason, row.task))

    def replay_dead(
        self,
        chosen: DeadFilter | None = None,
        *,
        per_second: float | None = None,
        progress: Callable[[int], object] = _ignore,
    ) -> int:
        """Re-enqueue the dead letters that match when it starts; return how many.

        Each keeps its workspace, queue, task and id, as with :meth:`replay`. With ``per_second``
        they are scheduled to become due at that rate, whatever their workspace; the call itself
        does not wait. One that a job has the id of again stays dead, and so does one whose unique
        key another job holds: that is logged or, of a ``job_id``, raised as UniqueKeyHeld.
        """
        spacing, store = spacing_of(per_second), self._connected()
        replayed, checked = 0, chosen or DeadFilter()
        for letter in list(self.list_dead(checked)):
            job, delay = letter.job, replayed * spacing
            try:
                n = sum(store.replay(job.workspace, job_id=job.id, delay_seconds=delay))
            except UniqueKeyHeld as error:
                if checked.job_id:
                    raise
                log.warning("%s", error)
                continue
            replayed += n
            progress(n)
        return replayed

    def delete_dead(
        self,
        chosen: DeadFilter | None = None,
        *,
        progress: Callable[[int], object] = _ignore,
    ) -> int:
        """Delete the dead letters that match when it starts, for good; return how many."""
        store, deleted = self._connected(), 0
        for letter in list(self.list_dead(chosen)):
            n = sum(store.purge_dead(letter.job.workspace, job_id=letter.job.id))
            deleted += n
            progress(n)
        return deleted
