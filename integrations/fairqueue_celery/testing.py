"""A Celery app whose jobs are in memory for one test (behind the fixture ``fairqueue_jobs``)."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from celery import states
from celery.app.trace import trace_task
from celery.exceptions import NotRegistered
from kombu import pools

from fairqueue import JobContext, Lease
from fairqueue.adapters import (
    PARENT,
    POLL_SECONDS,
    direct_calls,
    end_steps,
    message_id_of,
    run_context,
    wake_parent,
)
from fairqueue.testing import Jobs, ManualClock, Run, Seconds, memory_url
from fairqueue_celery._channel.broker import forget_broker, queue_of
from fairqueue_celery._channel.task_queues import raw_message
from fairqueue_celery._config.address import collect_failover_settings, read_address
from fairqueue_celery._config.options import split_options
from fairqueue_celery._consume.leases import FAILED
from fairqueue_celery._worker.children import Children
from fairqueue_celery._worker.eager import of_direct_call
from fairqueue_celery._worker.failures import message_of
from fairqueue_celery._worker.task import WaitsForChild, if_leased, mark_bodies

OF_BROKER = ("broker_url", "broker_read_url", "broker_write_url", "broker_use_ssl")
VARIABLES = ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL")
RESULTS = "CELERY_RESULT_BACKEND"
"""Celery prefers these variables to an app's configuration."""


@contextmanager
def in_memory(app: Any, clock: ManualClock, **settings: Any) -> Iterator[CeleryJobs]:
    """Keep the jobs and results of an app in memory inside the block, with its settings.

    ``settings`` replace those of the app. Raises ConfigurationError for one that is impossible.
    """
    app.finalize()
    own = {**_settings_of(app), **settings}
    with memory_url(clock) as url, ExitStack() as undo:
        undo.callback(forget_broker, url)
        undo.enter_context(_configured(app, f"fairqueue+{url}", own))
        mark_bodies(app)
        undo.enter_context(direct_calls([*app.tasks.values()], "run", of_direct_call))
        yield CeleryJobs(app, clock)


def _settings_of(app: Any) -> dict[str, Any]:
    connection = app.connection_for_write()
    collect_failover_settings(connection)
    options = connection.transport_options or {}
    return split_options(options, read_address(connection).query, of_sentinels=True)[0]


@contextmanager
def _configured(app: Any, url: str, settings: Mapping[str, Any]) -> Iterator[None]:
    config = dict.fromkeys(OF_BROKER[1:]) | {
        "broker_url": url,
        "broker_transport_options": dict(settings),
        "task_always_eager": False,
    }
    if app.conf.result_backend not in {None, "disabled", "disabled://"}:
        config["result_backend"] = url
    before = {name: app.conf.get(name) for name in config}
    variables = {name: os.environ.pop(name) for name in (*VARIABLES, RESULTS) if name in os.environ}
    _reconnect(app, config)
    try:
        yield
    finally:
        os.environ.update(variables)
        _reconnect(app, before)


def _reconnect(app: Any, config: Mapping[str, Any]) -> None:
    """Give an app another configuration; what it has opened with the one before is closed."""
    _close_pools(app)
    app.conf.update(config)
    app._backend_cache, app._local = None, threading.local()  # noqa: SLF001 - Celery has no call for it
    for task in app.tasks.values():
        task.__trace__ = None  # it holds the backend


def _close_pools(app: Any) -> None:
    pool, app._pool, app.amqp._producer_pool = app._pool, None, None  # noqa: SLF001
    if pool is None:
        return
    pool.force_close_all()
    for group in (pools.producers, pools.connections):
        with suppress(KeyError):
            del group[app.connection_for_write()]


class CeleryJobs(Jobs):
    """The jobs of a Celery app."""

    def __init__(self, app: Any, clock: ManualClock) -> None:
        super().__init__(queue_of(app), clock)
        self._app = app

    def _name(self, task: Any) -> str:
        return str(getattr(task, "name", task))

    def _arguments(self, payload: bytes) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        args, kwargs, _ = message_of(self._app, payload).payload
        return tuple(args), kwargs

    def _execute(self, lease: Lease, seconds: Seconds) -> Run:
        job, raw = lease.job, raw_message(lease, self.queue)
        listed, kwargs, embed = message_of(self._app, job.payload).payload
        args = tuple(listed)
        task = self._app.tasks.get(job.task)
        if task is None:
            self.queue.reject(lease, reason=f"unknown task {job.task}")
            raise NotRegistered(f"task {job.task!r} is not registered in app {self._app.main!r}")
        request = _request(raw, args, kwargs, embed)
        context = JobContext(
            *(job.id, job.workspace, lease.fence, lease.deliveries, self.queue.store.store_id),
            task=job.task,
            around=if_leased,
            message_id=request["id"],
            store=lambda: self.queue.store,
            redeliverable=bool(task.acks_late),
            children=partial(Children, self._app),
        )
        with run_context(context):
            result, info, *_ = trace_task(task, request["id"], args, kwargs, request, app=self._app)
        state = states.SUCCESS if info is None else info.state
        end_steps(context, succeeded=state == states.SUCCESS)
        error = None if info is None else info.retval
        self._end(lease, state, error, seconds())
        if PARENT in request and state in {states.SUCCESS, states.FAILURE}:
            wake_parent(self.queue.store, request[PARENT])
        return Run(job.task, job.workspace, job.queue, args, kwargs, OUTCOMES[state], result, error)

    def _end(self, lease: Lease, state: str, error: Any, seconds: float) -> None:
        keeps = self.queue.settings.keep_failures
        if isinstance(error, WaitsForChild):
            waits = message_id_of(lease.job.id)
            self.queue.release(lease, delay_seconds=POLL_SECONDS, seconds=seconds, waits=waits)
            return
        self.queue.history.note(lease.job, OUTCOMES[state], seconds, error)
        if state == states.REJECTED and error.requeue:
            self.queue.release(lease, seconds=seconds, counted=True)
        elif state == states.REJECTED or (state == states.FAILURE and keeps):
            details = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            self.queue.reject(lease, reason=FAILED, seconds=seconds, details=details)
        else:
            self.queue.ack(lease, seconds=seconds)


OUTCOMES: dict[str, Any] = {
    states.SUCCESS: "succeeded",
    states.RETRY: "retried",
    states.FAILURE: "failed",
    states.REJECTED: "rejected",
    states.IGNORED: "rejected",
}


def _request(raw: Mapping[str, Any], args: Any, kwargs: Any, embed: Any) -> dict[str, Any]:
    """What a worker gives a task as its request."""
    properties = raw["properties"]
    return {
        **raw["headers"],
        "properties": properties,
        "delivery_info": properties["delivery_info"],
        "reply_to": properties.get("reply_to"),
        "correlation_id": properties.get("correlation_id"),
        "hostname": "fairqueue@test",
        "is_eager": False,
        "args": args,
        "kwargs": kwargs,
        **(embed or {}),
    }
