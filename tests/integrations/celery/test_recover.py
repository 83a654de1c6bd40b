"""``Consumer.recover(requeue=True)``, as on ``redis://``; a full Redis; the hub; the pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
from kombu import Connection, Consumer, Queue
from kombu.asynchronous import Hub

from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer
from fairqueue_celery._consume.hub import HubDriver
from fairqueue_celery._worker import bootstep
from tests.scripts import failure_of
from tests.system.ledger import wait_for

SCHEMES = {
    "stock": "redis+socket://{path}",
    "redis": "fairqueue+socket://{path}?namespace={namespace}",
    "memory": "fairqueue+memory://{namespace}",
}


@pytest.fixture(params=SCHEMES)
def connection(request: Any, redis_url: str, namespace: str) -> Iterator[Connection]:
    path = redis_url.removeprefix("unix://")
    url = SCHEMES[request.param].format(path=path, namespace=namespace)
    with Connection(url) as connection:
        yield connection


@pytest.fixture
def queue(namespace: str) -> Queue:
    return Queue(f"q-{namespace}")


def fill(connection: Connection, queue: Queue, count: int) -> None:
    queue(connection.default_channel).declare()
    for n in range(count):
        connection.Producer().publish(n, routing_key=queue.name)


def take(connection: Connection, count: int, got: list[Any]) -> list[tuple[int, bool]]:
    """Receive this many, and return their numbers and whether they are redelivered."""
    got.clear()
    while len(got) < count:
        connection.drain_events(timeout=5)
    return sorted((m.payload, bool(m.delivery_info.get("redelivered"))) for m in got)


def test_unacked_messages_come_again(connection: Connection, queue: Queue) -> None:
    """They are marked as redelivered, and free the prefetch; what was acked is gone."""
    fill(connection, queue, 4)
    got: list[Any] = []
    with Consumer(connection, [queue], on_message=got.append, prefetch_count=3) as consumer:
        assert take(connection, 3, got) == [(0, False), (1, False), (2, False)]
        next(message for message in got if message.payload == 1).ack()

        consumer.recover(requeue=True)

        assert take(connection, 3, got) == [(0, True), (2, True), (3, False)]
        for message in got:
            message.ack()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.2)


def test_other_channels_keep_theirs(connection: Connection, queue: Queue) -> None:
    """What another channel has not acked is still its own; what this one has got is back."""
    fill(connection, queue, 3)
    first, second = connection.channel(), connection.channel()
    theirs, mine = queue(first).get(), queue(second).get()

    second.basic_recover(requeue=True)

    again = [queue(second).get(no_ack=True) for _ in range(3)]
    assert [message and message.payload for message in again] == [mine.payload, 2, None]
    assert mine.payload != theirs.payload


def test_only_with_requeue(connection: Connection, queue: Queue) -> None:
    """To the same consumer, without the queue, nothing can be redelivered."""
    fill(connection, queue, 0)
    with Consumer(connection, [queue]) as consumer, pytest.raises(NotImplementedError):
        consumer.recover()


def test_a_late_ack_changes_nothing(redis_url: str, namespace: str, queue: Queue) -> None:
    """A recovered job belongs to its next delivery, and so does its slot."""
    url = SCHEMES["redis"].format(path=redis_url.removeprefix("unix://"), namespace=namespace)
    with (
        Connection(url) as connection,
        FairQueue(redis_url, namespace=namespace) as core,
    ):
        fill(connection, queue, 1)
        bound = queue(connection.default_channel)
        before = bound.get()
        connection.default_channel.basic_recover(requeue=True)
        again = bound.get()
        before.ack()

        connection.transport.broker.leases.flush()
        assert sum(row.running for row in core.views.stats().workspaces) == 1
        again.ack()
        wait_for(lambda: not sum(row.running for row in core.views.stats().workspaces))


@pytest.fixture
def connection_to_it(own_server: EmbeddedServer, namespace: str) -> Iterator[Connection]:
    """A connection_to_it to it, which was made while there was memory."""
    url = own_server.url.replace("unix://", "fairqueue+socket://")
    with Connection(f"{url}?namespace={namespace}") as connection_to_it:
        yield connection_to_it


def test_what_kombu_asks_at_a_full_redis_is_an_outage(
    connection_to_it: Connection, own_server: EmbeddedServer
) -> None:
    """Its locks, transactions and own queues raise what a worker takes for a lost connection_to_it.

    Anything else would end the worker with a traceback, since memory may be there when it
    reconnects and be gone a moment later.
    """
    channel = connection_to_it.default_channel
    channel.client.ping()
    own_server.client().config_set("maxmemory", 1)
    replies = Queue("x.reply.celery.pidbox", auto_delete=True)
    for refused in (
        channel.qos.restore_visible,
        lambda: channel.queue_purge(replies.name),
        lambda: channel.client.lpush("x", "y"),
    ):
        with pytest.raises(connection_to_it.connection_errors, match="Redis is out of memory"):
            refused()
    own_server.client().config_set("maxmemory", 0)
    channel.qos.restore_visible()
    assert replies(channel).declare() == replies.name
    assert channel.client.lpush("x", "y") == 1
    assert channel.client.llen("x") == 1  # its own reply, not one of those before


STEPS = 45


class Declining:
    """Claims whose jobs do not stay, so that the next step is due at once."""

    steps = 0
    has_pending = False

    def step(self) -> None:
        self.steps += 1

    def due_in(self) -> float | None:
        return 0.0 if self.steps < STEPS else None

    def fileno(self) -> None:
        return None


def test_the_loop_does_not_sleep_while_a_step_is_due() -> None:
    """Kombu's hub fires at most ten timers in a row, and then polls for a second."""
    hub, claims = Hub(), Declining()
    driver = HubDriver(hub)
    begun = time.monotonic()
    driving: Any = claims
    driver.drive(driving)
    while claims.steps < STEPS:
        hub.run_once()
    assert time.monotonic() - begun < 2.0  # four times a second otherwise
    driver.stop()
    hub.close()


