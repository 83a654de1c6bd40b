"""Extends leases and charges what their jobs have used so far."""

from __future__ import annotations

from collections.abc import Sequence

from fairqueue._stores.memory.ending import used
from fairqueue._stores.memory.lease import extend
from fairqueue._stores.memory.limits import limits_of
from fairqueue._stores.memory.order import charge
from fairqueue._stores.memory.state import Held, State
from fairqueue._stores.memory.sweep import reapable_until
from fairqueue._types import Renewed


def _charge_so_far(s: State, held: Held, seconds: float) -> None:
    """Charge upwards only: what a job will have used is not known before its end."""
    ws = s.workspace(held.record.job.workspace)
    held.ran = used(s, held, seconds)
    if held.ran > held.charged and not limits_of(s, ws).count:
        charge(s, ws, (held.record.job.queue, held.place), held.ran - held.charged)
        held.charged = held.ran


def _renew(s: State, fence: int, seconds: float, lease_seconds: float) -> bool:
    held = s.leases.get(fence)
    if held is None:
        return False
    extend(s, held, lease_seconds)
    _charge_so_far(s, held, seconds)
    return True


def renew_all(s: State, progress: Sequence[tuple[int, float]], lease_seconds: float) -> Renewed:
    """Extend what still lives; tell which fences are lost, and which jobs are cancelled."""
    reapable_until(s, lease_seconds)
    lost = frozenset([fence for fence, ran in progress if not _renew(s, fence, ran, lease_seconds)])
    held = (s.leases.get(fence) for fence, _ in progress)
    return Renewed(lost, frozenset([h.fence for h in held if h is not None and h.cancelled]))
