"""Follows tasks that run many jobs together: their strategy gathers them, as celery-batches' does.

Such a strategy keeps each request that it receives, and gives the pool one call for all of them,
when there are ``flush_every`` or when its time is up. So a gathered job occupies no process, up to
that number; the call occupies one, and its jobs end with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery.app.task import Task

from fairqueue_celery._channel.broker import brokers
from fairqueue_celery._consume.held_lease import HeldLease
from fairqueue_celery._consume.leases import HeldLeases
from fairqueue_celery._worker.pool_runs import run_is_over


def most_gathered(task: Any) -> int:
    """How many jobs the strategy of a task gathers before it runs them; 0: it gathers none."""
    most = getattr(task, "flush_every", 0)
    has_own_strategy = task.Strategy != Task.Strategy
    return most if has_own_strategy and isinstance(most, int) else 0


def adapt(pool: Any) -> None:
    """Follow the calls that strategies give this pool; before strategies are built."""
    if getattr(pool.apply_async, "follows_batches", False):
        return
    apply_async = pool.apply_async

    def following(target: Callable[..., Any], *args: Any, **options: Any) -> Any:
        batch = _batch_of(args[0] if args else options.get("args"))
        if batch is None:
            return apply_async(target, *args, **options)
        result = apply_async(target, *args, **batch.following(**options))
        batch.ask(run_is_over(pool, result))
        return result

    following.follows_batches = True  # type: ignore[attr-defined]
    pool.apply_async = following


def _batch_of(call: Any) -> _Batch | None:
    """What the task that such a call begins with has gathered; Celery's calls begin with a name."""
    if not call or not isinstance(call[0], Task):
        return None
    for broker in brokers():
        gathered = broker.leases.take_gathered(call[0].name)
        if gathered:
            return _Batch(broker.leases, gathered)
    return None


@dataclass
class _Batch:
    leases: HeldLeases
    gathered: list[HeldLease]

    def ask(self, is_over: Callable[[], bool] | None) -> None:
        """Note how to ask the pool for the run: its end may be swallowed."""
        for held in self.gathered:
            held.run_is_over = is_over

    def following(
        self,
        *,
        accept_callback: Callable[..., Any] | None = None,
        callback: Callable[..., Any] | None = None,
        error_callback: Callable[..., Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """The options of the call, with callbacks that note its start and its end."""

        def accepted(pid: int, at: float) -> None:
            for held in self.gathered:
                self.leases.start(held, at)
            _call(accept_callback, pid, at)  # acks it, unless acks_late

        def returned(result: Any) -> None:
            try:
                _call(callback, result)  # acks what is not acked yet
            finally:
                self._end()

        def failed(error: Any) -> None:
            for held in self.gathered:
                held.counted = True  # its process was lost
            try:
                _call(error_callback, error)
            finally:
                self._end()

        ours = {"accept_callback": accepted, "callback": returned, "error_callback": failed}
        return {**options, **ours}

    def _end(self) -> None:
        for held in self.gathered:
            self.leases.end(held)


def _call(callback: Callable[..., Any] | None, *args: Any) -> None:
    if callback is not None:
        callback(*args)
