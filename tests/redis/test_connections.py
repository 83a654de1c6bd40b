"""A connection that owes a reply, or whose server has stepped down, does not get the next call."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue import FairQueue, StoreUnavailable
from fairqueue._stores import layout
from fairqueue._stores.redis import connections, traced, waiter
from fairqueue.adapters import following_primary
from fairqueue.testing import EmbeddedServer
from tests.redis.proxy import Proxy
from tests.redis.tracing import WAYS, Seen
from tests.system.ledger import wait_for

CLIENT = {
    module.__file__
    for module in (redis.client, redis.connection, redis.retry, connections, traced, waiter)
}
MOST_STEPS = 5000


class Timeout(BaseException):
    """What gevent raises wherever a greenlet happens to be."""


def _depth_queue(queue: FairQueue, jobs: int) -> str:
    """Name a queue that has this many jobs."""
    for _ in range(jobs):
        queue.publish(b"x", queue=f"has {jobs}", workspace="w")
    return f"has {jobs}"


class _Step:
    """Raises Timeout before the n-th instruction of the client's own files and of ours."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __enter__(self) -> None:
        # Python 3.12 reports instructions only if a frame asked for them before settrace.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in CLIENT:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise Timeout
        return self._trace


def _interrupt_everywhere(call: Callable[[], object], after: Callable[[], None]) -> int:
    """Interrupt a call before each of its instructions, and look what comes after."""
    for n in range(1, MOST_STEPS):
        step = _Step(n)
        try:
            with step:
                call()
        except Timeout:
            after()
        else:
            if step.left > 0:
                return n
    return MOST_STEPS


@pytest.fixture
def _no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that comes before the next call is sent would be noticed; make it come later."""
    monkeypatch.setattr(connections, "_has_input", lambda _: False)


@pytest.mark.usefixtures("_no_second_look", "_traced_or_not")
def test_a_call_may_be_interrupted_at_every_instruction(redis_url: str, namespace: str) -> None:
    """After it the next call gets its own reply."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        two, three = _depth_queue(queue, 2), _depth_queue(queue, 3)

        def after() -> None:
            assert [queue.depth(two), queue.depth(three)] == [2, 3]

        assert 50 < _interrupt_everywhere(lambda: queue.depth(three), after) < MOST_STEPS


def test_a_wait_may_be_interrupted_at_every_instruction(
    redis_client: redis.Redis, redis_url: str, namespace: str
) -> None:
    """After it the waiter waits once, not behind what it sent before."""
    token = f"{{{namespace}:0}}:token:q"
    with FairQueue(redis_url, namespace=namespace) as queue:
        queue.depth("q")
        waiting: Any = queue._connected().shards[0].waiter(["q"])
        others = {client["id"] for client in redis_client.client_list()}

        def is_alone() -> bool:
            kept = {str(waiting._id)} if waiting._connection else set()
            return {client["id"] for client in redis_client.client_list()} <= others | kept

        def after() -> None:
            wait_for(is_alone)  # or what was sent over the dropped connection takes the token
            redis_client.delete(token)
            redis_client.rpush(token, 1)
            assert waiting.wait(5)
            assert redis_client.info("clients")["blocked_clients"] == 0
            assert select.select([waiting.fileno()], [], [], 0)[0] == []  # no other reply comes
            redis_client.rpush(token, 1)

        redis_client.rpush(token, 1)
        steps = _interrupt_everywhere(lambda: waiting.wait(5), after)
        waiting.close()
        assert 50 < steps < MOST_STEPS


