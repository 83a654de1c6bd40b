"""The fairness table: the share of each workspace on the real scripts, by scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairqueue import Limits, Pause
from tests.fairness.fleet import SLOTS, Fleets
from tests.fairness.metering import (
    Blocked,
    Full,
    Member,
    Meter,
    Rated,
    Window,
    fair_slots,
    not_blocked,
)
from tests.fairness.scenarios import exponential


@dataclass
class Row:
    """One phase of one scenario, measured."""

    name: str
    members: Sequence[Member]
    window: Window
    groups: Mapping[str, float] = field(default_factory=dict)
    longest_wait: float | None = None
    """The longest wait of the workspace that the scenario is about, in seconds."""

    @property
    def fair(self) -> dict[str, float]:
        """Fractions of all worker-seconds in the weighted max-min share."""
        slots = fair_slots(SLOTS, self.members, self.groups)
        total = sum(slots.values())
        return {name: n / total for name, n in slots.items()}

    @property
    def measured(self) -> dict[str, float]:
        """Fractions of all worker-seconds as measured."""
        total = sum(self.window.used.values())
        return {t.name: self.window.used.get(t.name, 0.0) / total for t in self.members}

    @property
    def furthest(self) -> float:
        """The largest error of a share, as a fraction of all worker-seconds."""
        measured = self.measured
        return max(abs(measured[name] - share) for name, share in self.fair.items())

    @property
    def lag(self) -> tuple[float, float] | None:
        """The largest lag between two workspaces that stay runnable, and its bound, in seconds."""
        lags = [(pair.lag, pair.bound(SLOTS, self.window.longest)) for pair in self.window.pairs]
        return max(lags, key=lambda lag: lag[0] / lag[1]) if lags else None


Play = Callable[[Fleets, float], Iterator[Row]]


def _measured(
    name: str,
    meter: Meter,
    seconds: float,
    members: Sequence[Member],
    blocked: Blocked = not_blocked,
) -> Row:
    return Row(name, members, meter.watch(seconds, members, blocked))


def weights(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """Weights 1 : 2 : 5."""
    fleet = fleets(b=Limits(weight=2), c=Limits(weight=5))
    meter = Meter(fleet)
    members = [Member("a"), Member("b", 2.0), Member("c", 5.0)]
    for member in members:
        fleet.backlog(member.name, exponential(1.0, ord(member.name)))
    yield _measured("weights 1 : 2 : 5", meter, seconds, members)


def skew(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """A workspace with 400 waiting jobs beside nine with ten each."""
    fleet = fleets()
    meter = Meter(fleet)
    members = [Member("big"), *(Member(f"s{n}") for n in range(9))]
    for n, member in enumerate(members):
        keep = 400 if member.name == "big" else 10
        fleet.backlog(member.name, exponential(1.0, n), keep=keep)
    yield _measured("skew: one has 400 jobs, nine have 10", meter, seconds, members)


def trickle(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """One job of 1 s every 4 s beside two floods."""
    fleet = fleets()
    meter = Meter(fleet)
    for name in ("flood", "flood 2"):
        fleet.backlog(name, 1.0, keep=100)
    for n in range(int(seconds / 4)):
        fleet.at(4.0 * n, partial(fleet.publish, "trickle", 1.0))
    little = Member("trickle", slots=0.25, stays_runnable=False)
    members = [Member("flood"), Member("flood 2"), little]
    row = _measured("trickle: 1 job every 4 s beside two floods", meter, seconds, members)
    row.longest_wait = max(fleet.waits["trickle"])
    yield row


def many_of_one_owner(fleets: Fleets, seconds: float, *, many: int, grouped: bool) -> Iterator[Row]:
    """An owner with many workspaces beside one with a single workspace."""
    parent = "org" if grouped else None
    names = [f"m{n}" for n in range(many)]
    limits: dict[str, Any] = dict.fromkeys(names if grouped else (), Limits(parent="org"))
    fleet = fleets(**limits)
    meter = Meter(fleet)
    for name in names:
        fleet.backlog(name, 1.0, keep=2)
    fleet.backlog("single", 1.0)
    members = [Member("single"), *(Member(name, group=parent) for name in names)]
    how = "with a parent" if grouped else "without a parent"
    row = _measured(f"{many:,} workspaces of one owner, {how}", meter, seconds, members)
    row.groups = {"org": 1.0} if grouped else {}
    yield row


def durations(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """Jobs of 1 s beside jobs of 20 s."""
    fleet = fleets()
    meter = Meter(fleet)
    members = [Member("short"), Member("long")]
    fleet.backlog("short", 1.0)
    fleet.backlog("long", 20.0)
    yield _measured("durations 1 s : 20 s", meter, 2 * seconds, members)


def limit_changed(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """A limit changes from 1 to 8 and then to 2 while jobs run."""
    fleet = fleets(a=Limits(concurrency=1))
    meter = Meter(fleet)
    for name in "ab":
        fleet.backlog(name, exponential(1.0, ord(name)))
    for most, settling in ((1, 0.0), (8, 20.0), (2, 5.0)):
        fleet.set_limits("a", Limits(concurrency=most))
        fleet.dispatch()
        members = [Member("a", slots=float(most), stays_runnable=most > SLOTS / 2), Member("b")]
        meter.watch(settling, members, Full(a=most))
        yield _measured(f"a's limit changes: {most} of 8", meter, seconds, members, Full(a=most))


def paused(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """A workspace is paused and resumed."""
    fleet = fleets()
    meter = Meter(fleet)
    for name in "ab":
        fleet.backlog(name, exponential(1.0, ord(name)))
    fleet.until(20.0)
    fleet.store.pause("workspace", "a", Pause.PAUSED)
    fleet.until(fleet.t + 12.0)  # what runs ends
    away = [Member("a", slots=0.0, stays_runnable=False), Member("b")]
    yield _measured("a is paused", meter, seconds, away, Full(a=0))
    fleet.store.pause("workspace", "a", None)
    fleet.dispatch()
    yield _measured("a is resumed", meter, seconds, [Member("a"), Member("b")])


def rated(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """A rate of two starts a second, with jobs of 1 s on average, is worth two slots."""
    limits = Limits(rate=2.0, burst=4)
    fleet = fleets(a=limits)
    blocked = Rated("a", limits)
    meter = Meter(fleet, blocked.note)
    for name in "ab":
        fleet.backlog(name, exponential(1.0, ord(name)))
    fleet.until(5.0)
    members = [Member("a", slots=2.0, stays_runnable=False), Member("b")]
    yield _measured("a has a rate of 2/s, burst 4", meter, seconds, members, blocked)


def reserved(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """Two of eight slots are reserved for r: first they are lent, then a backlog uses them."""
    fleet = fleets(r=Limits(reserve=2))
    meter = Meter(fleet)
    others = [Member(f"a{n}") for n in range(30)]
    for n, member in enumerate(others):
        fleet.backlog(member.name, exponential(1.0, n))
    fleet.until(5.0)
    for start in range(10, int(fleet.t + seconds), 20):
        fleet.at(start, partial(fleet.publish, "r", 1.0, n=2))
    little = Member("r", slots=0.1, stays_runnable=False)
    row = _measured("2 of 8 reserved for r, lent", meter, seconds, [little, *others])
    row.longest_wait = max(fleet.waits["r"])
    yield row
    fleet.backlog("r", exponential(1.0, ord("r")))
    members = [Member("r", reserve=2.0, stays_runnable=False), *others]
    yield _measured("2 of 8 reserved for r, used", meter, seconds, members)


SCENARIOS: tuple[Play, ...] = (
    weights,
    skew,
    trickle,
    partial(many_of_one_owner, many=20, grouped=False),
    partial(many_of_one_owner, many=20, grouped=True),
    partial(many_of_one_owner, many=1000, grouped=False),
    partial(many_of_one_owner, many=1000, grouped=True),
    durations,
    limit_changed,
    paused,
    rated,
    reserved,
)


def rows(fleets: Fleets, seconds: float, plays: Sequence[Play] = SCENARIOS) -> Iterator[Row]:
    """Play all scenarios and measure each phase for ``seconds``."""
    for play in plays:
        yield from play(fleets, seconds)
