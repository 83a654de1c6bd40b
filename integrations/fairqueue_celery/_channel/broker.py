"""What the channels of one process share for one Redis: the core, the leases, the queue kinds."""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairqueue import ConfigurationError, FairQueue, FairQueueError, Settings, StoreUnavailable
from fairqueue.adapters import check_sources, is_cluster, translated_redis_errors
from fairqueue_celery._channel.queue_kinds import QueueKinds, RecentSet
from fairqueue_celery._consume import pool
from fairqueue_celery._consume.claims import Claims
from fairqueue_celery._consume.flusher import flusher
from fairqueue_celery._consume.held_lease import HeldLease
from fairqueue_celery._consume.leases import HeldLeases
from fairqueue_celery._publish.batch import named, until_answered
from fairqueue_celery._publish.call import call_in_hand
from fairqueue_celery._publish.publish import follows_from_job
from fairqueue_celery._publish.unavailable import on_unavailable

logger = logging.getLogger("fairqueue_celery.broker")

FRESH_SECONDS = 5.0
"""A server that was checked is not checked again for this long."""

FLUSH_AFTER_SECONDS = 0.02
"""Endings that the consuming thread has not reported by then are reported by the flusher."""

DYING_SECONDS = 5.0
"""A process that outlives its hard time limit by this much is not waited for any longer."""


class Broker:
    """One Redis as this process knows it."""

    def __init__(self, url: str, settings: Settings, *, authoritative: bool) -> None:
        check_sources(settings.workspace_from)
        self.url = url
        self.settings = settings
        self._checked = float("-inf")
        self.bindings = RecentSet(FRESH_SECONDS)
        """What this process has bound; a refused publish makes kombu start over each time."""
        self.core = FairQueue(url, settings=settings, authoritative=authoritative)
        self.core.history.is_of_adapter = True
        self.kinds = QueueKinds(self.core)
        self.leases = HeldLeases(self.core)
        self._claims: weakref.WeakSet[Claims] = weakref.WeakSet()
        self.dying: list[tuple[HeldLease, int]] = []
        """Runs that Celery declared over while their process, with this pid, was still alive."""
        flusher.serve(self.flush)

    @property
    def keyprefix(self) -> str:
        """How kombu's own keys begin in a Cluster, where all of them need one slot."""
        return f"{{{self.settings.namespace}}}" if is_cluster(self.url) else ""

    def connect(self) -> None:
        """Check the server and bring the limits, also to one that has lost its data.

        Raises ConfigurationError for a server that cannot keep the promises.
        """
        if time.monotonic() - self._checked < FRESH_SECONDS:
            self.core.ask()
            return
        self.core.connect()
        self._checked = time.monotonic()

    def reaches(self, act: Callable[[], object]) -> bool:
        """Do this; False: Redis is away, and the task that is published here need not reach it.

        For what follows from a job, such as its retry, it is done again until Redis answers.
        """
        call, patient = call_in_hand(), translated_redis_errors()(act)
        if call is not None and follows_from_job(call.fields, self.core):
            until_answered(patient, named(call.task))
        elif call is None or on_unavailable(self.settings) == "raise":
            act()
        else:
            try:
                self.core.outages.attempt("", patient)
            except StoreUnavailable:
                return False
        return True

    def new_claims(self, channel: Any) -> Claims:
        """The claims of a new channel, flushed when its own thread is busy."""
        claims = Claims(self.core, self.leases, channel)
        self._claims.add(claims)
        return claims

    def consumed_queues(self) -> list[str]:
        """The task queues from which this process takes jobs."""
        return sorted({queue for claims in list(self._claims) for queue in list(claims.queues)})

    def forget_leases(self) -> None:
        """In a forked child: the parent's leases stay the parent's."""
        self.leases.reset()
        self._claims.clear()
        self.dying.clear()

    def close(self) -> None:
        """At the interpreter's exit: report what was acked, give back what did not start, leave."""
        try:
            for claims in list(self._claims):
                claims.close()
            with self.core.endings.leaving():
                self.leases.flush()
            self.core.close()
        except FairQueueError as error:
            logger.warning("at exit Redis did not answer; leases will expire: %s", error)

    def flush(self) -> bool:
        """The flusher's call; True: call again soon."""
        self._end_dead_runs()
        for claims in list(self._claims):
            claims.give_back_stale()
        leases = self.leases
        if leases.pending and time.monotonic() - leases.pending_since > FLUSH_AFTER_SECONDS:
            leases.flush()
        waits = leases.pending or self.dying
        return bool(waits or any(claims.has_pending for claims in self._claims))

    def _end_dead_runs(self) -> None:
        for held, pid in list(self.dying):
            if not _is_alive(pid) or time.monotonic() - (held.stopped or 0.0) > DYING_SECONDS:
                self.dying.remove((held, pid))
                self.leases.end(held)


def _is_alive(pid: int) -> bool:
    """Whether this child runs; one that is dead but not yet waited for does not.

    Under gevent a "pid" is a greenlet's number, and the greenlet has ended by its time limit.
    """
    try:
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        os.kill(pid, 0)
    except (ProcessLookupError, ChildProcessError, OverflowError):
        return False
    return True


_brokers: dict[tuple[str, str, bool], Broker] = {}
_lock = threading.RLock()
"""To read the settings may import the app's own module, which may publish."""


def shared_broker(url: str, options: Mapping[str, Any]) -> Broker:
    """The broker for a core URL and settings; made at the first call, also after a fork.

    Raises ConfigurationError for an unknown or impossible setting.
    """
    authoritative = pool.is_worker()
    key = url, json.dumps(options, sort_keys=True, default=str), authoritative
    with _lock:
        broker = _brokers.get(key)
        if broker is None:
            settings = Settings.load(options)
            broker = _brokers[key] = Broker(url, settings, authoritative=authoritative)
        return broker


def forget_broker(url: str) -> None:
    """Close what was opened at this core URL, for whatever settings."""
    with _lock:
        for key in [key for key in _brokers if key[0] == url]:
            broker = _brokers.pop(key)
            broker.close()
            flusher.leave(broker.flush)


def brokers() -> list[Broker]:
    """Every broker of this process."""
    with _lock:
        return list(_brokers.values())


def all_held() -> Iterator[tuple[Broker, HeldLease]]:
    """Every lease that this process holds."""
    for broker in brokers():
        for held in broker.leases.all():
            yield broker, held


def find_held(fence: Any) -> tuple[Broker, HeldLease] | None:
    """The lease with this fence, if this process holds it."""
    for broker in brokers():
        held = broker.leases.get(fence)
        if held is not None:
            return broker, held
    return None


def queue_of(app: Any) -> FairQueue:
    """The queue behind a Celery app: to pause, cancel, set limits, ask why a job waits and so on.

    It has the app's settings and uses the connections of the app's publishes, so leave it open.
    Nothing is connected before its first call. Raises ConfigurationError if the app's broker is
    not ``fairqueue://``.
    """
    broker = broker_of(app)
    if broker is None:
        raise ConfigurationError(
            f"the broker of app {app.main!r} is not fairqueue: set broker_url = 'fairqueue://…'"
        )
    return broker.core


def broker_of(app: Any) -> Broker | None:
    """The broker that an app publishes to; None if it is another's."""
    connection = app.connection_for_write()
    try:
        broker = getattr(connection.transport, "broker", None)
    finally:
        connection.release()
    return broker if isinstance(broker, Broker) else None


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - a thread of the parent may hold it, and is gone here
    _lock = threading.RLock()
    for broker in _brokers.values():
        broker.forget_leases()


def _at_exit() -> None:
    for broker in _brokers.values():
        broker.close()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
