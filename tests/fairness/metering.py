"""Measures a simulated fleet while it plays: shares, lags between workspaces, slots left free."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from fairqueue import Limits
from tests.fairness.fleet import Fleet, Work

STEP_SECONDS = 0.25
JUST_NOW = 0.001
PAIRED = 6  # workspaces of which every pair is compared


@dataclass(frozen=True)
class Tenant:
    """One workspace of a scenario, as its fair share is reckoned from it."""

    name: str
    weight: float = 1.0
    slots: float = float("inf")
    """Slots that it can use at most: its limit, or what it asks for on average."""
    reserve: float = 0.0
    group: str | None = None
    stays_runnable: bool = True


Flow = tuple[str, float, float, float]
"""Its name, its weight, what is reserved for it, and what it can use at most."""
HALVINGS = 60


def _filled(room: float, flows: Sequence[Flow]) -> dict[str, float]:
    """Share out by weight, above what is reserved; what one cannot use goes to the others."""

    def at(level: float) -> dict[str, float]:
        return {name: min(most, max(least, level * weight)) for name, weight, least, most in flows}

    low, high = 0.0, room / min(weight for _, weight, _, _ in flows)
    for _ in range(HALVINGS):
        level = (low + high) / 2
        low, high = (low, level) if sum(at(level).values()) > room else (level, high)
    return at(low)


def fair_slots(
    slots: float, tenants: Sequence[Tenant], groups: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Slots of each in the weighted max-min share; a group is one flow, of its own weight."""
    weights = groups or {}
    members = {group: [t for t in tenants if t.group == group] for group in weights}
    flows = [_flow(t) for t in tenants if t.group is None]
    flows += [
        (f"@{group}", weight, 0.0, sum(t.slots for t in members[group]))
        for group, weight in weights.items()
    ]
    found = _filled(slots, flows)
    for group, inside in members.items():
        room = found.pop(f"@{group}")
        found |= _filled(room, [_flow(t) for t in inside])
    return found


def _flow(tenant: Tenant) -> Flow:
    return tenant.name, tenant.weight, tenant.reserve, tenant.slots


@dataclass
class Pair:
    """How far the weighted service of two has drifted apart since the phase began."""

    one: Tenant
    other: Tenant
    lag: float = 0.0

    def see(self, service: Mapping[str, float]) -> None:
        """Worker-seconds since the phase began."""
        ahead = service.get(self.one.name, 0.0) / self.one.weight
        self.lag = max(self.lag, abs(ahead - service.get(self.other.name, 0.0) / self.other.weight))

    def bound(self, slots: int, longest: Mapping[str, float]) -> float:
        """Promise 7, given the longest job of each, in seconds."""
        return (slots + 1) * sum(
            longest.get(t.name, 0.0) / t.weight for t in (self.one, self.other)
        )


@dataclass
class Window:
    """What was measured in one phase of a scenario."""

    used: dict[str, float] = field(default_factory=dict)
    """Worker-seconds in the window, those of unfinished runs included."""
    pairs: list[Pair] = field(default_factory=list)
    longest: Mapping[str, float] = field(default_factory=dict)
    """The longest job of each workspace that has started, in seconds."""
    unserved_seconds: float = 0.0
    """The longest time that a runnable job waited beside a free slot."""


class Blocked:
    """Nobody is blocked."""

    def __call__(self, fleet: Fleet, workspace: str) -> bool:
        """Whether a workspace may not start a job now."""
        return False


class Full(Blocked):
    """Who has reached his concurrency."""

    def __init__(self, **most: int) -> None:
        self.most = most

    def __call__(self, fleet: Fleet, workspace: str) -> bool:
        most = self.most.get(workspace)
        running = sum(work.workspace == workspace for work in fleet.running())
        return most is not None and running >= most


class Paused(Blocked):
    """Who is paused."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, fleet: Fleet, workspace: str) -> bool:
        return workspace in self.names


class Rated(Blocked):
    """Who must wait for his rate."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name, self.rate, self.burst = name, limits.rate or 1.0, limits.burst or 1.0
        self.arrival = 0.0

    def note(self, work: Work) -> None:
        """A job started."""
        if work.workspace == self.name:
            self.arrival = max(self.arrival, work.started or 0.0) + 1 / self.rate

    def __call__(self, fleet: Fleet, workspace: str) -> bool:
        early = (self.burst - 1) / self.rate
        return workspace == self.name and self.arrival - early > fleet.t - JUST_NOW


class Meter:
    """Plays a fleet in small steps, and looks at it at each."""

    def __init__(self, fleet: Fleet, note: Callable[[Work], object] | None = None) -> None:
        self.fleet, self._note_too = fleet, note
        self._ended: dict[str, float] = {}
        self._runs: list[Work] = []
        self._longest: dict[str, float] = {}
        fleet.on_claim = self._note

    def _note(self, work: Work) -> None:
        self._runs.append(work)
        self._longest[work.workspace] = max(work.seconds, self._longest.get(work.workspace, 0.0))
        if self._note_too:
            self._note_too(work)

    def _settle(self) -> None:
        still = []
        for work in self._runs:
            if (work.started or 0.0) + work.seconds <= self.fleet.t:
                self._ended[work.workspace] = self._ended.get(work.workspace, 0.0) + work.seconds
            else:
                still.append(work)
        self._runs[:] = still

    def used(self) -> dict[str, float]:
        """Worker-seconds by workspace up to now."""
        self._settle()
        found = dict(self._ended)
        for work in self._runs:
            done = self.fleet.t - (work.started or 0.0)
            found[work.workspace] = found.get(work.workspace, 0.0) + done
        return found

    def watch(self, seconds: float, tenants: Sequence[Tenant], blocked: Blocked) -> Window:
        """Let so much time pass; ``blocked`` says whose jobs may not run now."""
        window, before = Window(), self.used()
        steady = [t for t in tenants if t.stays_runnable][:PAIRED]
        pairs = (Pair(*two) for two in combinations(steady, 2))
        window.pairs = [pair for pair in pairs if pair.one.group == pair.other.group]
        unserved, end = 0.0, self.fleet.t + seconds
        while self.fleet.t < end - JUST_NOW:
            self.fleet.until(min(end, self.fleet.t + STEP_SECONDS))
            service = self._since(before)
            for pair in window.pairs:
                pair.see(service)
            unserved = unserved + STEP_SECONDS if self._idles(blocked) else 0.0
            window.unserved_seconds = max(window.unserved_seconds, unserved)
        window.used, window.longest = self._since(before), dict(self._longest)
        return window

    def _since(self, before: Mapping[str, float]) -> dict[str, float]:
        return {name: n - before.get(name, 0.0) for name, n in self.used().items()}

    def _idles(self, blocked: Blocked) -> bool:
        """A slot is free beside a job that may run."""
        idle = self.fleet.idle_queues()
        return bool(idle) and any(_runnable(self.fleet, blocked))


def _runnable(fleet: Fleet, blocked: Blocked) -> Iterator[bool]:
    for name in {work.workspace for work in fleet.waiting()}:
        if not blocked(fleet, name):
            yield True
