"""Notices when a Celery request starts and ends, in every pool.

On ``task_received``, in the worker's main process, the request's own callbacks are wrapped as
attributes of the instance. ``task_postrun`` is not relied upon: a killed child never sends it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.worker import state

import fairqueue
from fairqueue_celery.broker import Broker, brokers
from fairqueue_celery.janitor import janitor
from fairqueue_celery.slot import Slot, Verdict

COUNTED = (WorkerLostError, TimeLimitExceeded, MemoryError)
"""What took the worker's process with it, or would take the next one's."""


def on_received(request: Any = None, **_others: Any) -> None:
    """Watch a request that came with a lease (receiver of ``task_received``)."""
    fence = getattr(request.message, "delivery_tag", None)
    if not isinstance(fence, int):
        return
    for broker in brokers():
        slot = broker.slots.get(fence)
        if slot is not None:
            Watch(broker, slot, request).begin()


class Watch:
    """One request and its slot."""

    def __init__(self, broker: Broker, slot: Slot, request: Any) -> None:
        self._broker = broker
        self._slot = slot
        self._request = request
        self._cancelled = False

    def begin(self) -> None:
        """Wrap the callbacks; the core has held the job until its time, so Celery need not."""
        request = self._request
        self._slot.request = request
        request._eta = None  # noqa: SLF001 - the task still sees it in its own request
        request.on_accepted = self._accepting(request.on_accepted)
        request.on_success = self._ending(request.on_success)
        request.on_failure = self._failing(request.on_failure)
        request.on_timeout = self._timing_out(request.on_timeout)
        request.cancel = self._cancelling(request.cancel)

    def _accepting(self, on_accepted: Callable[..., Any]) -> Callable[..., Any]:
        def accepted(pid: int, time_accepted: float) -> Any:
            slots = self._broker.slots
            slots.start(self._slot, time_accepted)
            try:
                return on_accepted(pid, time_accepted)
            finally:
                if self._request.acknowledged:  # told now: solo would do so after the task's end
                    slots.decide(self._slot.fence, Verdict.ACK)

        return accepted

    def _ending(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        def ended(result: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if not self._was_cut_off(result):
                    return callback(result, *args, **kwargs)
                state.task_ready(self._request)
            except BaseException:
                self._slot.counted = True  # Celery cannot settle it, and a next time would not do
                raise
            finally:
                self._tell_ack(result)
                self._end()

        return ended

    def _tell_ack(self, result: Any) -> None:
        """At once: Celery hands it to the event loop, which may stand still while it stops."""
        succeeded = isinstance(result, tuple) and not result[0]
        if succeeded and self._request.acknowledged:
            self._broker.slots.decide(self._slot.fence, Verdict.ACK)

    def _cancelling(self, cancel: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(cancel)  # its signature differs between versions of Celery
        def cancelled(*args: Any, **kwargs: Any) -> Any:
            self._cancelled = True
            return cancel(*args, **kwargs)

        return cancelled

    def _was_cut_off(self, result: Any) -> bool:
        """A cancelled greenlet says success, without a run time: nothing of it may be acked."""
        return self._cancelled and isinstance(result, tuple) and result == (False, None, None)

    def _failing(self, on_failure: Callable[..., Any]) -> Callable[..., Any]:
        def failed(exc_info: Any, *args: Any, **kwargs: Any) -> Any:
            error = _error_of(exc_info)
            if self._is_cold_stop(error):
                state.task_ready(self._request)
                self._end()
                return None
            self._slot.counted = isinstance(error, COUNTED)
            try:
                with fairqueue.running(self._as_running()):
                    return on_failure(exc_info, *args, **kwargs)
            finally:
                self._end_when_dead() if isinstance(error, TimeLimitExceeded) else self._end()

        return failed

    def _is_cold_stop(self, error: Any) -> bool:
        """The worker shot its own children: a late-acked job goes back, also before Celery 5.5."""
        request = self._request
        return (
            state.should_terminate not in {None, False}
            and isinstance(error, WorkerLostError)
            and bool(request.task.acks_late)
            and not request.acknowledged
        )

    def _timing_out(self, on_timeout: Callable[..., Any]) -> Callable[..., Any]:
        def timed_out(soft: bool, timeout: float) -> Any:  # noqa: FBT001 - billiard's call
            try:
                with fairqueue.running(self._as_running()):
                    return on_timeout(soft, timeout)
            finally:
                if not soft:
                    self._end_when_dead()

        return timed_out

    def _as_running(self) -> fairqueue.Running:
        """For what the worker's main process publishes on behalf of a task: errbacks, retries."""
        slot = self._slot
        return fairqueue.Running(
            job_id=slot.lease.job.id,
            workspace=slot.lease.job.workspace,
            fence=slot.fence,
            deliveries=slot.lease.deliveries,
            redeliverable=slot.verdict is None,
            body_returned=True,
        )

    def _end(self) -> None:
        slot = self._slot
        if not slot.ended:
            self._took()
            self._broker.slots.end(slot)

    def _took(self) -> None:
        claims = self._slot.owner
        if claims is not None and hasattr(claims, "took"):
            claims.took(time.monotonic() - self._slot.opened)

    def _end_when_dead(self) -> None:
        """At a hard time limit Celery is told first and the process is killed after."""
        slot, pid = self._slot, self._request.worker_pid
        if slot.ended or slot.stopped is not None:
            return
        if not pid or pid == os.getpid():
            self._end()
            return
        slot.stopped = time.monotonic()
        self._broker.dying.append((slot, pid))
        janitor.look()


def _error_of(exc_info: Any) -> Any:
    error = getattr(exc_info, "exception", None)
    return error.exc if isinstance(error, ExceptionWithTraceback) else error