def test_the_end_of_a_wait_may_be_interrupted_at_every_instruction(
    redis_url: str, namespace: str
) -> None:
    """After it the wait can be ended, and each connection gets its own replies."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        waiting: Any = queue._connected().shards[0].waiter(["q"])

        def arm_and_disarm() -> None:
            waiting.arm(5)
            waiting.disarm()

        def after() -> None:
            assert not waiting.disarm()
            waiting.arm(5)
            assert not waiting.disarm()
            assert queue.depth("q") == 0

        steps = _interrupt_everywhere(arm_and_disarm, after)
        waiting.close()
        assert 50 < steps < MOST_STEPS


def test_an_end_that_overtakes_its_wait_is_told_again(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go over two connections. The wait ends as soon as it has arrived, not a second later."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        waiting: Any = queue._connected().shards[0].waiter(["q"])
        assert not waiting.wait(0.002)
        connection = waiting._connection
        send = connection.send_command
        monkeypatch.setattr(
            connection, "send_command", lambda *words: threading.Timer(0.1, send, words).start()
        )
        waiting.arm(60.0)
        assert not waiting.disarm()
        assert waiting._connection is connection
        waiting.close()


@pytest.fixture
def queue(proxy: Proxy, namespace: str) -> Iterator[FairQueue]:
    """A queue through the proxy, over a client that does not repeat calls by itself."""
    client = redis.Redis(port=proxy.port, retry=Retry(NoBackoff(), 0))
    with FairQueue(client=client, namespace=namespace) as queue:
        queue.publish(b"x", queue="q", workspace="w")
        yield queue


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"READONLY You can't write against a read only replica.", "read-only replica"),
        (
            b"ERR Error running script (call to f_12): @user_script:1: -READONLY You can't write",
            "read-only replica",
        ),
        (b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data", "lost its primary"),
        (b"LOADING Redis is loading the dataset in memory", "is loading its data"),
    ],
    ids=["READONLY", "READONLY of 6.2", "MASTERDOWN", "LOADING"],
)
@pytest.mark.usefixtures("_traced_or_not")
def test_a_server_that_has_stepped_down_is_left(
    queue: FairQueue, proxy: Proxy, reply: bytes, said: str
) -> None:
    """Its refusal is told, and the next call connects to what its address leads to by then."""
    proxy.refuse(reply)
    with pytest.raises(StoreUnavailable, match=said):
        queue.publish(b"x", queue="q", workspace="w")
    assert queue.publish(b"x", queue="q", workspace="w")
    assert queue.depth("q") == 2


@pytest.mark.usefixtures("_traced_or_not")
def test_one_refusal_is_enough_for_all_connections(
    queue: FairQueue, proxy: Proxy, redis_server: EmbeddedServer
) -> None:
    """Those that waited for a call lead to the server that has stepped down as well."""
    redis_server.freeze()  # so that three calls are under way at once
    threads = [threading.Thread(target=queue.depth, args=("q",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    redis_server.thaw()
    for thread in threads:
        thread.join()
    proxy.refuse(b"READONLY You can't write against a read only replica.")
    with pytest.raises(StoreUnavailable, match="read-only replica"):
        queue.publish(b"x", queue="q", workspace="w")
    for _ in range(3):
        assert queue.publish(b"x", queue="q", workspace="w")


@pytest.mark.usefixtures("_traced_or_not")
def test_another_refusal_keeps_the_connection(queue: FairQueue, proxy: Proxy) -> None:
    """A full Redis is not connected to once more for each publish that it refuses."""
    before = proxy.accepted
    proxy.refuse(b"OOM command not allowed when used memory > 'maxmemory'.")
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="out of memory"):
            queue.publish(b"x", queue="q", workspace="w")
    assert proxy.accepted == before


REFUSALS = [
    b"READONLY You can't write against a read only replica.",
    b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    b"LOADING Redis is loading the dataset in memory",
    b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
]


@pytest.fixture
def own_client(proxy: Proxy) -> Iterator[Any]:
    """A client over connections of redis-py's own pools, as adapters have them."""
    pool = redis.ConnectionPool(
        connection_class=following_primary(redis.Connection),
        port=proxy.port,
        retry=Retry(NoBackoff(), 0),
    )
    with redis.Redis(connection_pool=pool) as client:
        client.ping()
        yield client
    pool.disconnect()


