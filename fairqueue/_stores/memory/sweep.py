"""What time alone brings: expired leases, due timers, a changed default reaching everybody."""

from __future__ import annotations

from fairqueue._stores.memory.comeback import expire
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import State
from fairqueue._stores.memory.timer import fire

SWEEP_MOST = 32


def is_away(s: State, lease_seconds: float) -> bool:
    """Whether the store itself was away: then nobody could renew, and one lease is granted.

    A gap of half a lease tells it: idle claimers poll more often, and a lease renewed by thirds
    outlives it.
    """
    if s.beat is not None and s.now - s.beat > lease_seconds / 2:
        s.grace = s.now + lease_seconds
    s.beat = s.now
    return s.now < s.grace


def _reap(s: State, max_deliveries: int | None) -> int:
    expired = s.expiry.until(s.now, SWEEP_MOST)
    # Each goes to the head of its lane: the last first, so that they stand as they were started.
    for fence in sorted((fence for _, fence in expired), reverse=True):
        expire(s, fence, max_deliveries)
    return len(expired)


def _fire_timers(s: State) -> int:
    fired = 0
    for name in s.timer.until(s.now, SWEEP_MOST):
        if fired < SWEEP_MOST:
            ws = s.workspace(name)
            fired += fire(s, ws, SWEEP_MOST - fired)
            settle(s, ws)
    return fired


def start_drain(s: State) -> None:
    """A changed default concerns every workspace."""
    s.draining = sorted(s.workspaces, reverse=True)


def _drain_change(s: State) -> None:
    for _ in range(min(SWEEP_MOST, len(s.draining))):
        name = s.draining.pop()
        if name in s.workspaces:
            settle(s, s.workspace(name))


def sweep(s: State, lease_seconds: float, max_deliveries: int | None) -> int:
    """Do a bounded part of it; return how many jobs were moved."""
    moved = 0 if is_away(s, lease_seconds) else _reap(s, max_deliveries)
    moved += _fire_timers(s)
    _drain_change(s)
    return moved
