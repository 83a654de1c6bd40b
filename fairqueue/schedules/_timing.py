"""When a schedule is due: cron lines in a time zone, and intervals of real seconds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any, cast

from fairqueue._validation import seconds_from_zero
from fairqueue.errors import ConfigurationError

OVERLAP = ("queue", "skip")
CATCH_UP = ("none", "once", "all")
ALL_MOST = 100
"""With ``catch_up="all"``, how many ticks are published that are late."""
COUNTED_MOST = 1000  # missed ticks; of more, the last ones are looked for from the end
WINDOW_SECONDS = 64.0
CLOSEST_SECONDS = 1.0
NO_CRONSIM = "cron lines need cronsim: pip install 'fairqueue[schedules]', or use every="


@dataclass(frozen=True)
class Schedule:
    """When a schedule is due, and what becomes of ticks that overlap or are late.

    Either ``cron``, a line of five fields (or six, with seconds first), by the clocks of ``tz``; or
    ``every``, seconds from 1 or a timedelta. Where clocks change, ``30 2 * * *`` is due once: after
    a gap in it, and in the first of two equal hours; ``0 * * * *`` and ``every`` follow real time.

    Raises ConfigurationError for what is wrong or never due.
    """

    cron: str | None = None
    every: float | timedelta | None = None
    tz: str = "UTC"
    overlap: str = "queue"
    """``"queue"``: each tick is a job; ``"skip"``: none while that of an earlier tick waits or
    runs."""
    catch_up: str = "once"
    """Of ticks that are later than ``grace``: ``"none"`` is published, the latest one (``"once"``),
    or ``"all"``, at most 100."""
    grace: float = 60.0
    """Seconds by which a tick may be late without being missed, at least 5."""
    spread: float = 0.0
    """Seconds over which the ticks of different workspaces and names are spread."""
    until: float | datetime | None = None
    """The last possible tick: an aware datetime, or seconds since 1970."""
    both_days: bool = False
    """Of a cron line that restricts the days of the month and of the week: it is due where both
    fit, as Celery's crontab, and not where one does, as cron."""

    def __post_init__(self) -> None:
        self._normalize()
        if (self.cron is None) == (self.every is None):
            raise ConfigurationError("a schedule has either cron= or every=: give one of them")
        for name, allowed in (("overlap", OVERLAP), ("catch_up", CATCH_UP)):
            if getattr(self, name) not in allowed:
                raise ConfigurationError(
                    f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}"
                )
        if self._every is not None and self._every < CLOSEST_SECONDS:
            raise ConfigurationError(f"every must be at least 1 second, not {self._every:g}")
        self._check_zone()
        if self.cron is not None:
            self._check_cron()

    def _normalize(self) -> None:
        every, until = self.every, self.until
        if isinstance(every, timedelta):
            every = every.total_seconds()
        if isinstance(until, datetime):
            if until.tzinfo is None:
                raise ConfigurationError("until must be a datetime with a time zone")
            until = until.timestamp()
        for name, value in (("every", every), ("until", until)):
            if value is not None:
                object.__setattr__(self, name, seconds_from_zero(name, value))
        for name in ("grace", "spread"):
            value = getattr(self, name)
            object.__setattr__(self, name, seconds_from_zero(name, value))
            if value < 0:
                raise ConfigurationError(f"{name} must be at least 0 seconds, not {value:g}")

    def _check_zone(self) -> None:
        try:
            self._zone()
        except (KeyError, ValueError, OSError, TypeError):
            raise ConfigurationError(
                f"there is no time zone {self.tz!r} here: correct the name, or pip install tzdata"
            ) from None

    def _check_cron(self) -> None:
        try:
            from cronsim import CronSimError  # noqa: PLC0415 - an extra
        except ModuleNotFoundError:
            raise ConfigurationError(NO_CRONSIM) from None
        try:
            next(self._cron_from(0))
        except (CronSimError, ValueError, TypeError, AssertionError) as error:
            raise ConfigurationError(f"cron {self.cron!r}: {error}") from None
        except StopIteration:
            raise ConfigurationError(f"cron {self.cron!r} is never due") from None

    @property
    def _every(self) -> float | None:
        return cast("float | None", self.every)  # a timedelta only until it is normalized

    @property
    def _until(self) -> float:
        return math.inf if self.until is None else cast("float", self.until)

    def _zone(self) -> tzinfo:
        if self.tz == "UTC":
            return timezone.utc
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - few processes make schedules

        return ZoneInfo(self.tz)

    def stored(self) -> dict[str, Any]:
        """Return what a definition keeps: what differs from the defaults, and the time zone."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name == "tz" or value != getattr(Schedule, name)
        }

    def after(self, at: float) -> float | None:
        """Return the tick that follows the tick ``at``, or for cron any time; None: the last."""
        found = next(self._ticks_after(at), math.inf)
        return None if found > self._until else found

    def _ticks_after(self, at: float) -> Iterator[float]:
        if self._every is not None:
            while True:
                at = round(at + self._every, 3)
                yield at
        # Begun inside the second of two equal hours, cronsim may answer with a time before.
        for found in self._cron_from(at):
            later = found.timestamp()
            if later > at:
                at = later
                yield at

    def _cron_from(self, at: float) -> Iterator[datetime]:
        from cronsim import CronSim  # noqa: PLC0415 - an extra

        cron = CronSim(str(self.cron), datetime.fromtimestamp(at, self._zone()))
        cron.day_and = cron.day_and or self.both_days
        return cron

    def late(self, tick: float, now: float, most: int) -> tuple[list[float], int]:
        """Return the last ticks from this one to now, and how many there are before these.

        Of more than a thousand in all, that is how many are known.
        """
        now, every = min(now, self._until), self._every
        if every is not None:
            n = max(0, math.floor((now - tick) / every)) + 1
            kept = min(n, most)
            return [round(tick + i * every, 3) for i in range(n - kept, n)], n - kept
        found, width = [tick, *self._between(tick, now)], WINDOW_SECONDS
        known = len(found)
        while known > COUNTED_MOST and (len(found) < most or width == WINDOW_SECONDS):
            found = self._between(now - width, now)
            width *= 2
        kept = min(len(found), most)
        return found[-kept:], known - kept

    def _between(self, after: float, now: float) -> list[float]:
        """Return the ticks later than a time, up to now, or the first thousand of them."""
        some = islice(self._ticks_after(after), COUNTED_MOST)
        return list(takewhile(lambda at: at <= now, some))

    def delay(self, workspace: str, name: str) -> float:
        """Return how long after a tick its job is published, by a hash of its names."""
        digest = blake2b(f"{workspace}\n{name}".encode(), digest_size=6).digest()
        return round(self.spread * int.from_bytes(digest, "big") / 256**6, 3)
