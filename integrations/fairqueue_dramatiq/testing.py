"""A Dramatiq broker whose jobs are in memory for one test (behind ``fairqueue_jobs``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import Queue
from typing import Any

from dramatiq.broker import Broker
from dramatiq.middleware import AsyncIO
from dramatiq.worker import _ConsumerThread, _WorkerThread

from fairqueue import FairQueue, Lease, Settings
from fairqueue.adapters import Finish, direct_calls
from fairqueue.testing import Jobs, ManualClock, Run, Seconds, memory_url
from fairqueue_dramatiq import _broker_kinds
from fairqueue_dramatiq._broker_proxy import BrokerProxy
from fairqueue_dramatiq._claims import Claims
from fairqueue_dramatiq._consumer import FairConsumer
from fairqueue_dramatiq._messages import LeasedMessage, decode_job, decode_payload
from fairqueue_dramatiq._options import workspace_of_call
from fairqueue_dramatiq.middleware import proxy_of


@contextmanager
def in_memory(broker: Broker, clock: ManualClock, **settings: Any) -> Iterator[DramatiqJobs]:
    """Keep the jobs of a broker in memory inside the block, with its middleware's settings.

    ``settings`` replace those of the middleware. Raises ConfigurationError for one that is
    impossible, and for a broker without the middleware.
    """
    proxy = proxy_of(broker)
    with memory_url(clock) as url:
        core = FairQueue(url, settings=Settings.load({**proxy.core.settings.given, **settings}))

        def workspace(actor: Any, *args: Any, **kwargs: Any) -> str:
            return workspace_of_call(broker, actor.message(*args, **kwargs), core)

        direct = direct_calls([*broker.actors.values()], "fn", workspace)
        claims = InlineClaims(core)
        before = proxy.use(core, claims)
        try:
            with _event_loop(broker), _own_dead_letters(broker), direct:
                yield DramatiqJobs(proxy, claims, clock)
        finally:
            proxy.use(*before)
            claims.close()


@contextmanager
def _event_loop(broker: Broker) -> Iterator[None]:
    """What async actors run in, if the broker has the middleware that a worker starts it with."""
    found = [each for each in broker.middleware if isinstance(each, AsyncIO)]
    for each in found:
        each.before_worker_boot(broker, None)
    try:
        yield
    finally:
        for each in found:
            each.after_worker_shutdown(broker, None)


@contextmanager
def _own_dead_letters(broker: Any) -> Iterator[None]:
    """Leave a StubBroker without the dead letters of this test, which its ``join`` would raise."""
    if _broker_kinds.kind_of(broker) != _broker_kinds.STUB:
        yield
        return
    before = {queue: list(letters) for queue, letters in broker.dead_letters_by_queue.items()}
    try:
        yield
    finally:  # its consumers hold these lists
        for queue, letters in broker.dead_letters_by_queue.items():
            letters[:] = before.get(queue, [])


class InlineClaims(Claims):
    """The leases of jobs that run one by one in the thread of a test."""

    def __init__(self, core: FairQueue) -> None:
        super().__init__(core, threads=1, deliver=_ignore, lost=_ignore, cancelled=_ignore)
        self.seconds_of_run: Seconds = float
        """What the present run has taken, by the test's clock."""

    def finish(self, lease: Lease) -> None:
        """End the job, with the seconds of its run."""
        self._report(Finish(lease.fence, seconds=self.seconds_of_run()))

    def _report(self, finish: Finish) -> None:
        """Report this end at once."""
        self.core.finish([finish])


def _ignore(_: Lease) -> None:
    """Nothing else claims, loses or cancels these jobs."""


class DramatiqJobs(Jobs):
    """The jobs of a Dramatiq broker."""

    def __init__(self, proxy: BrokerProxy, claims: InlineClaims, clock: ManualClock) -> None:
        super().__init__(proxy.core, clock)
        self._proxy, self._claims = proxy, claims

    def _name(self, task: Any) -> str:
        return str(getattr(task, "actor_name", task))

    def _arguments(self, payload: bytes) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        message = decode_payload(payload)
        return tuple(message.args), message.kwargs

    def _execute(self, lease: Lease, seconds: Seconds) -> Run:
        message = LeasedMessage(decode_job(lease.job), lease, keeps_exception=True)
        self._claims.seconds_of_run = seconds
        self._worker_thread(message.queue_name).process_message(message)
        job, error = lease.job, message._exception  # noqa: SLF001 - as our own middleware reads it
        args, kwargs = tuple(message.args), message.kwargs
        return Run(
            job.task, job.workspace, job.queue, args, kwargs, _outcome(message, error), error=error
        )

    def _worker_thread(self, queue: str) -> Any:
        """One of Dramatiq's worker threads; it is not started, and processes messages here."""
        broker, work = self._proxy.broker, Queue[None]()
        work.put(None)  # what the thread reports as done
        given: Any = {"broker": broker, "work_queue": work, "worker_timeout": 0}
        consuming = _ConsumerThread(queue_name=queue, prefetch=1, **given)
        consuming.consumer = FairConsumer(
            self._claims, queue, timeout_seconds=0.0, add_dead_letter=self._add_dead_letter
        )
        return _WorkerThread(consumers={queue: consuming}, **given)

    def _add_dead_letter(self, message: LeasedMessage) -> bool:
        """To those of a StubBroker; those of another broker are on its server."""
        broker, job = self._proxy.broker, message.lease.job
        if _broker_kinds.kind_of(broker) == _broker_kinds.STUB:
            _broker_kinds.add_dead_letter(
                broker, job.queue, job.payload, message=message, name=job.id
            )
        return True


def _outcome(message: LeasedMessage, error: BaseException | None) -> Any:
    if message.skipped:
        return "rejected"
    if error is None:
        return "succeeded"
    return "failed" if message.failed else "retried"
