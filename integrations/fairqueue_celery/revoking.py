"""Takes a job that waits out of the core when it is revoked by its id.

Celery keeps revoked ids in its workers' memory and drops a job when its turn comes: it runs after
all if every worker was restarted meanwhile. So one of the workers that hear of it takes the job
out at once, and tells of it what Celery tells of a revoked one. What runs is left to Celery, and
so is what this does not find.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable
from functools import wraps
from queue import Full, Queue
from typing import Any

import redis
from celery import signals
from celery.utils.functional import maybe_list
from celery.worker.control import Panel

import fairqueue
from fairqueue import FairQueueError, Job
from fairqueue_celery import crew
from fairqueue_celery.broker import Broker
from fairqueue_celery.telling import UnknownTask, announce_revoked, request_of

logger = logging.getLogger(__name__)

COMMANDS = ("revoke", "terminate")

MOST_SEARCHED = 100_000
"""Every job of a queue is looked at: a longer queue is left to Celery's own way."""

MOST_PENDING = 1000
"""Ids that wait to be looked for; more are left to Celery's own way."""

TURN_SECONDS = 10
"""All workers hear of it in this time; one of them looks."""

REASON = "revoked"


class Revocations:
    """What one worker does when it hears of revoked ids, in a thread of its main process."""

    def __init__(self, app: Any, broker: Broker, prefix: str = "") -> None:
        self._app, self._broker = app, broker
        self._core = broker.core.clone()
        self._prefix = f"{prefix}fairqueue.revoking.{broker.settings.namespace}."
        self._turns = None if _is_in_memory(broker) else redis.Redis.from_url(broker.url)
        self._heard: Queue[str | None] = Queue(MOST_PENDING)

    def start(self) -> None:
        """Listen from now on."""
        _listening.append(self)
        threading.Thread(target=self._run, name="fairqueue-revoking", daemon=True).start()

    def stop(self) -> None:
        """Listen no more."""
        if self in _listening:
            _listening.remove(self)
            self.hear(None)

    def hear(self, task_id: str | None) -> None:
        """Look for this one soon."""
        try:
            self._heard.put_nowait(task_id)
        except Full:
            logger.info("task %s is revoked when its turn comes: too many at once", task_id)

    def _run(self) -> None:
        while (task_id := self._heard.get()) is not None:
            try:
                self._look_for(task_id)
            except (FairQueueError, redis.RedisError) as error:
                logger.info("task %s is revoked when its turn comes: %s", task_id, error)
            except Exception:
                logger.exception("telling that task %s was revoked failed", task_id)
        self._core.close()

    def _look_for(self, task_id: str) -> None:
        for queue in self._broker.queues_taken():
            if self._is_our_turn(task_id, queue) and self._core.depth(queue) <= MOST_SEARCHED:
                self._take_out(task_id, queue)

    def _is_our_turn(self, task_id: str, queue: str) -> bool:
        if self._turns is None:
            return True
        name = hashlib.sha256(f"{queue}\n{task_id}".encode()).hexdigest()
        return bool(self._turns.set(self._prefix + name, 1, nx=True, ex=TURN_SECONDS))

    def _take_out(self, task_id: str, queue: str) -> None:
        text = f'"correlation_id": {json.dumps(task_id)}'.encode()
        for job_id in self._core.find(text, queue=queue):
            job = self._core.withdraw(job_id, queue=queue)
            if job is not None:
                self._tell(job)

    def _tell(self, job: Job) -> None:
        about = fairqueue.Running(
            job_id=job.id,
            workspace=job.workspace,
            fence=0,
            deliveries=0,
            redeliverable=False,
            body_returned=True,
        )
        try:
            request = request_of(self._app, job.payload)
        except UnknownTask as error:
            logger.info("a job of task %s, which this worker does not know, was revoked", error)
            return
        with fairqueue.running(about):  # what its chord may publish is its workspace's
            announce_revoked(request, REASON)


_listening: list[Revocations] = []


def _is_in_memory(broker: Broker) -> bool:
    return broker.url.startswith("memory://")


def hear_commands() -> None:
    """Let Celery's remote control tell us of revoked ids; what it does itself stays."""
    for name in COMMANDS:
        if not hasattr(Panel.data[name], "__wrapped__"):
            Panel.data[name] = _heard_too(Panel.data[name])


def _heard_too(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def commanded(state: Any, *args: Any, **arguments: Any) -> Any:
        answer = command(state, *args, **arguments)
        for listening in tuple(_listening):
            for task_id in maybe_list(arguments.get("task_id")) or ():
                listening.hear(str(task_id))
        return answer

    return commanded


def on_worker_ready(sender: Any = None, **_others: Any) -> None:
    """Listen as long as this worker lives (receiver of ``worker_ready``)."""
    transport = getattr(sender.connection, "transport", None)
    broker = getattr(transport, "broker", None)
    if transport is None or crew.worker() is None or not isinstance(broker, Broker):
        return
    prefix = (transport.client.transport_options or {}).get("global_keyprefix") or ""
    revocations = Revocations(sender.app, broker, prefix)
    signals.worker_shutting_down.connect(lambda **_: revocations.stop(), weak=False)
    revocations.start()
