"""Takes a waiting job out of the core when it is revoked by its id.

Celery keeps revoked ids in its workers' memory and drops a job when its turn comes; if every
worker was restarted meanwhile, it runs after all. So one of the workers that receive the command
takes the job out at once. That leaves a failure notice, so that a worker announces what Celery
announces of a revoked job: see ``failures``. Running jobs, and jobs that are not found, are left to
Celery.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from queue import Full, Queue
from typing import Any

import redis
from celery.utils.functional import maybe_list
from celery.worker.control import Panel

from fairqueue import FairQueueError
from fairqueue.adapters import following_client
from fairqueue_celery._channel.broker import Broker

logger = logging.getLogger("fairqueue_celery.revoke")

COMMANDS = ("revoke", "terminate")

MOST_SEARCHED = 100_000
"""Every job of a queue is looked at; a longer queue is left to Celery."""

MOST_PENDING = 1000
MOST_AT_ONCE = 200
"""Ids that wait to be searched for, and ids of one search; more are left to Celery."""

COLLECT_SECONDS = 0.1
REST_FACTOR = 4.0
"""After a search it rests for this many times as long."""

LOCK_SECONDS = 10
"""One worker searches a queue, until it was not seen for this long."""

BEFORE_ID = b'"correlation_id": "'
"""What precedes its task's id in a message, in each of Celery's protocols."""

KEEP_LOCK = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""


class Revocations:
    """Searches for revoked ids in a thread of a worker's main process."""

    def __init__(self, broker: Broker, prefix: str = "") -> None:
        self._broker = broker
        self._core = broker.core.clone()
        namespace = broker.settings.namespace
        self._prefix = f"{broker.keyprefix or prefix}fairqueue.revoke.{namespace}."
        self._token = secrets.token_hex(8)
        in_memory = broker.url.startswith("memory://")  # then this is the only process
        self._client = None if in_memory else following_client(broker.url, namespace)
        self._pending: Queue[str | None] = Queue(MOST_PENDING)
        self._thread: threading.Thread | None = None
        self._stopped = False

    def start(self) -> None:
        """Search from now on; the first revoked id starts the thread."""
        _followers.append(self)

    def stop(self) -> None:
        """Search no more."""
        if self in _followers:
            _followers.remove(self)
            self._stopped = True
            if self._thread is None:
                self._close()
            else:
                self.revoke(None)

    def revoke(self, task_id: str | None) -> None:
        """Search for this id soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fairqueue-revoke", daemon=True)
            self._thread.start()
        try:
            self._pending.put_nowait(task_id)
        except Full:
            logger.info("too many ids at once: task %r is revoked when its turn comes", task_id)

    def _run(self) -> None:
        while not self._stopped:
            ids = self._collect()
            begun = time.monotonic()
            try:
                self._search(ids)
            except (FairQueueError, redis.RedisError) as error:
                logger.info("tasks that are revoked when their turn comes: %d; %s", len(ids), error)
            time.sleep(REST_FACTOR * (time.monotonic() - begun))
        self._close()

    def _close(self) -> None:
        self._core.close()
        if self._client is not None:
            self._client.close()

    def _collect(self) -> set[str]:
        """The next id, and those that follow at once."""
        ids = [self._pending.get()]
        time.sleep(COLLECT_SECONDS)
        while len(ids) < MOST_AT_ONCE and not self._pending.empty():
            ids.append(self._pending.get())
        return {task_id for task_id in ids if task_id is not None}

    def _search(self, ids: set[str]) -> None:
        words = [word for task_id in ids if b"\\" not in (word := _in_json(task_id))]
        for queue in self._broker.consumed_queues() if words else ():
            if self._has_lock(queue) and self._core.depth(queue) <= MOST_SEARCHED:
                self._take_out(words, queue)

    def _has_lock(self, queue: str) -> bool:
        if self._client is None:
            return True
        key = self._prefix + hashlib.sha256(queue.encode()).hexdigest()
        return bool(self._client.eval(KEEP_LOCK, 1, key, self._token, LOCK_SECONDS))

    def _take_out(self, words: list[bytes], queue: str) -> None:
        for job in self._core.jobs.find(BEFORE_ID, queue=queue, followed_by=words):
            self._core.jobs.withdraw(job, queue=queue, workspace=job.workspace)


def _in_json(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


_followers: list[Revocations] = []


def follow_remote_control() -> None:
    """Pass on the revoked ids of Celery's remote control; what Celery does itself stays."""
    for name in COMMANDS:
        if not hasattr(Panel.data[name], "__wrapped__"):
            Panel.data[name] = _followed(Panel.data[name])


def _followed(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def commanded(state: Any, *args: Any, **arguments: Any) -> Any:
        answer = command(state, *args, **arguments)
        for follower in tuple(_followers):
            for task_id in maybe_list(arguments.get("task_id")) or ():
                follower.revoke(str(task_id))
        return answer

    return commanded


def start(broker: Broker, options: Mapping[str, Any]) -> Revocations:
    """Search for revoked ids until the result's ``stop`` is called."""
    revocations = Revocations(broker, options.get("global_keyprefix") or "")
    revocations.start()
    return revocations
