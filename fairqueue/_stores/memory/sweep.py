"""What time alone brings: expired leases, due timers, a changed default reaching everybody."""

from __future__ import annotations

from fairqueue._keys import decode
from fairqueue._stores.memory import expiring
from fairqueue._stores.memory.branches import look
from fairqueue._stores.memory.comeback import expire
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import State
from fairqueue._stores.memory.timer import fire

SWEEP_MOST = 32


def reapable_until(s: State, lease_seconds: float) -> float:
    """Note that a script ran, and return which leases may be reaped: those that ended by then.

    After the store was away nobody could renew, so nothing is reaped for one lease. A gap of half
    a lease tells it: idle claimers poll more often, and a lease renewed by thirds outlives it.
    What had ended a lease before the gap is not spared again, else who calls rarely would never
    reap.
    """
    if s.beat is not None and s.now - s.beat > lease_seconds / 2:
        s.grace, s.spared = s.now + lease_seconds, s.beat - lease_seconds
    s.beat = s.now
    return s.spared if s.now < s.grace else s.now


def _reap(s: State, until: float, max_deliveries: int | None) -> int:
    expired = s.expiry.until(until, SWEEP_MOST)
    # Each goes to the head of its lane: the last first, so that they stand as they were started.
    for fence in sorted((fence for _, fence in expired), reverse=True):
        expire(s, fence, max_deliveries)
    return len(expired)


def _fire_timers(s: State) -> int:
    fired = 0
    for name in s.timer.until(s.now, SWEEP_MOST):
        if fired < SWEEP_MOST:
            fired += _fire(s, name, SWEEP_MOST - fired)
    return fired


def _fire(s: State, key: str, most: int) -> int:
    if key in s.gates:
        look(s, s.gates[key])
        return 0
    ws = s.workspace(decode(key))
    fired = fire(s, ws, most)
    fired += expiring.fire(s, ws, most - fired)
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
    moved = _reap(s, reapable_until(s, lease_seconds), max_deliveries)
    moved += _fire_timers(s)
    _drain_change(s)
    return moved
