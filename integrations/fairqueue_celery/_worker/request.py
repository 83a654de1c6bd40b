"""Notices when a Celery request starts and ends, in every pool.

On ``task_received``, in the worker's main process, the request's own callbacks are wrapped as
attributes of the instance. ``task_postrun`` would not do: a killed child never sends it.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery.exceptions import Ignore, Reject, Retry, TaskPredicate, TaskRevokedError
from celery.worker import state

from fairqueue import JobContext
from fairqueue.adapters import PARENT, run_context, wake_parent
from fairqueue_celery._channel.broker import Broker, find_held
from fairqueue_celery._consume.flusher import flusher
from fairqueue_celery._consume.held_lease import HeldLease, Verdict
from fairqueue_celery._consume.malformed import MALFORMED, reject_malformed
from fairqueue_celery._consume.shared_memory import runs
from fairqueue_celery._publish.publish import seconds_until
from fairqueue_celery._worker.batches import most_gathered
from fairqueue_celery._worker.pool_runs import run_is_over
from fairqueue_celery._worker.prefork import forget_job
from fairqueue_celery._worker.task import COSTS_PROCESS, LeaseEnded, WaitsForChild

logger = logging.getLogger("fairqueue_celery.worker")

GIVEN_UP = ("ignored", "rejected")
"""Outcomes of the history alone."""
COUNTED = (WorkerLostError, TimeLimitExceeded, *COSTS_PROCESS)
"""Errors after which a delivery counts."""
FOLLOWED = ("on_accepted", "on_success", "on_failure", "on_timeout", "cancel", "execute_using_pool")


def on_received(request: Any = None, **_others: Any) -> None:
    """Follow a request that came with a lease (receiver of ``task_received``)."""
    fence = getattr(request.message, "delivery_tag", None)
    found = find_held(fence) if isinstance(fence, int) else None
    if found is not None:
        FollowedRequest(*found, request).begin()
        most = most_gathered(request.task)
        if most:
            broker, held = found
            broker.leases.gather(held, most=most)


class FollowedRequest:
    """One request and the lease of its job. It stands in for these methods of the request."""

    def __init__(self, broker: Broker, held: HeldLease, request: Any) -> None:
        self._broker = broker
        self._held = held
        self._request = request
        self._cancelled = False
        self._celerys = {name: getattr(request, name) for name in FOLLOWED}

    def begin(self) -> None:
        """Follow it; the core has held the job until its ETA, so Celery need not."""
        self._held.request = request = self._request
        request._eta = None  # noqa: SLF001 - the task still sees it in its own request
        expires = request.message.delivery_info.get("expires")
        if expires and seconds_until(expires):  # of a redelivered job: its retry expires then, too
            request.request_dict["expires"] = expires
        for name in FOLLOWED:
            setattr(request, name, getattr(self, name))

    def execute_using_pool(self, pool: Any, **options: Any) -> Any:
        """What the pool cannot take, because of what its producer wrote, becomes a dead letter."""
        try:
            result = self._celerys["execute_using_pool"](pool, **options)
        except MALFORMED as error:
            if self._held.started is not None:
                raise  # the solo pool ran it here
            forget_job(pool, self._request)
            state.task_ready(self._request)
            reject_malformed(self._broker.leases, self._held, error)
            raise TaskRevokedError(str(error)) from error  # Celery frees its process
        self._held.run_is_over = run_is_over(pool, result)
        return result

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """A process has begun it."""
        self._broker.leases.start(self._held, time_accepted)
        try:
            self._celerys["on_accepted"](pid, time_accepted)
        except Exception:
            # as in prefork; elsewhere it would end the run before it begins
            logger.exception("Celery failed to note the start of %s", self._request)
        finally:
            self._ack_if_acknowledged()  # solo would do so after the task's end

    def _ack_if_acknowledged(self) -> None:
        if self._request.acknowledged:
            self._broker.leases.decide(self._held.fence, Verdict.ACK)

    def on_success(self, result: Any, *args: Any, **kwargs: Any) -> Any:
        """It has ended, or failed in a way that Celery has stored."""
        try:
            if not self._was_aborted(result):
                return self._celerys["on_success"](result, *args, **kwargs)
            state.task_ready(self._request)
        except BaseException:
            self._held.counted = True  # Celery cannot settle it, nor could it the next time
            raise
        finally:
            if isinstance(result, tuple) and not result[0]:
                self._count("succeeded")
                # now: Celery leaves it to the event loop, which may stand still while it stops
                self._ack_if_acknowledged()
            self._end()

    def cancel(self, *args: Any, **kwargs: Any) -> Any:
        """Let a cancelled run go back, also where Celery cannot store that it was cancelled.

        Celery kills the process, stores a result, and only then notes the cancel. With the result
        backend away it would take the death for a revocation, and ack.
        """
        self._cancelled = self._request._already_cancelled = True  # noqa: SLF001
        try:
            return self._celerys["cancel"](*args, **kwargs)
        except NotImplementedError:  # this pool cannot stop it, so it goes on
            self._request._already_cancelled = False  # noqa: SLF001
            raise

    def _was_aborted(self, result: Any) -> bool:
        """A cancelled greenlet reports success without a run time; that must not be acked."""
        return self._cancelled and isinstance(result, tuple) and result == (False, None, None)

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """It has failed, was rejected or is to be retried."""
        error = _error_of(exc_info)
        if self._is_cold_stop(error):
            state.task_ready(self._request)
            self._end()
            return None
        if not isinstance(error, (WaitsForChild, LeaseEnded)):
            self._count(_outcome_of(error), error.reason if isinstance(error, Reject) else error)
        self._held.counted = isinstance(error, COUNTED)
        if self._is_to_be_kept(error):
            self._held.failure = str(getattr(exc_info, "traceback", None) or repr(error))
        if isinstance(error, WaitsForChild):
            self._held.waits = self._request.id
        if isinstance(error, LeaseEnded):
            self._broker.leases.refuse(self._held)
        try:
            with run_context(self._job_context()):
                return self._celerys["on_failure"](exc_info, *args, **kwargs)
        except BaseException:
            self._held.counted = True  # Celery cannot settle it
            raise
        finally:
            if isinstance(error, (WorkerLostError, TimeLimitExceeded)):
                tell_parent(self._broker, self._request)
            self._end_when_dead() if isinstance(error, TimeLimitExceeded) else self._end()

    def on_timeout(self, soft: bool, timeout: float) -> Any:  # noqa: FBT001 - billiard's call
        """One of its time limits is over."""
        try:
            with run_context(self._job_context()):
                return self._celerys["on_timeout"](soft, timeout)
        finally:
            if not soft:
                self._end_when_dead()

    def _count(self, outcome: str, error: Any = None) -> None:
        """Count a run, in every pool: children have nothing to count."""
        core, job, seconds = self._broker.core, self._held.lease.job, self._held.seconds()
        if outcome not in GIVEN_UP:
            core.tally.ran(job, outcome, seconds)
        core.history.note(job, outcome, seconds, error)

    def _is_to_be_kept(self, error: Any) -> bool:
        """It ends the task, with an error that no retry follows."""
        task = self._request.task
        is_retried = isinstance(error, WorkerLostError) and getattr(
            task, "retry_on_worker_lost", False
        )
        is_no_failure = isinstance(error, (TaskPredicate, Terminated, LeaseEnded))
        return self._broker.settings.keep_failures and not (is_retried or is_no_failure)

    def _is_cold_stop(self, error: Any) -> bool:
        """The worker killed its children: a late-acked job goes back, also before Celery 5.5."""
        request = self._request
        return (
            state.should_terminate not in {None, False}
            and isinstance(error, WorkerLostError)
            and bool(request.task.acks_late)
            and not request.acknowledged
        )

    def _job_context(self) -> JobContext:
        """For what the worker's main process publishes on behalf of a task: errbacks, retries."""
        held = self._held
        return JobContext(
            job_id=held.lease.job.id,
            workspace=held.lease.job.workspace,
            fence=held.fence,
            deliveries=held.lease.deliveries,
            store_id=self._broker.core.store.store_id,
            redeliverable=held.verdict is None,
            body_returned=True,
        )

    def _end(self) -> None:
        held = self._held
        if held.ended:
            return
        if held.owner is not None:
            held.owner.took(time.monotonic() - held.held_since)
        self._broker.core.tally.steps(runs.steps(held.fence))
        self._broker.leases.end(held)
        for name in FOLLOWED:  # no cycle is left for the garbage collector
            self._request.__dict__.pop(name, None)

    def _end_when_dead(self) -> None:
        """At a hard time limit Celery fails the request first and kills the process afterwards."""
        held, pid = self._held, self._request.worker_pid
        if held.ended or held.stopped is not None:
            return
        if not pid or pid == os.getpid():
            self._end()
            return
        held.stopped = time.monotonic()
        self._broker.dying.append((held, pid))
        flusher.look()


def tell_parent(broker: Broker, request: Any) -> None:
    """The main process has stored the end of a task: if this is a child, its parent may go on."""
    if PARENT in request.request_dict:
        wake_parent(broker.core.store, request.request_dict[PARENT])


def _error_of(exc_info: Any) -> Any:
    error = getattr(exc_info, "exception", None)
    return error.exc if isinstance(error, ExceptionWithTraceback) else error


def _outcome_of(error: BaseException) -> str:
    if isinstance(error, Retry) or (isinstance(error, Reject) and error.requeue):
        return "retried"
    if isinstance(error, Ignore):
        return "ignored"
    return "rejected" if isinstance(error, Reject) else "failed"