@pytest.mark.parametrize("reply", REFUSALS, ids=lambda reply: reply.split()[0].decode())
def test_pools_of_redis_py_leave_it_too(own_client: Any, proxy: Proxy, reply: bytes) -> None:
    """The refused call tells of a lost connection, which every user of redis-py expects."""
    proxy.refuse(reply)
    with pytest.raises(redis.ConnectionError):
        own_client.ping()
    assert own_client.ping()


def test_another_refusal_is_told_to_them_as_it_is(own_client: Any, proxy: Proxy) -> None:
    """And the connection is kept."""
    proxy.refuse(b"WRONGTYPE Operation against a key holding the wrong kind of value")
    for _ in range(2):
        with pytest.raises(redis.ResponseError, match="wrong kind"):
            own_client.ping()
    assert proxy.accepted == 1


def test_a_host_that_takes_no_connection_is_waited_for_as_a_silent_one() -> None:
    """Its packets are dropped, as those of a host that is down: here its backlog is full."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        connection = redis.Connection(
            port=full.getsockname()[1], socket_timeout=20.0, socket_connect_timeout=20.0
        )
        began = time.monotonic()
        with pytest.raises(redis.TimeoutError):
            connections.connect_soon(connection)
    assert time.monotonic() - began < 10
    assert connection.socket_connect_timeout == 20.0


# eventlet, once another test has imported it, warns of a fork in its own callback
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_publishes_whatever_the_parents_threads_held(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since redis-py 8 a forked child's pool has its parent's lock, as it was at the fork."""
    monkeypatch.setattr(layout, "LOOK_EVERY_SECONDS", 0.0)  # each publish asks for the shards
    client, held, end = redis.Redis.from_url(redis_url), threading.Event(), threading.Event()

    def hold() -> None:
        with client.connection_pool._lock:
            held.set()
            end.wait()

    with FairQueue(client=client, namespace=namespace) as queue:
        queue.publish(b"", queue="q", workspace="a")
        threading.Thread(target=hold).start()
        held.wait()
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout has its own
            signal.alarm(10)
            try:
                queue.publish(b"", queue="q", workspace="a")
                os._exit(0)
            finally:
                os._exit(1)  # no second run of the tests
        status = os.waitpid(child, 0)[1]
        end.set()
        assert (status, queue.depth("q")) == (0, 2)


class _TakenMeanwhile(deque[Any]):
    """Another thread takes what is left, between a look and a pop."""

    def pop(self) -> Any:  # type: ignore[override]
        self.clear()
        return super().pop()


def test_several_threads_may_close_what_waits_at_once() -> None:
    """As when a server stops amid their calls; else one would get an IndexError for its answer."""
    wire = connections.Wire(redis.Redis())
    wire._idle = _TakenMeanwhile([redis.Connection()])
    wire.close()
    assert not wire._idle


def test_a_close_breaks_no_call_of_another_thread(own_server: EmbeddedServer) -> None:
    """As where several threads publish in an outage: the first that fails closes what waits."""
    with FairQueue(own_server.url) as queue, ThreadPoolExecutor(1) as threads:
        queue.connect()
        engine = queue.store.shards[0].engine
        with own_server.client() as client:
            client.client_pause(300, all=True)
        checking = threads.submit(engine.check)
        time.sleep(0.1)
        engine.close()
        checking.result(10)


def test_a_queue_that_was_not_used_opens_no_connection(redis_url: str, namespace: str) -> None:
    """Its end writes nothing either: a tool of an old deploy must not bring its limits back."""
    with redis.Redis.from_url(redis_url) as client:
        before = client.info("stats")["total_connections_received"]
        with FairQueue(redis_url, namespace=namespace, workspace_concurrency=5, history=10):
            pass
        assert client.info("stats")["total_connections_received"] == before


