"""Plain kombu on ``fairqueue://``: acks, requeues, prefetch, exit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Queue
from kombu.asynchronous.hub import Hub

from fairqueue import FairQueue
from fairqueue._stores.redis import RedisEngine, waiter
from fairqueue._stores.redis.waiter import RedisWaiter
from fairqueue._utils import is_readable
from fairqueue_celery._channel.broker import brokers, forget_broker
from fairqueue_celery._consume import claims
from fairqueue_celery._consume import hub as hub_driver
from fairqueue_celery._consume.flusher import flusher
from fairqueue_celery._consume.poller import Poller
from tests.nodes import moved_name
from tests.system.ledger import wait_for


@pytest.fixture
def core(redis_url: str, namespace: str) -> Iterator[FairQueue]:
    with FairQueue(redis_url, namespace=namespace) as core:
        yield core


@pytest.fixture
def connection(socket_url: str) -> Iterator[Connection]:
    with Connection(socket_url) as connection:
        yield connection


@pytest.fixture
def queue(namespace: str) -> Queue:
    return Queue(f"q-{namespace}", Exchange(f"x-{namespace}"), routing_key="k")


def fill(connection: Connection, queue: Queue, count: int) -> None:
    queue(connection.default_channel).declare()
    producer = connection.Producer()
    for n in range(count):
        producer.publish({"n": n}, exchange=queue.exchange, routing_key="k")


def acking(got: list[Any]) -> Any:
    def receive(body: Any, message: Any) -> None:
        got.append(body)
        message.ack()

    return receive


def drain(connection: Connection, count: int, got: list[Any]) -> None:
    while len(got) < count:
        connection.drain_events(timeout=5)


def test_messages_are_consumed_in_order_and_gone_once_acked(
    connection: Connection, queue: Queue, core: FairQueue
) -> None:
    """Published to a named exchange, consumed in order and acked: the queue is empty."""
    fill(connection, queue, 25)
    got: list[Any] = []
    with Consumer(connection, [queue], callbacks=[acking(got)]):
        drain(connection, 25, got)
    time.sleep(0.1)

    assert [body["n"] for body in got] == list(range(25))
    assert core.depth(queue.name) == 0
    assert sum(row.running for row in core.views.stats().workspaces) == 0


def test_unacked_go_back_when_the_connection_closes(
    socket_url: str, connection: Connection, queue: Queue, core: FairQueue
) -> None:
    """Messages that were delivered and not acked wait again after the channel has closed."""
    fill(connection, queue, 3)
    got: list[Any] = []
    with (
        Connection(socket_url) as other,
        Consumer(other, [queue], callbacks=[lambda body, _: got.append(body)]),
    ):
        drain(other, 2, got)

    assert core.depth(queue.name) == 3


def test_an_error_of_a_consumers_callback_is_raised_and_its_message_comes_again(
    connection: Connection, socket_url: str, queue: Queue, core: FairQueue
) -> None:
    """As on redis://: it goes back when its channel closes, and becomes no dead letter."""
    fill(connection, queue, 2)
    with Connection(socket_url) as failing:

        def fail(body: Any, message: Any) -> None:
            raise KeyError("a database is away")

        consumer = Consumer(failing.channel(), [queue], callbacks=[fail], prefetch_count=1)
        with consumer, pytest.raises(KeyError, match="a database is away"):
            failing.drain_events(timeout=5)
    got: list[Any] = []
    with Consumer(connection, [queue], callbacks=[acking(got)]):
        drain(connection, 2, got)
    assert sorted(body["n"] for body in got) == [0, 1]
    assert not list(core.dead.list())


def test_a_callback_may_wait_for_the_next_message(connection: Connection, queue: Queue) -> None:
    """A script that has acked one drains another of the same connection, as on redis://."""
    connection.default_channel.claims.took(0.0001)  # jobs are short: several are claimed at once
    fill(connection, queue, 8)
    got: list[Any] = []

    def receive(body: Any, message: Any) -> None:
        message.ack()
        got.append(body["n"])
        if len(got) < 8:
            connection.drain_events(timeout=5)

    with Consumer(connection, [queue], callbacks=[receive]):
        connection.drain_events(timeout=5)
    assert got == list(range(8))


