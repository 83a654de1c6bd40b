"""Each owner numbers its calls; its last number and reply are kept, so a repeat changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, cast

from fairqueue._stores.memory.state import State
from fairqueue.errors import FairQueueError

KEPT_LEASES = 10  # a record lives this many leases, in real time: it only bounds memory
T = TypeVar("T")


def _forget_old(s: State) -> None:
    for owner in [owner for owner, kept in s.answers.items() if kept[2] < time.monotonic()]:
        del s.answers[owner]


def once(s: State, owner: str, number: int, lease_seconds: float, act: Callable[[], T]) -> T:
    """Act, or give the answer that this number got before; refuse a lower number."""
    kept, reply, _ = s.answers.get(owner, (0, None, 0.0))
    if number < kept:
        raise FairQueueError(
            f"call {number} of owner {owner!r} came after a later one and was not carried out"
        )
    if number == kept:
        return cast("T", reply)
    answer = act()
    _forget_old(s)
    s.answers[owner] = number, answer, time.monotonic() + KEPT_LEASES * lease_seconds
    return answer