@pytest.mark.parametrize("by", ["client", "url"])
def test_a_client_that_decodes_its_replies(redis_url: str, namespace: str, by: str) -> None:
    """Fairqueue reads bytes beside it: no payload has to be text."""
    url = f"{redis_url}?decode_responses=true"
    client = redis.Redis.from_url(url) if by == "client" else None
    with (
        FairQueue(None if client else url, client=client, namespace=namespace) as queue,
        queue.clone() as other,
    ):
        job = queue.publish(b"\xff", queue="q", workspace="a", task="t", unique_key="k")
        assert [row.job_id for row in queue.views.waiting().jobs] == [job]
        (lease,) = other.claim(["q"], wait_seconds=1).leases
        assert lease.job.payload == b"\xff"
        other.ack(lease)
        assert queue.doctor.audit() == []
    if client is not None:
        assert client.echo("x") == "x"  # it decodes as before
        client.close()


LIFE_OF_A_JOB = """
import sys
from fairqueue import FairQueue
with FairQueue(sys.argv[1], namespace=sys.argv[2]) as queue:
    queue.publish(b"x", queue="q", workspace="a")
    (lease,) = queue.claim(["q"], wait_seconds=1).leases
    queue.reject(lease, reason="no")
    assert len(list(queue.dead.list())) == 1
    assert not queue.claim(["q"], wait_seconds=0.01).leases
    queue.doctor.checkup()
"""


@pytest.mark.parametrize("store", ["redis", "memory"])
def test_bytes_are_not_compared_with_text(redis_url: str, namespace: str, store: str) -> None:
    """For apps that run with ``python -bb``."""
    url = redis_url if store == "redis" else "memory://"
    program = [sys.executable, "-bb", "-c", LIFE_OF_A_JOB, url, namespace]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_first_calls_by_threads_at_a_server_without_functions(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal of a second one comes when the first has found another way."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        queue.connect()
        engine: Any = queue.store.shards[0].engine
        wire, engine.delivery.has_functions = engine.wire, True  # also where Redis 6.2 has none
        exchange, sent = wire.exchange, iter(range(1))

        def refuse(packed: bytes, *of: Any, **how: Any) -> Any:
            if b"FCALL" not in packed:
                return exchange(packed, *of, **how)
            if next(sent, None) is not None:
                queue.publish(b"", queue="q", workspace="a")
            raise redis.ResponseError("unknown command 'FCALL'")

        monkeypatch.setattr(wire, "exchange", refuse)
        queue.publish(b"", queue="q", workspace="a")
        assert queue.depth("q") == 2


@pytest.fixture
def way_of_calls(redis_client: redis.Redis) -> str:
    """How this server is called: Redis 6.2 has no functions."""
    is_old = str(redis_client.info("server")["redis_version"]).startswith("6.")
    return "EVALSHA" if is_old else "FCALL"


@pytest.mark.parametrize("way", WAYS)
def test_it_sees_each_call_of_a_script_from_when_it_begins_until_it_ends(
    way: str, way_of_calls: str, redis_server: EmbeddedServer, redis_url: str, namespace: str
) -> None:
    """With the address of the server, and over a queue that was there before."""
    seen: Seen = []
    with FairQueue(redis_url, namespace=namespace) as queue:
        queue.publish(b"x", queue="q", workspace="w")
        with pytest.MonkeyPatch.context() as patch:
            WAYS[way](patch, seen)
            queue.publish(b"x", queue="q", workspace="w")
            queue.publish(b"x", queue="q", workspace="w")
        queue.publish(b"x", queue="q", workspace="w")
        assert queue.depth("q") == 4
    assert seen == [(way_of_calls, redis_server.socket_path)] * 2


def test_callbacks_of_a_client_change_no_reply(
    redis_client: redis.Redis, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may give its own client some, for functions and scripts of its own."""
    for command in ("FCALL", "EVALSHA", "EVAL"):
        redis_client.set_response_callback(command, lambda _reply, **_: "another")
    WAYS["function"](monkeypatch, [])
    queue = FairQueue(client=redis_client, namespace=namespace)
    assert queue.publish(b"x", queue="q", workspace="w", job_id="a") == "a"
    assert queue.depth("q") == 1
