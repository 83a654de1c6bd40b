"""Plain text for people: names that are safe to show, counts, durations, rates, moments."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timezone
from urllib.parse import unquote

ALMOST = 1e-6
WHEN = "a time, such as 2030-01-31T12:00 (UTC), or 2h for two hours ago"
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([smhd]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


_TICK = re.compile(r"(?:\w{16}~)?tick,(\d+),([^,]*),")


def tick_prefix(schedule: str, at: float) -> str:
    """How the id of the message of a tick begins: its time in milliseconds, and the schedule.

    The name of the schedule is percent-encoded.
    """
    return f"tick,{at * 1000:.0f},{schedule[:60]},"


def tick_in(job_id: str) -> tuple[float, str] | None:
    """Read the time of a job's tick and its schedule from its id, or a retry's; None: no tick."""
    found = _TICK.match(job_id)
    return found and (int(found[1]) / 1000, unquote(found[2]))


def printable(text: str) -> str:
    """Escape every character that could control a terminal or reorder a line."""
    return "".join(
        _escaped(char) if unicodedata.category(char) in _UNSAFE else char for char in text
    )


def label(text: str) -> str:
    """Make the label of a metric: also backslashes are escaped, so no two texts become one."""
    return printable(text.replace("\\", "\\\\"))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def cut(text: str, most: int) -> str:
    """The first characters of a text, and an ellipsis if it has more."""
    return text if len(text) <= most else f"{text[:most]}…"


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 workspace``, ``2,000 processes``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def count_jobs(count: int) -> str:
    """A number of jobs: ``1 job``, ``2,000 jobs``."""
    return counted(count, "job")


def duration(seconds: float | None) -> str:
    """A duration for people: ``24 ms``, ``0.4 s``, ``12 s``, ``3 m 05 s``, ``2 h 03 m``."""
    if seconds is None:
        return "–"
    if 0 < seconds < 0.0995:  # noqa: PLR2004 - what rounds to 0.1 s is shown as such
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:  # noqa: PLR2004 - what rounds to 10 is shown without a tenth
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} m"
    return f"{minutes} m {rest:02} s" if minutes else f"{rest} s"


def seconds_in(text: str) -> float | None:
    """Read a duration as people write it: ``90``, ``90s``, ``5m``, ``2h``; None: it is none."""
    found = _DURATION.fullmatch(text)
    return None if found is None else float(found[1]) * _SECONDS[found[2]]


def time_in(text: str, now: float) -> float | None:
    """Read a point in time: ISO 8601, in UTC unless it names a zone, or a duration before now.

    None: it is neither.
    """
    ago = seconds_in(text)
    if ago is not None:
        return now - ago
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return None


def rate(per_second: float) -> str:
    """A rate as the settings take it: ``10/s``, ``150/m``, ``1/h``."""
    for seconds, unit in ((1, "s"), (60, "m"), (3600, "h")):
        number = per_second * seconds
        if number >= 1 and abs(number - round(number)) < ALMOST:
            return f"{round(number)}/{unit}"
    return f"{per_second:g}/s"


def moment(seconds: float) -> str:
    """A point in time, given in seconds since 1970: ``2030-01-31 12:00:00 UTC``.

    A time that no calendar has, as one beyond the year 9999, is shown as the number that it is.
    """
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g} s after 1970, which no calendar has"