def test_only_the_thread_of_the_loop_steps() -> None:
    """While a pool stops, Celery's main thread reads results, and another fires the timers."""
    hub, claims = Hub(), Declining()
    driver = HubDriver(hub)
    driving: Any = claims
    driver.drive(driving)
    firing = threading.Thread(target=hub.fire_timers)
    firing.start()
    firing.join()
    driver.stop()
    hub.close()
    assert claims.steps == 0


RECONNECT = """
import os
from celery import Celery
from celery.concurrency.prefork import TaskPool
from kombu.asynchronous import Hub, set_event_loop
from fairqueue_celery._worker import prefork

app, hub = Celery("dying"), Hub()
set_event_loop(hub)
pool = TaskPool(1, app=app, threads=False, initargs=(app, "here"))
pool.start()
pool.register_with_event_loop(hub)
[process] = pool._pool._pool
pool._pool._untrack_child_process(process, hub)  # its exit was heard
prefork.adapt(pool)
pool.register_with_event_loop(hub)
os.kill(process.pid, 9)
while process in pool._pool._pool:
    hub.run_once()
pool.terminate()
"""


def test_a_process_may_exit_while_its_worker_reconnects() -> None:
    """Celery hears of an exit before it can wait for the process, and reconnects in between."""
    assert not failure_of(RECONNECT)


REWRITE = """
import os, signal
from celery import Celery
from celery.concurrency.prefork import TaskPool
from kombu.asynchronous import Hub, set_event_loop
from fairqueue_celery._worker import prefork

app, hub = Celery("dying"), Hub()
set_event_loop(hub)
pool = TaskPool(1, app=app, threads=False, initargs=(app, "here"))
pool.start()
pool.register_with_event_loop(hub)
prefork.adapt(pool)
[process] = pool._pool._pool
while process.inqW_fd not in pool._pool._all_inqueues:
    hub.run_once()
os.kill(process.pid, signal.SIGSTOP)
job = pool._pool.apply_async(os.getpid)
while job._write_to is None:
    hub.run_once()
os.kill(process.pid, signal.SIGKILL)
while not pool._pool.outbound_buffer:
    pool.maintain_pool()
pool.flush()
pool.register_with_event_loop(hub)
while not job.ready():
    hub.run_once()
pool.terminate()
"""


def test_a_job_whose_process_died_before_the_connection_broke_runs() -> None:
    """It waits for another process then, as one that was never written."""
    assert not failure_of(REWRITE, seconds=20)


COLD = """
import os, signal
from types import SimpleNamespace
from kombu.asynchronous import Hub
from fairqueue_celery._worker.cold_stop import ColdStop

begun, hub = [], Hub()

def worker_Cold(*_):
    begun.append(os.getpid())

def loop():
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGQUIT)
        os._exit(begun != [os.getpid()])
    assert os.waitpid(child, 0)[1] == 0
    os.kill(os.getpid(), signal.SIGQUIT)
    assert not begun
    while not begun:
        hub.run_once()

signal.signal(signal.SIGQUIT, worker_Cold)
consumer = SimpleNamespace(loop=loop, pool=None)
stop = ColdStop(consumer)
stop.register(consumer, hub)
fds = stop._pipe
consumer.loop()
assert begun == [os.getpid()]
stop.close()
for fd in fds:
    try:
        os.fstat(fd)
    except OSError:
        fds = fds[1:]
assert not fds
os.kill(os.getpid(), signal.SIGQUIT)
assert len(begun) == 2
"""


def test_a_cold_stop_begins_between_two_steps_of_the_loop() -> None:
    """In a child, and where no loop runs any more, it begins at once."""
    assert not failure_of(COLD, seconds=20)


def test_an_idle_worker_does_not_look_at_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks often for dead processes while it has jobs; without any, only as Celery does."""
    held: list[object] = []
    monkeypatch.setattr(bootstep, "_is_prefork", lambda _: True)
    monkeypatch.setattr(bootstep, "all_held", lambda: iter(held))
    monkeypatch.setattr(bootstep, "brokers", list)
    parent, hub = MagicMock(on_task_message=set()), MagicMock()
    step: Any = bootstep.Fairness.__new__(bootstep.Fairness)
    step._consumer, step._look, step._cold_stop = parent, None, MagicMock()

    step.register_with_event_loop(parent, hub)
    held.append(object())
    [on_task] = parent.on_task_message
    on_task(object())  # a look is due already
    step._maintain()
    held.clear()
    step._maintain()
    assert (hub.call_later.call_count, parent.pool.maintain_pool.call_count) == (2, 2)
    on_task(object())
    assert hub.call_later.call_count == 3
