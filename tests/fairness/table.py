"""The fairness table: what a fleet on the real scripts gives each workspace, by scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairqueue import Limits, Pause
from tests.fairness.metering import (
    Blocked,
    Full,
    Meter,
    Paused,
    Rated,
    Tenant,
    Window,
    fair_slots,
)
from tests.fairness.scenarios import Fleets, exponential

SLOTS = 8


@dataclass
class Row:
    """One phase of one scenario, measured."""

    name: str
    tenants: Sequence[Tenant]
    window: Window
    groups: Mapping[str, float] = field(default_factory=dict)
    longest_wait: float | None = None
    """Of the workspace that the scenario is about, in seconds."""

    @property
    def fair(self) -> dict[str, float]:
        """Fractions of all worker-seconds in the weighted max-min share."""
        slots = fair_slots(SLOTS, self.tenants, self.groups)
        total = sum(slots.values())
        return {name: n / total for name, n in slots.items()}

    @property
    def measured(self) -> dict[str, float]:
        """The same as it was."""
        total = sum(self.window.used.values())
        return {t.name: self.window.used.get(t.name, 0.0) / total for t in self.tenants}

    @property
    def furthest(self) -> float:
        """The largest distance of a share from the fair one, as a fraction of all."""
        measured = self.measured
        return max(abs(measured[name] - share) for name, share in self.fair.items())

    @property
    def lag(self) -> tuple[float, float] | None:
        """The largest drift between two that stay runnable, and its bound, in seconds."""
        drifts = [(pair.lag, pair.bound(SLOTS, self.window.longest)) for pair in self.window.pairs]
        return max(drifts, key=lambda drift: drift[0] / drift[1]) if drifts else None


Play = Callable[[Fleets, float], Iterator[Row]]
NOBODY = Blocked()


def _measured(
    name: str, meter: Meter, seconds: float, tenants: Sequence[Tenant], blocked: Blocked = NOBODY
) -> Row:
    return Row(name, tenants, meter.watch(seconds, tenants, blocked))


def weights(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """Weights 1 : 2 : 5."""
    fleet = fleets(b=Limits(weight=2), c=Limits(weight=5))
    meter = Meter(fleet)
    tenants = [Tenant("a"), Tenant("b", 2.0), Tenant("c", 5.0)]
    for tenant in tenants:
        fleet.backlog(tenant.name, exponential(1.0, ord(tenant.name)))
    yield _measured("weights 1 : 2 : 5", meter, seconds, tenants)


def skew(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """One with 400 jobs waiting beside nine with ten each."""
    fleet = fleets()
    meter = Meter(fleet)
    tenants = [Tenant("big"), *(Tenant(f"s{n}") for n in range(9))]
    for n, tenant in enumerate(tenants):
        keep = 400 if tenant.name == "big" else 10
        fleet.backlog(tenant.name, exponential(1.0, n), keep=keep)
    yield _measured("skew: one has 400 jobs, nine have 10", meter, seconds, tenants)


def trickle(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """One job of 1 s every 4 s, beside two floods."""
    fleet = fleets()
    meter = Meter(fleet)
    for name in ("flood", "flood 2"):
        fleet.backlog(name, 1.0, keep=100)
    for n in range(int(seconds / 4)):
        fleet.at(4.0 * n, partial(fleet.publish, "trickle", 1.0))
    little = Tenant("trickle", slots=0.25, stays_runnable=False)
    tenants = [Tenant("flood"), Tenant("flood 2"), little]
    row = _measured("trickle: 1 job every 4 s beside two floods", meter, seconds, tenants)
    row.longest_wait = max(fleet.waits["trickle"])
    yield row


def minted(fleets: Fleets, seconds: float, *, many: int, grouped: bool) -> Iterator[Row]:
    """An organisation that mints workspaces, beside one with a single workspace."""
    parent = "org" if grouped else None
    names = [f"m{n}" for n in range(many)]
    limits: dict[str, Any] = dict.fromkeys(names if grouped else (), Limits(parent="org"))
    fleet = fleets(**limits)
    meter = Meter(fleet)
    for name in names:
        fleet.backlog(name, 1.0, keep=2)
    fleet.backlog("single", 1.0)
    tenants = [Tenant("single"), *(Tenant(name, group=parent) for name in names)]
    how = "with a parent" if grouped else "without a parent"
    row = _measured(f"{many:,} minted workspaces, {how}", meter, seconds, tenants)
    row.groups = {"org": 1.0} if grouped else {}
    yield row


def durations(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """Jobs of 1 s beside jobs of 20 s."""
    fleet = fleets()
    meter = Meter(fleet)
    tenants = [Tenant("short"), Tenant("long")]
    fleet.backlog("short", 1.0)
    fleet.backlog("long", 20.0)
    yield _measured("durations 1 s : 20 s", meter, 2 * seconds, tenants)


def limit_changed(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """A limit goes from 1 to 8 and back to 2 while everything runs."""
    fleet = fleets(a=Limits(concurrency=1))
    meter = Meter(fleet)
    for name in "ab":
        fleet.backlog(name, exponential(1.0, ord(name)))
    for most, settling in ((1, 0.0), (8, 20.0), (2, 5.0)):
        fleet.set_limits("a", Limits(concurrency=most))
        fleet.dispatch()
        tenants = [Tenant("a", slots=float(most), stays_runnable=most > SLOTS / 2), Tenant("b")]
        meter.watch(settling, tenants, Full(a=most))
        yield _measured(f"limit of a in flight: {most} of 8", meter, seconds, tenants, Full(a=most))


def paused(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """One is paused, and resumed."""
    fleet = fleets()
    meter = Meter(fleet)
    for name in "ab":
        fleet.backlog(name, exponential(1.0, ord(name)))
    fleet.until(20.0)
    fleet.store.pause("workspace", "a", Pause.PAUSED)
    fleet.until(fleet.t + 12.0)  # what runs ends
    away = [Tenant("a", slots=0.0, stays_runnable=False), Tenant("b")]
    yield _measured("a is paused", meter, seconds, away, Paused("a"))
    fleet.store.pause("workspace", "a", None)
    fleet.dispatch()
    yield _measured("a is resumed", meter, seconds, [Tenant("a"), Tenant("b")])


def rated(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """Two starts a second with a burst of four, jobs of 1 s on average: two slots."""
    limits = Limits(rate=2.0, burst=4)
    fleet = fleets(a=limits)
    blocked = Rated("a", limits)
    meter = Meter(fleet, blocked.note)
    for name in "ab":
        fleet.backlog(name, exponential(1.0, ord(name)))
    fleet.until(5.0)
    tenants = [Tenant("a", slots=2.0, stays_runnable=False), Tenant("b")]
    yield _measured("a has a rate of 2/s, burst 4", meter, seconds, tenants, blocked)


def reserved(fleets: Fleets, seconds: float) -> Iterator[Row]:
    """Two of eight slots for one beside thirty: lent while it wants few, then used by a backlog."""
    fleet = fleets(r=Limits(reserve=2))
    meter = Meter(fleet)
    others = [Tenant(f"a{n}") for n in range(30)]
    for n, tenant in enumerate(others):
        fleet.backlog(tenant.name, exponential(1.0, n))
    fleet.until(5.0)
    for start in range(10, int(fleet.t + seconds), 20):
        fleet.at(start, partial(fleet.publish, "r", 1.0, n=2))
    little = Tenant("r", slots=0.1, stays_runnable=False)
    row = _measured("2 of 8 reserved for r, lent", meter, seconds, [little, *others])
    row.longest_wait = max(fleet.waits["r"])
    yield row
    fleet.backlog("r", exponential(1.0, ord("r")))
    tenants = [Tenant("r", reserve=2.0, stays_runnable=False), *others]
    yield _measured("2 of 8 reserved for r, used", meter, seconds, tenants)


SCENARIOS: tuple[Play, ...] = (
    weights,
    skew,
    trickle,
    partial(minted, many=20, grouped=False),
    partial(minted, many=20, grouped=True),
    partial(minted, many=1000, grouped=False),
    partial(minted, many=1000, grouped=True),
    durations,
    limit_changed,
    paused,
    rated,
    reserved,
)


def rows(fleets: Fleets, seconds: float, plays: Sequence[Play] = SCENARIOS) -> Iterator[Row]:
    """Play them all; ``seconds`` is how long each phase is measured."""
    for play in plays:
        yield from play(fleets, seconds)
