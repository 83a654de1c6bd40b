"""FairQueue: publish, claim, ack – the main path over a store."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from fairqueue._claimer import Claimer
from fairqueue._context import current_workspace
from fairqueue._limiting import Limiting
from fairqueue._names import check_name, check_text, new_job_id
from fairqueue._neighbours import Neighbours
from fairqueue._numbers import seconds_from_zero
from fairqueue._operations import Operations
from fairqueue._patience import once_there_is_room, seconds_of
from fairqueue._provider import Provider
from fairqueue._settings import Settings
from fairqueue._store import Store, Waiter
from fairqueue._stores import open_store
from fairqueue._stores.limits_text import configured
from fairqueue._types import (
    Admission,
    Claimed,
    Ending,
    Finish,
    Job,
    JobId,
    Lease,
    Published,
    Renewed,
    Stats,
)
from fairqueue._urls import split_settings
from fairqueue.errors import ConfigurationError, LeaseLost

logger = logging.getLogger("fairqueue")

LEAST_URGENT = 2**24 - 1  # room for two priorities in one number, as Dramatiq has them


def _check_priority(priority: Any) -> int:
    if not isinstance(priority, int) or not 0 <= priority <= LEAST_URGENT:
        raise ConfigurationError(
            f"priority must be a whole number from 0 (first) to {LEAST_URGENT}, not {priority!r}"
        )
    return int(priority)


def _seconds_or_none(name: str, value: Any) -> float | None:
    return None if value is None else seconds_from_zero(name, value)


def _after(job: Job, waited: float) -> Job:
    """The job as it is so many seconds after it was to be published."""
    expires = job.expires_seconds
    return replace(
        job,
        delay_seconds=max(0.0, job.delay_seconds - waited),
        expires_seconds=None if expires is None else max(0.0, expires - waited),
    )


def _check_queues(queues: Sequence[str], n: int) -> None:
    if isinstance(queues, str) or (n > 0 and not queues):
        raise ConfigurationError(f"claim needs a list of queue names, at least one, not {queues!r}")
    for queue in queues:
        check_name("queue", queue)


class FairQueue(Operations, Limiting, Neighbours):
    """A fair queue over one store. Safe to share between threads and over fork.

    ``url`` is a core URL (``redis://``, ``rediss://``, ``unix://``, ``memory://``); settings are
    those of :class:`fairqueue.Settings`, as keyword arguments or in the URL's query. Instead of
    a URL it takes the ``client`` (a ``redis.Redis``) that is to be used. Raises
    ConfigurationError for what is unknown or impossible. The first call connects, checks the
    server, and stores the limits where none are stored (``authoritative``: always;
    ``brings_limits=False``, for tools that operate on others' queues: never).
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        client: Any = None,
        store: Store | None = None,
        authoritative: bool = False,
        brings_limits: bool = True,
        **options: Any,
    ) -> None:
        rest, in_url = split_settings(url) if url else ("", {})
        self.settings = settings or Settings.load({**in_url, **options})
        self.store = store or open_store(rest, client=client, namespace=self.settings.namespace)
        self._claimer = Claimer(self.store, self.settings)
        self._authoritative, self._brings_limits = authoritative, brings_limits
        self._ready = False
        self._provider: Provider | None = None
        if brings_limits and self.settings.limit_provider is not None:
            self._provider = Provider(self.settings.limit_provider, self.store)

    def connect(self) -> bool:
        """Check the server and bring the limits; return whether the stored ones are these.

        Called by itself before the first operation. Raises ConfigurationError for a server that
        cannot keep the promises, StoreUnavailable if it cannot be reached.
        """
        self.store.check()
        if self._provider is not None:
            self._provider.load()
        if not self._brings_limits:
            self._ready = True
            return True
        limits = self.settings.stored_limits()
        same = self.store.configure(limits, authoritative=self._authoritative)
        self._ready = True
        if not same and not self._authoritative and any(configured(limits)):
            logger.warning(
                "this process is configured with other limits than are stored in namespace %r; "
                "the stored ones count",
                self.settings.namespace,
            )
        return same

    def _connected(self) -> Store:
        if not self._ready:
            self.connect()
        return self.store

    def publish(
        self,
        payload: bytes,
        *,
        queue: str,
        workspace: str | None = None,
        task: str = "",
        priority: int = 0,
        delay_seconds: float = 0.0,
        job_id: str | None = None,
        exempt: bool = False,
        group: str | None = None,
        parent_fence: int | None = None,
        expires_seconds: float | None = None,
        unique_key: str | None = None,
        unique_for: float | None = None,
        block_seconds: float | None = None,
    ) -> JobId:
        """Enqueue one job and return its id; a repeat with the same ``job_id`` is no new job.

        A job that has not started after ``expires_seconds`` is dead (``expired``). Under a
        ``unique_key`` one job of a workspace and task counts at a time: as long as it lives, or
        for ``unique_for`` seconds from its publish. The id that comes back is a str whose
        ``outcome`` tells: ``created``; ``existing``, and the id is that of the job that holds the
        key; ``replaced``, if that job is dead; ``repeated``. Exempt jobs take no key.

        The workspace is the named one, else that of ``workspace(...)`` or of the running job,
        else the default. ``exempt`` is for what a system must publish; once the first job of a
        ``group`` is in, the rest passes. Raises CapacityExceeded (nothing was stored), LeaseLost
        when ``parent_fence`` has passed, ConfigurationError for a bad name.

        Where there is no room, it waits up to ``block_seconds`` for some, if the setting
        ``on_full`` says so or this call does; 0: it is refused at once whatever is set. Delay and
        expiry count from the call.
        """
        if not isinstance(payload, bytes):
            raise ConfigurationError(f"a payload must be bytes, not {type(payload).__name__}")
        job = Job(
            id=check_text("job id", job_id) if job_id else new_job_id(),
            workspace=check_name("workspace", self._workspace(workspace)),
            queue=check_name("queue", queue),
            task=check_name("task", task) if task else "",
            payload=payload,
            priority=_check_priority(priority),
            delay_seconds=seconds_from_zero("delay_seconds", delay_seconds),
            expires_seconds=_seconds_or_none("expires_seconds", expires_seconds),
        )
        key = None if unique_key is None else check_name("unique key", unique_key)
        unique_for = _seconds_or_none("unique_for", unique_for)
        group = None if group is None else check_text("group", group)
        admission = Admission(exempt, group, parent_fence, key, unique_for)
        wait = seconds_from_zero("block_seconds", seconds_of(self.settings, block_seconds))
        return JobId(self._publish(job, admission, wait_seconds=wait))

    def _publish(self, job: Job, admission: Admission, *, wait_seconds: float) -> Published:
        store = self._connected()
        if self._provider is not None:
            self._provider.publishes(job.workspace)
        if wait_seconds == 0:
            return store.publish(job, admission)
        return once_there_is_room(
            lambda waited: store.publish(_after(job, waited), admission),
            within_seconds=wait_seconds,
        )

    def _workspace(self, named: str | None) -> str:
        if named is not None:
            return named
        return current_workspace() or self.settings.default_workspace

    def claim(
        self,
        queues: Sequence[str],
        n: int = 1,
        *,
        wait_seconds: float = 0.0,
        finishes: Sequence[Finish] = (),
    ) -> Claimed:
        """Finish what has ended and lease up to ``n`` jobs, in one round trip.

        With ``wait_seconds`` it blocks until there is at least one, or time is up. A call whose
        reply was lost is repeated by the next one, so no job is leased to nobody.
        """
        _check_queues(queues, n)
        self._connected()
        claimed = self._claimer.claim(queues, n, finishes)
        if not claimed.leases and wait_seconds > 0 and n > 0:
            claimed = self._claimer.wait(queues, n, wait_seconds, claimed)
        if self._provider is not None and n > 0:
            self._provider.claimed(lease.job.workspace for lease in claimed.leases)
        return claimed

    def finish(self, finishes: Sequence[Finish]) -> frozenset[int]:
        """Report endings in one round trip; return the fences that were lost."""
        return self._claimer.ack(finishes)

    def ack(self, lease: Lease, *, seconds: float | None = None) -> None:
        """The job ended after ``seconds`` of work (None: since it was claimed): it is gone.

        Raises LeaseLost if the lease had passed; then nothing was changed.
        """
        seconds = time.monotonic() - lease.received_monotonic if seconds is None else seconds
        self._finish(lease, Ending.ACK, seconds_from_zero("seconds", seconds))

    def ack_early(self, lease: Lease) -> None:
        """Never redeliver this job; it keeps its slot until it is acked or its lease expires."""
        self._finish(lease, Ending.ACK_EARLY, 0.0)

    def _finish(self, lease: Lease, ending: Ending, seconds: float) -> None:
        if self._claimer.ack([Finish(lease.fence, ending, seconds)]):
            raise LeaseLost(lease.job.id, lease.job.workspace)

    def release(
        self,
        lease: Lease,
        *,
        delay_seconds: float = 0.0,
        counted: bool = False,
        seconds: float = 0.0,
        turned_away: bool = False,
    ) -> None:
        """Give a job back to the head of its lane, or after a delay; LeaseLost if it had passed.

        ``counted``: this start counts towards ``max_deliveries``; the last one makes it dead.
        ``turned_away``: this worker cannot run it, and its next lease counts that.
        """
        done = self._claimer.release(
            lease.fence,
            delay_seconds=seconds_from_zero("delay_seconds", delay_seconds),
            counted=counted,
            seconds=seconds_from_zero("seconds", seconds),
            turned_away=turned_away,
        )
        if not done:
            raise LeaseLost(lease.job.id, lease.job.workspace)

    def reject(self, lease: Lease, *, reason: str, seconds: float = 0.0) -> None:
        """Move a job to the dead letters of its workspace; LeaseLost if its lease had passed."""
        if not self._claimer.reject(lease.fence, reason=reason, seconds=seconds):
            raise LeaseLost(lease.job.id, lease.job.workspace)

    def renew(self, progress: Sequence[tuple[int, float]]) -> Renewed:
        """Extend leases, given (fence, worker-seconds so far); tell what is lost or cancelled."""
        return self._connected().renew(progress, lease_seconds=self.settings.lease_seconds)

    def reap(self) -> int:
        """Bring back expired leases and fire due timers, a bounded number; return how many."""
        return self._connected().reap(
            lease_seconds=self.settings.lease_seconds, max_deliveries=self.settings.max_deliveries
        )

    def invalidate_limits(self, workspace: str) -> None:
        """What the limit provider said of a workspace is old.

        A process that has the setting asks now, and the answer counts everywhere when this
        returns; in any other a worker that has it asks within seconds.
        """
        name, store = check_name("workspace", workspace), self._connected()
        if self._provider is None:
            store.ask_again(name)
        else:
            self._provider.ask(name, anew=True)

    @property
    def provider_errors(self) -> int:
        """How often this process's limit provider raised, or answered what is no limit."""
        return 0 if self._provider is None else self._provider.errors

    def stats(self) -> Stats:
        """What waits, runs and died, per workspace and queue, derived from the structures."""
        return self._connected().snapshot()

    def depth(self, queue: str, *, running: bool = False) -> int:
        """Jobs of a queue that wait or are scheduled; with ``running``, those that run as well."""
        return self._connected().depth(check_name("queue", queue), running=running)

    def declare(self, queue: str, *, plain: bool = False) -> None:
        """Remember a queue's kind: plain ones bypass the core (control, events, results)."""
        self._connected().declare(check_name("queue", queue), plain=plain)

    def is_plain(self, queue: str) -> bool | None:
        """Kind of a queue as declared by anyone; None: nobody declared it."""
        return self._connected().is_plain(check_name("queue", queue))

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """A waiter for wake-ups of these queues, for event loops. Claim when it is over."""
        return self._connected().waiter(queues)

    def clone(self, *, timeout_seconds: float | None = None) -> FairQueue:
        """The same queue over connections of its own, for a background thread.

        With a time-out no call waits longer for the server, nor is repeated by itself.
        """
        store = self.store.clone(timeout_seconds=timeout_seconds)
        queue = FairQueue(settings=self.settings, store=store)
        queue._ready = self._ready  # the server was checked, and has the limits
        return queue

    def close(self) -> None:
        """Close connections; the queue may be used again."""
        if self._provider is not None:
            self._provider.close()
        self._claimer.close()
        self.store.close()

    def __enter__(self) -> FairQueue:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
