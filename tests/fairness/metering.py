"""Measures shares, lags between workspaces and free slots of a simulated fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from fairqueue import Limits
from tests.fairness.fleet import Fleet, Work

STEP_SECONDS = 0.25
JUST_NOW = 0.001
PAIRED = 6  # the number of workspaces whose pairs are compared


@dataclass(frozen=True)
class Member:
    """One workspace of a scenario, with what its fair share depends on."""

    name: str
    weight: float = 1.0
    slots: float = float("inf")
    """The most slots that it can use: its limit, or its average demand."""
    reserve: float = 0.0
    group: str | None = None
    stays_runnable: bool = True


Flow = tuple[str, float, float, float]
"""Name, weight, reserved slots, and the most slots that it can use."""
HALVINGS = 60


def _filled(slots: float, flows: Sequence[Flow]) -> dict[str, float]:
    """Divide the slots by weight, reserves first; what one flow cannot use goes to the others."""

    def at(level: float) -> dict[str, float]:
        return {name: min(most, max(least, level * weight)) for name, weight, least, most in flows}

    low, high = 0.0, slots / min(weight for _, weight, _, _ in flows)
    for _ in range(HALVINGS):
        level = (low + high) / 2
        low, high = (low, level) if sum(at(level).values()) > slots else (level, high)
    return at(low)


def fair_slots(
    slots: float, members: Sequence[Member], groups: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the weighted max-min share of each in slots; a group is one flow with its weight."""
    weights = groups or {}
    grouped = {group: [m for m in members if m.group == group] for group in weights}
    flows = [_flow(m) for m in members if m.group is None]
    flows += [
        (f"@{group}", weight, 0.0, sum(m.slots for m in grouped[group]))
        for group, weight in weights.items()
    ]
    found = _filled(slots, flows)
    for group, inside in grouped.items():
        share = found.pop(f"@{group}")
        found |= _filled(share, [_flow(m) for m in inside])
    return found


def _flow(member: Member) -> Flow:
    return member.name, member.weight, member.reserve, member.slots


@dataclass
class Pair:
    """The lag between the weighted service of two workspaces since the phase began."""

    one: Member
    other: Member
    lag: float = 0.0

    def see(self, service: Mapping[str, float]) -> None:
        """Note the worker-seconds of each workspace since the phase began."""
        ahead = service.get(self.one.name, 0.0) / self.one.weight
        self.lag = max(self.lag, abs(ahead - service.get(self.other.name, 0.0) / self.other.weight))

    def bound(self, slots: int, longest: Mapping[str, float]) -> float:
        """Return the bound of the lag, given the longest job of each workspace in seconds."""
        return (slots + 1) * sum(
            longest.get(t.name, 0.0) / t.weight for t in (self.one, self.other)
        )


@dataclass
class Window:
    """What was measured in one phase of a scenario."""

    used: dict[str, float] = field(default_factory=dict)
    """Worker-seconds in the phase, including those of unfinished runs."""
    pairs: list[Pair] = field(default_factory=list)
    longest: Mapping[str, float] = field(default_factory=dict)
    """The longest job of each workspace that has started, in seconds."""
    unserved_seconds: float = 0.0
    """The longest time that a runnable job waited beside a free slot."""


Blocked = Callable[[Fleet, str], bool]
"""Whether a workspace is blocked now."""


def not_blocked(_fleet: Fleet, _workspace: str) -> bool:
    """No workspace is blocked."""
    return False


class Full:
    """Workspaces at their concurrency limit are blocked."""

    def __init__(self, **most: int) -> None:
        self.most = most

    def __call__(self, fleet: Fleet, workspace: str) -> bool:
        most = self.most.get(workspace)
        running = sum(work.workspace == workspace for work in fleet.running())
        return most is not None and running >= most


class Rated:
    """A workspace is blocked by its rate limit."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name, self.rate, self.burst = name, limits.rate or 1.0, limits.burst or 1.0
        self.arrival = 0.0

    def note(self, work: Work) -> None:
        """Note that a job started."""
        if work.workspace == self.name:
            self.arrival = max(self.arrival, work.started or 0.0) + 1 / self.rate

    def __call__(self, fleet: Fleet, workspace: str) -> bool:
        early = (self.burst - 1) / self.rate
        return workspace == self.name and self.arrival - early > fleet.t - JUST_NOW


class Meter:
    """Advances a fleet in small steps and measures it after each."""

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

    def watch(self, seconds: float, members: Sequence[Member], blocked: Blocked) -> Window:
        """Measure for this many seconds; ``blocked`` tells which workspaces are blocked."""
        window, before = Window(), self.used()
        steady = [m for m in members if m.stays_runnable][:PAIRED]
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
        waiting = {work.workspace for work in self.fleet.waiting() if work.queue in idle}
        return any(not blocked(self.fleet, name) for name in waiting)
