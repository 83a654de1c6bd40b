"""What the channels of one process share for one Redis: the core, the leases, the queue kinds."""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from fairqueue import FairQueue, FairQueueError, Settings, check_sources
from fairqueue_celery import crew
from fairqueue_celery.consuming import Claims
from fairqueue_celery.janitor import janitor
from fairqueue_celery.kinds import Kinds
from fairqueue_celery.remembered import Remembered
from fairqueue_celery.slot import Slot
from fairqueue_celery.slots import Slots

logger = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
"""A server that was checked is not checked again for so long."""

PATIENCE_SECONDS = 0.02
"""Endings that the consuming thread has not told by then are told by the janitor."""

DYING_SECONDS = 5.0
"""A process that outlives its hard time limit by this much is waited for no longer."""


class Broker:
    """One Redis as this process knows it."""

    def __init__(self, url: str, settings: Settings, *, authoritative: bool) -> None:
        check_sources(settings.workspace_from)
        self.url = url
        self.settings = settings
        self._checked = float("-inf")
        self.bindings = Remembered(FRESH_SECONDS)
        """What this process has bound; a refused publish makes kombu start over each time."""
        self._brings_limits = not authoritative and _has_limits(settings)
        self.core = FairQueue(url, settings=settings, authoritative=authoritative)
        self.kinds = Kinds(self.core)
        self.slots = Slots(self.core)
        self._claims: weakref.WeakSet[Claims] = weakref.WeakSet()
        self.dying: list[tuple[Slot, int]] = []
        """Runs that were declared over while their process still lived, with its pid."""
        janitor.serve(self._tidy)

    def connect(self) -> None:
        """Check the server, and bring the limits: also to one that has lost its data.

        Raises ConfigurationError for a server that cannot keep the promises.
        """
        if time.monotonic() - self._checked < FRESH_SECONDS:
            self.core.is_plain("celery")  # is it there at all?
            return
        same = self.core.connect()
        self._checked = time.monotonic()
        if not same and self._brings_limits:
            self._brings_limits = False  # said once
            logger.warning(
                "the limits in this process's options are not those that hold: limits stored "
                "in Redis by a worker, or set live, go before"
            )

    def follow(self, claims: Claims) -> None:
        """Look after what these claims hold when nobody else does."""
        self._claims.add(claims)

    def queues_taken(self) -> list[str]:
        """The task queues from which this process takes jobs."""
        return sorted({queue for claims in list(self._claims) for queue in list(claims.queues)})

    def forget_leases(self) -> None:
        """In a forked child: what the parent holds is the parent's."""
        self.slots = Slots(self.core)
        self._claims.clear()
        self.dying.clear()

    def close(self) -> None:
        """At the interpreter's exit: tell what was acked, give back what was not begun."""
        try:
            for claims in list(self._claims):
                claims.close()
            self.slots.flush()
        except FairQueueError as error:
            logger.warning("the store was away at exit: %s", error)

    def _tidy(self) -> bool:
        """What the janitor does; True: look again soon."""
        self._bury_the_dead()
        for claims in list(self._claims):
            claims.give_back_stale()
        if self.slots.pending and time.monotonic() - self.slots.pending_since > PATIENCE_SECONDS:
            self.slots.flush()
        return bool(self.slots.pending or self.dying or any(c.ahead for c in self._claims))

    def _bury_the_dead(self) -> None:
        for slot, pid in list(self.dying):
            if not _is_alive(pid) or _since_stop(slot) > DYING_SECONDS:
                self.dying.remove((slot, pid))
                self.slots.end(slot)


def _has_limits(settings: Settings) -> bool:
    limits = settings.stored_limits()
    return limits != Settings.load({"fairness": settings.fairness}).stored_limits()


def _since_stop(slot: Slot) -> float:
    return time.monotonic() - (slot.stopped or 0.0)


def _is_alive(pid: int) -> bool:
    """Whether this child runs; one that is dead and not yet waited for does not.

    Under gevent a "pid" is the number of a greenlet, which has ended when its time limit is told.
    """
    try:
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        os.kill(pid, 0)
    except (ProcessLookupError, ChildProcessError, OverflowError):
        return False
    return True


_brokers: dict[tuple[str, str, bool], Broker] = {}
_lock = threading.Lock()


def shared_broker(url: str, options: Mapping[str, Any]) -> Broker:
    """The broker for a core URL and settings; made at the first call, also after a fork.

    Raises ConfigurationError for an unknown or impossible setting.
    """
    authoritative = crew.is_worker()
    key = url, json.dumps(options, sort_keys=True, default=str), authoritative
    with _lock:
        broker = _brokers.get(key)
        if broker is None:
            settings = Settings.load(options)
            broker = _brokers[key] = Broker(url, settings, authoritative=authoritative)
        return broker


def brokers() -> list[Broker]:
    """All of this process."""
    with _lock:
        return list(_brokers.values())


def held() -> Iterator[tuple[Broker, Slot]]:
    """Every lease that this process holds."""
    for broker in brokers():
        for slot in broker.slots.all():
            yield broker, slot


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - the parent's other threads, one of which may hold it, are gone
    _lock = threading.Lock()
    for broker in _brokers.values():
        broker.forget_leases()


def _at_exit() -> None:
    for broker in _brokers.values():
        broker.close()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