def test_without_a_prefetch_count_the_unacked_are_bounded(
    connection: Connection, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that never acks does not take a whole queue; each ack lets it take one more."""
    monkeypatch.setattr(claims, "MOST_UNACKED", 4)
    fill(connection, queue, 9)
    got: list[Any] = []
    with Consumer(connection, [queue], on_message=got.append):
        drain(connection, 4, got)
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.3)
        got[0].ack()
        drain(connection, 5, got)

    assert len(got) == 5


def test_get_takes_one(connection: Connection, queue: Queue, core: FairQueue) -> None:
    """basic_get returns one message or None; with no_ack it is gone at once."""
    fill(connection, queue, 1)
    bound = queue(connection.default_channel)

    message = bound.get(no_ack=True)

    assert message is not None
    assert message.payload == {"n": 0}
    assert bound.get() is None
    time.sleep(0.1)
    assert core.depth(queue.name) == 0


def test_requeued_messages_are_available_at_once_and_in_order(
    connection: Connection, queue: Queue
) -> None:
    """The next get() returns it; several keep their order, and are marked as redelivered."""
    fill(connection, queue, 4)
    bound = queue(connection.default_channel)
    for message in [bound.get() for _ in range(3)]:
        message.requeue()
    again = [bound.get(no_ack=True) for _ in range(4)]
    assert [
        (message.payload["n"], bool(message.delivery_info.get("redelivered"))) for message in again
    ] == [(0, True), (1, True), (2, True), (3, False)]


def test_what_was_requeued_a_moment_ago_waits(connection: Connection, queue: Queue) -> None:
    """A passive declare counts it, and a purge removes it."""
    fill(connection, queue, 3)
    channel = connection.default_channel
    bound = queue(channel)
    bound.get().requeue()
    assert channel.queue_declare(queue.name, passive=True).message_count == 3
    bound.get().requeue()
    assert channel.queue_purge(queue.name) == 3


def test_a_consumer_that_started_before_its_event_loop_is_driven_by_it(
    connection: Connection, queue: Queue
) -> None:
    """Messages arrive and acks free the prefetch even if the loop is registered last."""
    fill(connection, queue, 3)
    got: list[Any] = []
    hub = Hub()
    with Consumer(connection, [queue], callbacks=[acking(got)], prefetch_count=1):
        connection.register_with_event_loop(hub)
        until = time.monotonic() + 10
        while len(got) < 3 and time.monotonic() < until:
            hub.run_once()
        hub.close()

    assert [body["n"] for body in got] == [0, 1, 2]


def test_scheduled_jobs_count_as_in_the_queue(
    connection: Connection, queue: Queue, core: FairQueue
) -> None:
    """A passive declare counts them; a queue that holds only scheduled jobs is not empty."""
    channel = connection.default_channel
    queue(channel).declare()
    eta = (datetime.now(timezone.utc) + timedelta(hours=1)).isoformat()
    headers = {"task": "t", "id": "1", "eta": eta}
    connection.Producer().publish(
        [[], {}, {}], exchange=queue.exchange, routing_key="k", headers=headers
    )

    assert channel.queue_declare(queue.name, passive=True).message_count == 1
    channel.queue_delete(queue.name, if_empty=True)
    assert core.depth(queue.name) == 1
    assert channel.queue_purge(queue.name) == 1


def test_a_busy_consumer_can_add_a_queue(
    connection: Connection, queue: Queue, namespace: str
) -> None:
    """It then waits for both queues, over a new connection, and is woken for either."""
    fill(connection, queue, 0)
    other = Queue(f"other-{namespace}")
    got: list[Any] = []
    hub = Hub()
    consumer = Consumer(
        connection, [queue], callbacks=[lambda *one: got.append(one)], prefetch_count=1
    )
    with consumer:
        connection.register_with_event_loop(hub)
        turn(hub, lambda: False, seconds=0.3)  # it waits
        fill(connection, queue, 1)
        turn(hub, lambda: len(got) == 1)
        consumer.add_queue(other)
        consumer.consume()
        got[0][1].ack()
        turn(hub, lambda: False, seconds=0.3)  # it waits again
        fill(connection, queue, 1)

        turn(hub, lambda: len(got) == 2)
        hub.close()

    assert len(got) == 2


@pytest.fixture
def _unanswered(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    """Waits hear of nothing and never end."""
    arm = RedisWaiter.arm

    def arm_for_ever(self: RedisWaiter, _: float) -> None:
        self._tokens = lambda: [f"{namespace}:nothing"]
        arm(self, 0)

    for module in ("redis", "sharded"):
        monkeypatch.setattr(f"fairqueue._stores.{module}.waiter.SLACK_SECONDS", 0.1)
    monkeypatch.setattr(waiter, "LEAST_SECONDS", 0)
    monkeypatch.setattr(RedisWaiter, "arm", arm_for_ever)


@pytest.mark.usefixtures("_unanswered")
@pytest.mark.parametrize("in_a_loop", [True, False])
def test_a_wait_that_is_never_answered_is_given_up(
    connection: Connection, queue: Queue, *, in_a_loop: bool
) -> None:
    """The consumer claims over a new connection, in an event loop or where drain_events blocks."""
    fill(connection, queue, 0)
    got: list[Any] = []
    hub = Hub()
    with Consumer(connection, [queue], callbacks=[acking(got)]):
        if in_a_loop:
            connection.register_with_event_loop(hub)
            turn(hub, lambda: False, seconds=0.3)  # it waits
        else:
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.3)  # it waits
        fill(connection, queue, 1)
        turn(hub, lambda: bool(got)) if in_a_loop else drain(connection, 1, got)
        hub.close()

    assert len(got) == 1


def test_redis_is_asked_after_a_delivery_is_written(
    connection: Connection, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job waits for the pool's write, and nothing for the next claim or wait."""
    claim, arm, hub, (reader, writer) = FairQueue.claim, RedisWaiter.arm, Hub(), os.pipe()
    seen: list[str] = []
    messages: list[Any] = []

    def write() -> None:
        seen.append("written")
        hub.remove_writer(writer)

    def deliver(_body: Any, message: Any) -> None:
        seen.append("delivered")
        messages.append(message)
        hub.add_writer(writer, write)

    def claimed(self: FairQueue, *queues: Any, **options: Any) -> Any:
        seen.append("claimed")
        return claim(self, *queues, **options)

    def armed(self: RedisWaiter, seconds: float) -> None:
        seen.append("armed")
        arm(self, seconds)

    monkeypatch.setattr(FairQueue, "claim", claimed)
    monkeypatch.setattr(RedisWaiter, "arm", armed)
    monkeypatch.setattr(hub_driver, "WRITE_SECONDS", 10.0)  # on a slow machine, too
    connection.default_channel.claims.took(0.001)  # jobs are short: it claims several at once
    fill(connection, queue, 2)
    with Consumer(connection, [queue], callbacks=[deliver], prefetch_count=1):
        connection.register_with_event_loop(hub)
        turn(hub, lambda: "armed" in seen)
        messages[0].ack()
        turn(hub, lambda: seen.count("written") == 2 and seen.count("claimed") > 1)
        messages[1].ack()
        turn(hub, lambda: False, seconds=0.1)
        hub.close()
    os.close(reader)
    os.close(writer)

    after = [seen[n + 1] for n, event in enumerate(seen) if event == "delivered"]
    assert after == ["written", "written"]


def test_a_cancelled_consumer_waits_for_no_server(
    connection: Connection, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Celery's handler of SIGQUIT cancels it, in eventlet's main loop, where nothing may block."""
    consumer = Consumer(connection.default_channel, [queue])
    consumer.consume()
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.05)  # it waits for jobs

    def refuse(*_: object) -> None:
        raise AssertionError("it asks the server")

    with monkeypatch.context() as patched:
        patched.setattr(RedisWaiter, "close", refuse)
        patched.setattr(RedisEngine, "_run", refuse)
        consumer.cancel()
    assert connection.default_channel.claims.due_in() == 0


def turn(hub: Hub, is_done: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Run the event loop until the condition holds or the time is up."""
    until = time.monotonic() + seconds
    hub.call_repeatedly(0.05, lambda: None)  # else it may block for long
    while not is_done() and time.monotonic() < until:
        hub.run_once()


def test_a_script_that_exits_without_closing_has_acked(
    socket_url: str, connection: Connection, queue: Queue, core: FairQueue
) -> None:
    """At exit acks are reported, and jobs that were claimed ahead are given back."""
    fill(connection, queue, 20)
    script = (
        "import sys; from kombu import Connection, Consumer, Queue\n"
        "c = Connection(sys.argv[1]); n = []\n"
        "q = Queue(sys.argv[2])\n"
        "take = lambda body, message: (message.ack(), n.append(body))\n"
        "w = Consumer(c, [q], callbacks=[take], auto_declare=False)\n"
        "w.consume()\n"
        "while len(n) < 7: c.drain_events(timeout=5)\n"
    )
    subprocess.run([sys.executable, "-c", script, socket_url, queue.name], check=True, timeout=60)

    assert core.depth(queue.name) == 13
    assert sum(row.running for row in core.views.stats().workspaces) == 0


def test_an_idle_consumer_gives_back_what_it_claimed_ahead(
    connection: Connection, queue: Queue, core: FairQueue
) -> None:
    """A consumer that does not come back loses jobs it did not start; its acks are reported."""
    fill(connection, queue, 40)
    got: list[Any] = []
    with Consumer(connection, [queue], callbacks=[acking(got)]):
        drain(connection, 20, got)
        time.sleep(0.5)

        assert core.depth(queue.name) == 20
        assert sum(row.running for row in core.views.stats().workspaces) == 0


def test_a_change_while_a_wake_up_is_read_wakes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With eventlet, ``os.read`` lets other greenlets run first: jobs may end in them."""
    monkeypatch.setattr(flusher, "look", lambda: None)
    poller: Any = Poller(None)
    poller._open_pipe()
    reader, read = poller._pipe[0], os.read

    def read_later(fd: int, size: int) -> bytes:
        poller._changed(None)
        return read(fd, size)

    poller._changed(None)
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read_later)
        poller.handle_event(reader, 0)
    assert not is_readable([reader], 0)
    poller._changed(None)
    assert is_readable([reader], 0)
    poller.close()


@pytest.mark.system
def test_an_exit_reports_what_was_acked_to_a_primary_without_replicas(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else it would be delivered again. That Redis did not answer would be wrong to say."""
    with moved_name() as name:
        wait_for(name.is_replicated)
        address = f"127.0.0.1:{name.primary.port}/0"
        waits = "min_replicas=1&replica_wait_seconds=0.3"
        with Connection(f"fairqueue://{address}?{waits}") as connection:
            queue = connection.SimpleQueue("q")
            queue.put("done")
            message = queue.get(timeout=30)
            name.replica.kill()
            with pytest.raises(connection.connection_errors):
                queue.put("refused")
            message.ack()
            (broker,) = [each for each in brokers() if str(name.primary.port) in each.url]
            forget_broker(broker.url)
        with FairQueue(f"redis://{address}") as after:
            (row,) = after.views.stats().workspaces
            assert (row.waiting, row.running) == (1, 0)
    assert "did not answer" not in caplog.text
