"""Who must be woken for what has changed, and who watches for what time brings."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fairqueue._stores.memory.limits import is_open, limits_of_all, limits_of_queue
from fairqueue._stores.memory.state import State

OVERDUE_SECONDS = 1.0  # a watcher that is later than this has died
LEAST_SECONDS = 0.001  # so much earlier is not earlier
SHY_SECONDS = 0.1  # who has turned jobs away of late looks so much later than others


def touch_all(s: State) -> None:
    """Look at the tokens of every queue."""
    s.touched.update(s.nodes)


def freed_shared(s: State, queue: str) -> None:
    """A slot that others share was freed."""
    if limits_of_queue(s, queue).concurrency is not None:
        s.touched.add(queue)
    if limits_of_all(s).concurrency is not None:
        touch_all(s)


def wake(s: State) -> None:
    """Leave a token where there is open, runnable work, none where there is not."""
    for queue in s.touched:
        node = s.nodes.get(queue)
        if node is None or not node.ready or not is_open(s, node):
            s.tokens.drop(queue)
        else:
            s.tokens.put(queue)
    s.touched.clear()
    _call_watcher(s)


def _call_watcher(s: State) -> None:
    """What is due before the watcher looks again needs a new one; so it does if there is none."""
    for queue, at in s.due.items():
        if at < s.watched or s.watched < s.now:
            s.tokens.put(queue)
    s.due.clear()


def _next_event(s: State) -> float:
    lease, timer = s.expiry.first(), s.timer.first()
    at_lease = lease[0] if lease else inf
    if at_lease > s.spared:
        at_lease = max(at_lease, s.grace)
    return min(at_lease, timer[0] if timer else inf)


def watch(s: State, owner: str, poll_seconds: float, *, shy: bool) -> float:
    """When to claim again: one claimer watches for the next event, the others poll.

    A shy one looks a little later, and leaves its place to any other.
    """
    at = _next_event(s) + SHY_SECONDS * shy
    is_late = s.watched < s.now - OVERDUE_SECONDS or at < s.watched - LEAST_SECONDS
    is_shy = s.watcher is not None and s.watcher[1]
    if not (s.watcher == (owner, shy) or is_late or (is_shy and not shy)):
        return poll_seconds
    wait = max(0.0, min(at - s.now, poll_seconds))
    s.watcher, s.watched = (owner, shy), s.now + wait
    return wait


def resign(s: State) -> None:
    """Nobody watches: who turned a job away must not be the first at it again."""
    s.watcher, s.watched = None, 0.0


def unwatch(s: State, owner: str, queues: Sequence[str], poll_seconds: float) -> None:
    """A watcher that found work watches no more: another must, if a timer is due before a poll."""
    if s.watcher is None or s.watcher[0] != owner:
        return
    resign(s)
    timer = s.timer.first()
    if timer is not None and timer[0] <= s.now + poll_seconds:
        s.due.update(dict.fromkeys(queues, timer[0]))
