"""Dead letters: ``queue.dead``."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

from fairqueue._lazy import reports
from fairqueue._stores.later import row_readers
from fairqueue._stores.store import StoreBase
from fairqueue._validation import check_name, check_text
from fairqueue.errors import ConfigurationError, UniqueKeyHeld
from fairqueue.messages import HIDDEN, LISTED_BYTES, last_line, masked
from fairqueue.operate.progress import Progress, ignore
from fairqueue.plain import WHEN, printable, time_in
from fairqueue.rows import DeadCount, DeadFilter, DeadPage

log = logging.getLogger("fairqueue")

EVERY = DeadFilter()
TEXTS = ("workspace", "queue", "task", "reason", "job_id", "error")
TIMES = ("since", "until")
MOST_STEPS = 30  # of a page
_TIME = r"\d+(\.\d+)?(e[+-]?\d+)?"
CURSOR = re.compile(rf"{_TIME} \S+ ({_TIME}|inf) \S+", re.ASCII)
SLOWEST_REPLAY = 1e-6
"""Least rate per second: one job in eleven days. A slower one is a mistake."""


def _spacing_of(per_second: float | None) -> float:
    """Return the seconds between two replayed jobs; ConfigurationError: they would never be due."""
    if per_second is not None and not per_second >= SLOWEST_REPLAY:
        raise ConfigurationError(
            f"per_second must be at least {SLOWEST_REPLAY}, not {per_second!r}"
        )
    return 1 / per_second if per_second else 0.0


def filter_of(given: Mapping[str, str | None]) -> DeadFilter:
    """Read a filter from texts; empty ones and blanks around times do not count."""
    texts = {name: text for name in TEXTS if (text := given.get(name))}
    words = {name: (given.get(name) or "").strip() for name in TIMES}
    times = {name: _time(name, word) for name, word in words.items() if word}
    return DeadFilter(**texts, **times)  # type: ignore[arg-type]


def _time(name: str, text: str) -> float:
    found = time_in(text, time.time())
    if found is None:
        raise ConfigurationError(f"{name}: {printable(text)!r} is not {WHEN}")
    return found


def _checked(chosen: DeadFilter) -> DeadFilter:
    """Return the filter, if its names and times are possible."""
    given: dict[str, Any] = {
        kind: check_name(kind, name)
        for kind in ("workspace", "queue", "task")
        if (name := getattr(chosen, kind))
    }
    for kind in ("job_id", "reason", "error"):
        given[kind] = check_text(kind.replace("_", " "), getattr(chosen, kind))
    for name in ("since", "until"):
        if isnan(getattr(chosen, name)):
            raise ConfigurationError(f"{name} must be a time in seconds since 1970, not nan")
    return replace(chosen, **given)


class DeadLetters:
    """Lists, replays and deletes dead letters: of all workspaces, or those that match a filter."""

    def __init__(self, connected: Callable[[], StoreBase]) -> None:
        self._connected = connected

    def list(
        self, chosen: DeadFilter = EVERY, *, payloads: bool = False
    ) -> Iterator[reports.DeadLetter]:
        """Yield the matching dead letters: by workspace, the oldest first, page by page.

        They have no payloads, or with ``payloads`` those of at most 16 kB; :meth:`get` returns a
        letter with any.
        """
        return (one.letter for one in self._places(chosen, payloads=payloads) if one.letter)

    def look(
        self,
        chosen: DeadFilter = EVERY,
        *,
        cursor: str = "",
        n: int = 100,
        payloads: bool = False,
    ) -> DeadPage:
        """Return a page of up to ``n`` of the dead letters that :meth:`list` yields.

        It looks at some 3,000 letters at most, so a page may be short, or empty, if few match: pass
        its ``cursor`` to the next call unless that is empty. ConfigurationError: ``n`` is below 1,
        or the cursor is none that a call returned.
        """
        if n < 1:
            raise ConfigurationError(f"n must be 1 or more, not {n!r}")
        if cursor and not CURSOR.fullmatch(cursor):
            raise ConfigurationError(f"{cursor!r} is not a cursor of this list: begin without one")
        found, steps = list[reports.DeadLetter](), 0
        places = self._places(chosen, payloads=payloads, cursor=cursor)
        for place, letter in ((one.place, one.letter) for one in places):
            if steps == MOST_STEPS or (letter and len(found) == n):
                return DeadPage(tuple(found), cursor)
            if letter:
                found.append(letter)
            else:
                steps += 1
            cursor = place
        return DeadPage(tuple(found), "")

    def _places(
        self, chosen: DeadFilter, *, payloads: bool = False, cursor: str = ""
    ) -> Iterator[row_readers.LetterAt]:
        """Yield the matching letters; a reason may be as it is shown, without its secrets."""
        wanted, hides = _checked(chosen), HIDDEN in chosen.reason
        wanted = replace(wanted, reason="") if hides else wanted
        most = LISTED_BYTES * payloads
        return (
            one
            for one in self._connected().choose_dead(wanted, payloads=most, cursor=cursor)
            if not (hides and one.letter) or masked(one.letter.reason) == chosen.reason
        )

    def page(
        self, workspace: str, *, start: int = 0, count: int = 100
    ) -> Sequence[reports.DeadLetter]:
        """Return a page of a workspace's dead letters, oldest first, from position ``start``.

        It reads those before it, too: to page through many, pass the cursor of :meth:`look`.
        """
        name = check_name("workspace", workspace)
        return self._connected().dead_letters(name, start=start, count=count)

    def get(self, workspace: str, job_id: str) -> reports.DeadLetter | None:
        """Return one dead letter; None: there is none of this id. Of several queues: the first."""
        name = check_name("workspace", workspace)
        found = self._connected().dead_letters(name, job_id=check_text("job id", job_id))
        return found[0] if found and job_id else None

    def count(self, chosen: DeadFilter = EVERY) -> Sequence[DeadCount]:
        """Count the dead letters that match by reason and task, the most first."""
        counts: dict[tuple[str, str], DeadCount] = {}
        for letter in self.list(chosen):
            key = masked(letter.reason), letter.job.task
            known = counts.get(key) or DeadCount(*key, 0, letter.died, letter.died)
            if letter.died >= known.newest:
                known = replace(known, newest=letter.died, error=last_line(letter.details))
            oldest = min(known.oldest, letter.died)
            counts[key] = replace(known, count=known.count + 1, oldest=oldest)
        return sorted(counts.values(), key=lambda row: (-row.count, row.reason, row.task))

    def replay(self, workspace: str, job_id: str, *, from_start: bool = False) -> bool:
        """Re-enqueue one dead letter to its original workspace and queue, with its id.

        Its deliveries are counted from 0 again, and no capacity applies. Steps that have finished
        (:mod:`fairqueue.step`) do not run again, except with ``from_start``. False: there is no
        such dead letter, or a job with that id exists again. UniqueKeyHeld: another job took over
        its unique key, and holds it.
        """
        name, job = check_name("workspace", workspace), check_text("job id", job_id)
        store = self._connected()
        found = store.dead_letters(name, job_id=job)
        queues = [letter.job.queue for letter in found]
        return sum(store.replay(name, queue, job, from_start=from_start) for queue in queues) > 0

    def replay_all(
        self,
        chosen: DeadFilter,
        *,
        per_second: float | None = None,
        from_start: bool = False,
        progress: Progress = ignore,
    ) -> int:
        """Re-enqueue the dead letters that match when it starts; return how many.

        With ``per_second`` they are scheduled at that rate, whatever their workspace; the call
        itself does not wait. A letter stays dead if a job has its id again, or if another job holds
        its unique key: that is logged or, for a ``job_id``, raised as UniqueKeyHeld. With
        ``from_start`` their finished steps run again. ``progress`` is called with 1 for each.
        """
        spacing, store = _spacing_of(per_second), self._connected()
        replayed = 0
        for letter in [*self.list(chosen)]:
            job = letter.job
            how: dict[str, Any] = {"delay_seconds": replayed * spacing, "from_start": from_start}
            try:
                if not store.replay(job.workspace, job.queue, job.id, **how):
                    continue
            except UniqueKeyHeld as error:
                if chosen.job_id:
                    raise
                log.warning("%s", error)
                continue
            replayed += 1
            progress(1)
        return replayed

    def purge(self, chosen: DeadFilter, *, progress: Progress = ignore) -> int:
        """Delete the dead letters that match when it starts, for good; return how many."""
        store, deleted = self._connected(), 0
        for letter in [*self.list(chosen)]:
            job = letter.job
            if store.purge_dead(job.workspace, job.queue, job.id):
                deleted += 1
                progress(1)
        return deleted

    def notices(
        self, queues: Sequence[str], *, n: int = 16, hold_seconds: float = 30.0
    ) -> Sequence[reports.DeadLetter]:
        """Take up to ``n`` notices of failed jobs of these queues (for adapters).

        There is a notice for each job that died, or was cancelled, without a worker that could
        report it. The caller runs the framework's failure handling and then calls
        :meth:`mark_reported`. If it does not, the notice becomes available again after
        ``hold_seconds``, so every failure is reported at least once.
        """
        return self._connected().take_failure_notices(queues, n=n, hold_seconds=hold_seconds)

    def mark_reported(self, letters: Sequence[reports.DeadLetter]) -> int:
        """Mark these failures as reported; return how many were not reported before."""
        return self._connected().drop_failure_notices(letters)
