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
import secrets
import threading
import time
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
MOST_AT_ONCE = 200
"""Ids that wait to be looked for, and that one look is for; more are left to Celery's own way."""

COLLECT_SECONDS = 0.1
REST = 4.0
"""After a look it rests for so many times as long."""

TURN_SECONDS = 10
"""One worker looks through a queue; another one, when it was not heard of for so long."""

REASON = "revoked"
BEFORE_ID = b'"correlation_id": "'
"""What stands before its task's id in a message, in each of Celery's protocols."""

KEEP_TURN = """
local who = redis.call('GET', KEYS[1])
if who and who ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""


class Revocations:
    """What one worker does when it hears of revoked ids, in a thread of its main process."""

    def __init__(self, app: Any, broker: Broker, prefix: str = "") -> None:
        self._app, self._broker = app, broker
        self._core = broker.core.clone()
        self._prefix = f"{prefix}fairqueue.revoking.{broker.settings.namespace}."
        self._name = secrets.token_hex(8)
        in_memory = broker.url.startswith("memory://")  # then this is the only process
        self._client = None if in_memory else redis.Redis.from_url(broker.url)
        self._heard: Queue[str | None] = Queue(MOST_PENDING)
        self._stopped = False

    def start(self) -> None:
        """Listen from now on."""
        _listening.append(self)
        threading.Thread(target=self._run, name="fairqueue-revoking", daemon=True).start()

    def stop(self) -> None:
        """Listen no more."""
        if self in _listening:
            _listening.remove(self)
            self._stopped = True
            self.hear(None)

    def hear(self, task_id: str | None) -> None:
        """Look for this one soon."""
        try:
            self._heard.put_nowait(task_id)
        except Full:
            logger.info("task %r is revoked when its turn comes: too many at once", task_id)

    def _run(self) -> None:
        while not self._stopped:
            ids = self._collect()
            begun = time.monotonic()
            try:
                self._look_for(ids)
            except (FairQueueError, redis.RedisError) as error:
                logger.info("%d tasks are revoked when their turn comes: %s", len(ids), error)
            time.sleep(REST * (time.monotonic() - begun))
        self._core.close()

    def _collect(self) -> set[str]:
        """The next id, and what comes along with it."""
        heard = [self._heard.get()]
        time.sleep(COLLECT_SECONDS)
        while len(heard) < MOST_AT_ONCE and not self._heard.empty():
            heard.append(self._heard.get())
        return {task_id for task_id in heard if task_id is not None}

    def _look_for(self, ids: set[str]) -> None:
        words = [word for task_id in ids if b"\\" not in (word := _in_json(task_id))]
        for queue in self._broker.queues_taken() if words else ():
            if self._is_our_turn(queue) and self._core.depth(queue) <= MOST_SEARCHED:
                self._take_out(words, queue)

    def _is_our_turn(self, queue: str) -> bool:
        if self._client is None:
            return True
        key = self._prefix + hashlib.sha256(queue.encode()).hexdigest()
        return bool(self._client.eval(KEEP_TURN, 1, key, self._name, TURN_SECONDS))

    def _take_out(self, words: list[bytes], queue: str) -> None:
        for job_id in self._core.find(BEFORE_ID, queue=queue, followed_by=words):
            job = self._core.withdraw(job_id, queue=queue)
            if job is None:
                continue
            try:
                self._tell(job)
            except Exception:
                logger.exception("telling that job %r was revoked failed", job.id)

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


def _in_json(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


_listening: list[Revocations] = []


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
