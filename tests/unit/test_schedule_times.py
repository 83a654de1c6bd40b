"""When schedules are due, compared with a slow walk through each minute of a zone's rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from fairqueue import ConfigurationError, Schedule

NIGHTS = {  # in 2026: when clocks go forward, and back
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-10-04", "2026-04-05"),  # by half an hour
    "America/Havana": ("2026-03-08", "2026-11-01"),  # at midnight
    "Africa/Cairo": ("2026-04-24", "2026-10-30"),  # at midnight, of the day before in autumn
    "Pacific/Chatham": ("2026-09-27", "2026-04-05"),  # 12:45 ahead of UTC
    "Asia/Kolkata": ("2026-03-29", "2026-10-25"),  # whose clocks never change
}
LINES = (
    *("30 2 * * *", "0 * * * *", "*/15 * * * *", "15,45 1-3 * * *"),
    *("0 0 * * *", "30 23 * * *", "0 3 29 3 *"),
)


def _matches(line: str, at: datetime) -> bool:
    """Whether a minute of a calendar fits five fields of numbers, ranges and steps."""
    values = at.minute, at.hour, at.day, at.month, at.isoweekday() % 7
    return all(
        any(_fits(term, value) for term in field.split(","))
        for field, value in zip(line.split(), values, strict=True)
    )


def _fits(term: str, value: int) -> bool:
    span, _, step = term.partition("/")
    low, _, high = span.partition("-")
    inside = span == "*" or int(low) <= value <= int(high or low)
    return inside and (not step or value % int(step) == 0)


def oracle(line: str, zone: str, begin: float, end: float) -> Iterator[float]:
    """Each minute of real time; a fixed time in a gap is due after it, in a repeated hour once."""
    minute, hour, *_ = line.split()
    tz, is_fixed = ZoneInfo(zone), not (minute[0] == "*" or hour[0] == "*")
    at, last = begin, datetime.fromtimestamp(begin, tz).replace(tzinfo=None)
    while (at := at + 60) <= end:
        now = datetime.fromtimestamp(at, tz).replace(tzinfo=None)
        passed = [now]
        if is_fixed:  # what the clock has passed for the first time
            minutes = int((now - last).total_seconds() / 60)
            passed = [last + timedelta(minutes=n) for n in range(1, minutes + 1)]
        last = max(last, now)
        if any(_matches(line, each) for each in passed):
            yield at


def ticks(line: str, zone: str, begin: float, end: float) -> Iterator[float]:
    """The same by a schedule, each from the one before."""
    schedule = Schedule(cron=line, tz=zone)
    at: float | None = begin
    while (at := schedule.after(at or 0)) is not None and at <= end:
        yield at


@pytest.mark.parametrize("zone", NIGHTS)
def test_both_nights_of_seven_zones(zone: str) -> None:
    """Each line is due exactly when the rules of its zone say, and so from any minute."""
    for night in NIGHTS[zone]:
        begin = datetime.fromisoformat(night).replace(tzinfo=timezone.utc).timestamp() - 86_400
        end = begin + 2.5 * 86_400
        for line in LINES:
            wanted = list(oracle(line, zone, begin, end))
            assert list(ticks(line, zone, begin, end)) == wanted, (line, night)
            schedule = Schedule(cron=line, tz=zone)
            for at in range(int(begin), int(end) - 86_400, 47 * 60):
                later = next((each for each in wanted if each > at), None)
                found = schedule.after(at)
                assert found is not None
                assert found == later or (later is None and found > end), (line, at)


def test_no_time_comes_before_the_one_that_was_asked_for() -> None:
    """In the second of two equal hours cronsim alone answers with the first one."""
    schedule = Schedule(cron="30 2 * * *", tz="Europe/Berlin")
    in_second_hour = datetime(2026, 10, 25, 1, 15, tzinfo=timezone.utc).timestamp()
    found = schedule.after(in_second_hour)
    assert found == datetime(2026, 10, 26, 1, 30, tzinfo=timezone.utc).timestamp()


def test_both_days_of_a_crontab() -> None:
    """A line that is due on the 13th, only if that is a Friday."""
    schedule = Schedule(cron="0 0 13 * 5", both_days=True)
    first = schedule.after(datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp())
    assert first == datetime(2026, 2, 13, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize("how", [{"every": 60}, {"cron": "* * * * *"}, {"cron": "0 9 * * MON"}])
@pytest.mark.parametrize("hours", [0, 3, 300])
def test_late_ticks(how: dict[str, object], hours: int) -> None:
    """The last ones up to now, and how many there are before: as counted one by one."""
    schedule = Schedule(**how)  # type: ignore[arg-type]
    tick = schedule.after(1_790_000_000 - 1_790_000_000 % 60) or 0.0
    now, at = tick + hours * 3600 + 30, tick
    wanted = []
    while at <= now:
        wanted.append(at)
        at = schedule.after(at) or now + 1
    for most in (1, 100):
        found, missed = schedule.late(tick, now, most)
        assert found == wanted[-most:]
        assert missed == min(len(wanted), 1001 if "cron" in how else 10**9) - len(found)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({}, "either cron= or every="),
        ({"cron": "* * * * *", "every": 5}, "either cron= or every="),
        ({"cron": "61 * * * *"}, "Bad minute"),
        ({"cron": "* * *"}, "Wrong number of fields"),
        ({"cron": "0 0 31 2 *"}, "Bad day-of-month"),
        ({"cron": "0 0 31 2 1", "both_days": True}, "is never due"),
        ({"cron": "* * * * *", "tz": "Europe/Atlantis"}, "tzdata"),
        ({"every": 5, "tz": "Mars/X"}, "there is no time zone"),
        ({"every": 0.5}, "at least 1 second"),
        ({"every": 5, "grace": -1}, "grace must be at least 0 seconds, not -1"),
        ({"every": 5, "spread": -0.5}, "spread must be at least 0 seconds, not -0.5"),
        ({"every": "soon"}, "every must be a finite number of seconds"),
        ({"every": 5, "overlap": "replace"}, "overlap must be one of queue, skip"),
        ({"every": 5, "catch_up": "most"}, "catch_up must be one of none, once, all"),
        ({"every": 5, "until": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
    ],
)
def test_bad_schedules(how: dict[str, object], text: str) -> None:
    """What is wrong is named."""
    with pytest.raises(ConfigurationError, match=text):
        Schedule(**how)  # type: ignore[arg-type]


def test_a_cron_line_without_cronsim(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; an interval needs nothing."""
    monkeypatch.setitem(__import__("sys").modules, "cronsim", None)
    with pytest.raises(ConfigurationError, match=r"fairqueue\[schedules\]"):
        Schedule(cron="* * * * *")
    assert Schedule(every=timedelta(hours=1)).every == 3600
