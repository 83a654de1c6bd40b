"""FairQueue: publish, claim and acknowledge jobs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from fairqueue._claim.claimers import Claimers
from fairqueue._connection import Connection
from fairqueue._limits.own import OwnLimits
from fairqueue._limits.provider import LimitProvider
from fairqueue._process_metrics import Tally
from fairqueue._publish.capacity_wait import publish_refused_again, wait_seconds
from fairqueue._publish.framework_ids import publish_known_ids_again, publish_one
from fairqueue._publish.missing_workspace import MissingWorkspace
from fairqueue._publish.new_job import NewJob, as_one_group, checked
from fairqueue._requests import Requests
from fairqueue._settings import Settings, split_settings
from fairqueue._stores import open_store
from fairqueue._stores.replies import rejected, released
from fairqueue._stores.sharded import sharded
from fairqueue._stores.sharded.asking import PROBED_QUEUE, first, refuse_if_full
from fairqueue._stores.store import StoreBase
from fairqueue._stores.waiter import Waiter
from fairqueue._tracing import Tracing
from fairqueue._types import (
    Admission,
    Claimed,
    Finish,
    Job,
    JobId,
    Lease,
    Renewed,
)
from fairqueue._validation import (
    check_name,
    check_queues,
    plain_str,
    seconds_from_zero,
    seconds_of_delay,
)
from fairqueue.buffer.outages import Outages
from fairqueue.errors import (
    CapacityExceeded,
    ConfigurationError,
    FairQueueError,
    LeaseLost,
)
from fairqueue.operate import Operators
from fairqueue.operate.unseen_names import SimilarNames
from fairqueue.schedules import Core, Schedules


class FairQueue(Operators):
    """A fair queue in one store. Threads may share it, and it may be used after a fork.

    ``url`` is ``redis://``, ``rediss://``, ``unix://``, ``memory://``, or ``redis+sentinel://``
    with several hosts and a service, ``h1:26379,h2:26379/mymaster/0``; instead of it, ``client``
    takes an existing ``redis.Redis``. Several servers, ``redis://h1:6379,h2:6379/0``, have at
    least one shard each (see the setting ``shards``): every workspace lives whole on one of them.
    Name them in the same order in all processes. ``redis+cluster://h1:6379,h2:6379/0`` names nodes
    of a Redis Cluster. Settings (see :class:`fairqueue.Settings`) are keyword arguments or stand in
    the URL's query; these replace those of ``settings``. Raises ConfigurationError for an unknown
    or impossible setting or URL.

    The first operation connects: it checks the server and stores this process's limits if none
    are stored yet. With ``authoritative`` they always replace the stored ones, and a claim stores
    them again within a third of a lease if the store has lost its data (FLUSHDB); with
    ``brings_limits=False``, for tools, they are never stored.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        client: Any = None,
        store: StoreBase | None = None,
        authoritative: bool = False,
        brings_limits: bool = True,
        **options: Any,
    ) -> None:
        rest, in_url = split_settings(url) if url else ("", {})
        named = {**in_url, **options}
        if settings is None or named:
            settings = Settings.load({**(settings.given if settings else {}), **named})
        self.store = sharded(store or open_store(rest, client=client, settings=settings))
        self._how: dict[str, Any] = {"authoritative": authoritative, "brings_limits": brings_limits}
        self._connection = Connection(self.store, self._bring_limits if brings_limits else None)
        self._connected = self._connection.connected
        super().__init__(self._connection.reached, settings)
        self.job, self.watch = self.statuses.job, self.statuses.watch
        self._claimer = self._introduced = Claimers(self.store, self.settings)
        self.endings = self._claimer
        """Ends that wait for a server that is away (for adapters)."""
        self.presence = self.history.presence = self._claimer.presence
        """What ``queue.views.workers()`` tells of what this queue claims (for adapters)."""
        self._own_limits = OwnLimits(self.settings, self.store, authoritative=authoritative)
        core = Core(self._connection, self.settings, self.publish_many, self.registry)
        self.schedules = self.acts.watch(Schedules(core), "schedules")
        """Jobs at times of their own, whose ticks workers publish."""
        self.missing_workspace = MissingWorkspace(self.settings)
        """What becomes of a publish whose workspace is not found (for adapters)."""
        self.tally = Tally(self.settings.metrics_workspaces)
        """What this process sees happen, for ``fairqueue.metrics``; off until that turns it on."""
        self.tracing = Tracing(is_on=self.settings.tracing)
        """Spans of publishes and runs (for adapters)."""
        self.requests = Requests(self._connected, self.settings, self._ask_provider)
        """Places for web requests in flight."""
        self._similar_names = SimilarNames(self.settings.workspaces)
        self.outages = Outages(settings, self.store, self.clone, self.tally, checks=store is None)
        self._provider: LimitProvider | None = None
        if brings_limits and self.settings.limit_provider is not None:
            self._provider = LimitProvider(self.settings.limit_provider, self.store)

    @property
    def buffered(self) -> int:
        """How many jobs this process keeps on disk until the store answers."""
        return self.outages.counts()[0]

    def ask(self) -> None:
        """Ask the store anything; raises StoreUnavailable if none of its servers answers."""
        shards = self._connected().shards
        first(shards, lambda shard: shard.is_plain(PROBED_QUEUE), nothing=())

    def connect(self) -> bool:
        """Check the server and store the limits; return whether the stored ones are now these.

        Runs automatically before the first operation. Raises ConfigurationError if the server
        does not meet the requirements, StoreUnavailable if it cannot be reached. Where a server
        may lose jobs, a queue that has worked before, or a tool's, goes on with a warning.
        """
        return self._connection.connect()

    def _bring_limits(self) -> bool:
        if self._provider is not None:
            self._provider.load()
        return self._own_limits.bring()

    def refuse_if_full(self) -> None:
        """Raise StoreUnavailable if the store has no memory for a job; changes nothing.

        Of several servers, if none has: the workspace of the job is not known.
        """
        refuse_if_full(self._connected().shards)

    def _ask_provider(self, workspace: str) -> None:
        """Have the limits of a workspace that this process meets for the first time."""
        if self._provider is not None:
            self._provider.before_publish(workspace)

    def publish(
        self,
        payload: bytes,
        *,
        queue: str,
        workspace: str | int | UUID | None = None,
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
        on_unavailable: str | None = None,
    ) -> JobId:
        """Enqueue one job and return its id, a str with an ``outcome`` (:class:`Outcome`).

        The workspace is the given one, else that of ``workspace(...)`` or of the running job,
        else the setting ``default_workspace`` (see the setting ``on_missing_workspace``, which may
        refuse it with WorkspaceUnresolved). Publishing the same ``job_id`` again stores
        nothing. ``priority`` 0 is the most urgent. ``delay_seconds``, at most 100 years, schedules
        the job; if it is not started ``expires_seconds`` after this call, it is a dead letter.

        With a ``unique_key`` at most one job per workspace, task and key is accepted, until that
        job ends or for ``unique_for`` seconds. If another job holds the key nothing is stored,
        the outcome is ``existing``, and the id is that job's.

        Where a capacity is reached, the publish waits up to ``block_seconds`` (default: as the
        settings ``on_full`` and ``block_seconds`` say; 0: not at all) and then raises
        CapacityExceeded. ``exempt`` jobs, such as retries, are always accepted and hold no unique
        key; of a ``group`` only the first job is checked. With ``parent_fence`` it raises
        LeaseLost if the publishing job has lost its lease. ConfigurationError: a bad name or
        number, or a payload above the setting ``max_payload_bytes``. After these errors nothing is
        stored. After StoreUnavailable the job may be stored: publish it again with the same
        ``job_id``. ``on_unavailable="buffer"`` keeps it on disk instead, until the store answers.
        """
        new = NewJob(
            payload,
            queue,
            workspace,
            task,
            priority,
            delay_seconds,
            job_id,
            exempt,
            group,
            parent_fence,
            expires_seconds,
            unique_key,
            unique_for,
            on_unavailable=on_unavailable,
        )
        return self.publish_job(new, block_seconds=block_seconds)

    def publish_job(
        self, new: NewJob, *, is_new: bool | None = None, block_seconds: float | None = None
    ) -> JobId:
        """Publish one job; ``is_new``: its id was never sent (None: if it is made here)."""
        pair = self._checked(new, is_new=is_new)
        publish = partial(self._publish, *pair, wait_seconds(self.settings, block_seconds))
        if pair[1].on_unavailable == "raise":
            return publish()
        [published] = self.outages.publish_many([pair], lambda: [publish()])
        return published

    def _checked(self, new: NewJob, *, is_new: bool | None = None) -> tuple[Job, Admission]:
        pair = checked(new, self.settings, self.missing_workspace, is_new=is_new)
        self._similar_names.note(pair[0].workspace)
        if self.settings.on_unknown_task == "reject" and not self.outages.is_away:
            self.registry.refuse(*pair)
        return pair

    def _publish(self, job: Job, admission: Admission, within_seconds: float) -> JobId:
        store = self._connected()
        self._ask_provider(job.workspace)
        try:
            published = publish_one(store, job, admission, within_seconds)
        except CapacityExceeded as error:
            self.tally.rejected(error, self.store.add_activity)
            raise
        self.tally.counted("jobs_published", job.queue, n=int(published.is_new))
        self.registry.warn(job)
        return published

    def publish_many(
        self,
        jobs: Iterable[NewJob],
        *,
        all_or_none: bool = False,
        block_seconds: float | None = None,
    ) -> list[JobId | FairQueueError]:
        """Publish each of these jobs, in turn; return an outcome for each, in their order.

        An outcome is the JobId that :meth:`publish` would return, or the CapacityExceeded or
        LeaseLost that it would raise. Jobs of one ``group`` are accepted together or not at all,
        however many they are; with ``all_or_none`` all jobs are, and those errors are raised.
        Up to 100 jobs take one round trip, in one atomic step.

        Raises ConfigurationError for a bad argument of any job, before anything is stored, and
        StoreUnavailable: :class:`fairqueue.errors.PublishInterrupted`, which has the outcomes so
        far. To be able to publish all of them again then, give each its ``job_id``.
        """
        pairs = [self._checked(new) for new in jobs]
        pairs = as_one_group(pairs) if all_or_none else pairs
        publish = partial(self._publish_many, pairs, wait_seconds(self.settings, block_seconds))
        outcomes = self.outages.publish_many(pairs, publish)
        failed = next((each for each in outcomes if isinstance(each, FairQueueError)), None)
        if all_or_none and failed is not None:
            raise failed
        return outcomes

    def _publish_many(
        self, pairs: Sequence[tuple[Job, Admission]], within_seconds: float = 0.0
    ) -> list[JobId | FairQueueError]:
        store = self._connected()
        for workspace in {job.workspace for job, _ in pairs}:
            self._ask_provider(workspace)
        outcomes = store.publish_many(pairs)
        if within_seconds > 0:
            outcomes = publish_refused_again(store, pairs, outcomes, within_seconds=within_seconds)
        publish_known_ids_again(store, pairs, outcomes, within_seconds)
        self.tally.outcomes((job.queue for job, _ in pairs), outcomes, self.store.add_activity)
        self.registry.warn(*(job for job, _ in pairs))
        return outcomes

    def claim(
        self,
        queues: Sequence[str],
        n: int = 1,
        *,
        wait_seconds: float = 0.0,
        finishes: Sequence[Finish] = (),
        has_waiter: bool = False,
        acks_early: Collection[str] = (),
    ) -> Claimed:
        """Report ``finishes`` and lease up to ``n`` jobs of these queues, in one round trip.

        With ``wait_seconds`` it blocks until there is at least one job, or the time is up. If a
        reply is lost (StoreUnavailable), the next call returns the jobs it had leased.
        ``has_waiter``: the caller arms a waiter where it leases less: no shard is asked in vain.
        ``acks_early``: tasks whose jobs it acks early, where it can: see :attr:`Lease.acked_early`.
        ConfigurationError: ``queues`` is empty or not a list of names.
        """
        queues = check_queues(queues, n)
        self._connected()
        if n > 0:
            self._own_limits.restore_if_lost(lambda: self._claimer.answering)
        waits = has_waiter or wait_seconds > 0
        claimed = self._claimer.claim(queues, n, finishes, has_waiter=waits, acks_early=acks_early)
        if not claimed.leases and wait_seconds > 0 and n > 0:
            claimed = self._claimer.wait(queues, n, wait_seconds, claimed)
        self.tally.finished(finishes, claimed.lost)
        self.tally.claimed(claimed.leases, self.store.add_activity)
        if self._provider is not None and n > 0:
            self._provider.after_claim(lease.job.workspace for lease in claimed.leases)
        return claimed

    def finish(self, finishes: Sequence[Finish], *, keeps: bool = False) -> frozenset[int]:
        """Report several endings in one round trip; return the fences whose lease was lost.

        If it ``keeps`` them, those for a server that is away are sent later, unless all are.
        """
        self.tally.finished(finishes, lost := self._claimer.ack(finishes, keeps=keeps))
        return lost

    def ack(self, lease: Lease, *, seconds: float | None = None) -> None:
        """End a job after ``seconds`` of work (default: the time since its claim); remove it.

        Raises LeaseLost, with nothing changed, if its lease was lost.
        """
        seconds = time.monotonic() - lease.received_monotonic if seconds is None else seconds
        if self.finish([Finish(lease.fence, seconds=seconds_from_zero("seconds", seconds))]):
            raise LeaseLost(lease.job.id, lease.job.workspace)
        self.history.note_plain(lease.job, "succeeded", seconds)

    def release(
        self,
        lease: Lease,
        *,
        delay_seconds: float = 0.0,
        counted: bool = False,
        seconds: float = 0.0,
        declined: bool = False,
        waits: str = "",
    ) -> None:
        """Give a job back to the head of its lane, or schedule it after ``delay_seconds``.

        ``counted``: this delivery counts towards ``max_deliveries``; when that is reached, the job
        becomes a dead letter. ``declined``: this worker cannot run it; ``Lease.declined`` counts
        how often. ``seconds``: worker-seconds used. ``waits``: the id of its task, which waits for
        children (:mod:`fairqueue.step`). Raises LeaseLost if its lease was lost.
        """
        self._give_up(
            lease,
            released(
                lease.fence,
                seconds=seconds_from_zero("seconds", seconds),
                delay_seconds=seconds_of_delay(delay_seconds, must_take=True),
                counted=counted,
                declined=declined,
                waits=waits,
            ),
        )

    def _give_up(self, lease: Lease, finish: Finish) -> None:
        if self.finish([finish], keeps=True):
            raise LeaseLost(lease.job.id, lease.job.workspace)

    def reject(self, lease: Lease, *, reason: str, seconds: float = 0.0, details: str = "") -> None:
        """Move a job to the dead letters of its workspace; LeaseLost if its lease was lost.

        The last 8,000 characters of ``details`` are kept, such as a traceback.
        """
        seconds, reason = seconds_from_zero("seconds", seconds), plain_str(reason)
        finish = rejected(lease.fence, reason=reason, seconds=seconds, details=details)
        self._give_up(lease, finish)
        self.history.note_plain(lease.job, "rejected", seconds, reason)

    def renew(self, progress: Sequence[tuple[int, float]], *, owner: str | None = None) -> Renewed:
        """Extend leases, given (fence, worker-seconds so far); say which are lost or cancelled.

        ``owner`` is that of the leases (:attr:`Lease.owner`); None: this queue in this process.
        """
        owner = owner or self._claimer.owner
        progress = [(fence, seconds_from_zero("seconds", used)) for fence, used in progress]
        renewed = self._introduced.renew(self._connected(), progress, owner)
        self.tally.worked(progress, self.store.add_activity)
        return renewed

    def reap(self) -> int:
        """Process a bounded number of expired leases and due timers; return how many."""
        return self._connected().reap(max_deliveries=self.settings.max_deliveries)

    def invalidate_limits(self, workspace: str) -> None:
        """Call the limit provider now for a workspace, for example after it was upgraded.

        Its answer is in force for all processes when this returns. Raises the provider's error,
        and ConfigurationError if this process does not have the setting ``limit_provider``.
        """
        name, _ = check_name("workspace", workspace), self._connected()
        if self._provider is None:
            raise ConfigurationError(
                f"workspace {name!r}: call invalidate_limits() in a process with a limit_provider"
            )
        self._provider.refresh(name)

    @property
    def provider_errors(self) -> int:
        """How often this process's limit provider failed or returned an invalid answer."""
        return 0 if self._provider is None else self._provider.errors

    def depth(self, queue: str, *, running: bool = False) -> int:
        """Count a queue's waiting and scheduled jobs and, with ``running``, its running ones."""
        return self._connected().depth(check_name("queue", queue), running=running)

    def declare(self, queue: str, *, plain: bool = False) -> None:
        """Store a queue's kind: plain ones bypass fairqueue (control, events, results)."""
        self._connected().declare(check_name("queue", queue), plain=plain)

    def is_plain(self, queue: str) -> bool | None:
        """Return whether a queue is declared plain; None: never declared or published to."""
        return self._connected().is_plain(check_name("queue", queue))

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """Make a waiter for wake-ups of these queues. Claim again whenever its wait ends."""
        return self._connected().waiter(queues)

    def clone(self, *, timeout_seconds: float | None = None) -> FairQueue:
        """Return the same queue over separate connections, for a background thread.

        With a timeout no call waits longer for the server, and none is retried automatically.
        """
        store = self.store.clone(timeout_seconds=timeout_seconds)
        queue = FairQueue(settings=self.settings, store=store, **self._how)
        queue._connection.like(self._connection)
        queue.missing_workspace = self.missing_workspace
        queue._similar_names, queue.registry = self._similar_names, self.registry
        queue._introduced, queue.tally = self._claimer, self.tally  # whose leases it may renew
        return queue

    def note_stop(self) -> None:
        """Tell operators that this worker stops, until it claims again (for adapters)."""
        self._claimer.close()
        self.tally.send_activity(self.store.add_activity, now=True)

    def close(self) -> None:
        """Close all connections; the queue can be used again and reconnects."""
        self.note_stop()
        for part in (self.requests, self.history, self.outages, self.store):
            part.close()

    def __enter__(self) -> FairQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
