"""A claim is made while the event loop goes on, if no process waits for its answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.asynchronous import Hub

from fairqueue import FairQueue, StoreUnavailable
from fairqueue.adapters import Claimed
from fairqueue_celery._consume import caller as callers
from fairqueue_celery._consume import claims as claims_module
from fairqueue_celery._consume.caller import Call, Caller
from fairqueue_celery._consume.claims import HOLD_BACK_SECONDS, LOOK_AT_STARTING_SECONDS, Claims
from fairqueue_celery._consume.held_lease import Verdict
from fairqueue_celery._consume.leases import HeldLeases
from fairqueue_celery._consume.sparing_loop import TICK_SECONDS, SparingLoop
from tests.out_of_threads import out_of_threads
from tests.system.ledger import wait_for

SHORT_SECONDS = 0.0001


class Loop(Claims):
    """Claims for a pool of two processes, as an event loop steps them; calls wait for `answers`."""

    pool = "pool"

    def __init__(self, core: FairQueue) -> None:
        super().__init__(core, HeldLeases(core), SimpleNamespace(deliver=self.deliver))
        self.told, self.answers, self.asked = threading.Event(), threading.Event(), list[int]()
        self.answers.set()
        self.caller = Caller(self.told.set)
        self.queues = ["q"]
        self.delivered: list[Any] = []
        self.took(SHORT_SECONDS)  # so jobs are claimed ahead
        self.is_away = False
        """Whether calls but the first fail."""
        self._claim = core.claim
        core.claim = self.claim  # type: ignore[method-assign]

    def claim(self, *args: Any, **how: Any) -> Any:
        self.asked.append(threading.get_ident())
        assert self.answers.wait(10)
        if self.is_away and len(self.asked) > 1:
            raise StoreUnavailable("the server is away")
        return self._claim(*args, **how)

    def deliver(self, lease: Any, *, acked_early: bool) -> None:
        self.delivered.append(self._leases.hold(lease, self, self.pool, acked_early=acked_early))

    @property
    def running(self) -> list[str]:
        """The jobs that run, by their payloads."""
        return [held.lease.job.payload.decode() for held in self.delivered]

    def end_one(self) -> None:
        """A process has ended its job, and its event is handled."""
        held = self.delivered.pop(0)
        self._leases.decide(held.fence, Verdict.ACK)
        self._leases.end(held)
        self.deliver_next()

    def begin_a_call(self, *, answers: bool = False) -> None:
        """Two jobs run, one is at hand, three have ended: Redis does not answer the next claim."""
        self.step()
        for _ in range(3):
            self.end_one()
        if not answers:
            self.answers.clear()
        self.step()
        wait_for(lambda: len(self.asked) == 2, seconds=10)


def depths(core: FairQueue) -> tuple[int, int]:
    """How many jobs wait, and how many are leased."""
    waiting = core.depth("q")
    return waiting, core.depth("q", running=True) - waiting


@pytest.fixture
def core(namespace: str) -> Iterator[FairQueue]:
    """A store with twelve jobs."""
    with FairQueue(f"memory://{namespace}", namespace=namespace) as core:
        for n in range(12):
            core.publish(b"%d" % n, queue="q", workspace="ada")
        yield core


@pytest.fixture
def loop(core: FairQueue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    monkeypatch.setattr(claims_module, "acks_at_start", lambda *_: False)
    monkeypatch.setattr(claims_module, "most_jobs", lambda _: 2)
    monkeypatch.setattr(claims_module, "is_starting", lambda _: False)
    monkeypatch.setattr(claims_module, "MOST_AHEAD_FOR_FEW", 0)
    monkeypatch.setattr(claims_module, "MOST_AHEAD_PER_PROCESS", 2)
    loop = Loop(core)
    yield loop
    loop.answers.set()
    loop.close()


def test_the_loop_goes_on_while_redis_answers(core: FairQueue, loop: Loop) -> None:
    """Free processes wait for the first call; beside a later one, a job at hand is delivered."""
    loop.begin_a_call()
    assert loop.asked[0] == threading.get_ident() != loop.asked[1]
    assert (loop.running, loop.due_in()) == (["3", "4"], None)
    loop.end_one()
    assert loop.running == ["4", "5"]
    assert not loop.step()
    loop.answers.set()
    assert loop.told.wait(10)
    assert loop.due_in() == 0
    loop.step()
    assert (loop.running, loop.ahead) == (["4", "5"], 3)
    assert depths(core) == (3, 6)  # an end is to be told


def test_a_pool_is_asked_for_its_size_at_each_step(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each job. A process that comes up just after a look at the pool is not left idle."""
    up = [0]
    monkeypatch.setattr(claims_module, "most_jobs", lambda _: up[0])
    monkeypatch.setattr(claims_module, "is_starting", lambda _: up[0] < 2)
    loop.step()
    assert loop.due_in() == LOOK_AT_STARTING_SECONDS
    up[0] = 2
    loop.step()  # for another reason
    assert loop.running == ["0", "1"]
    up[0] = 1
    loop.end_one()
    assert loop.running == ["1", "2"]
    loop.step()
    loop.end_one()
    assert loop.running == ["2"]


def test_what_comes_after_its_queue_was_removed_goes_back(core: FairQueue, loop: Loop) -> None:
    """It is not delivered to a consumer that is gone."""
    loop.begin_a_call()
    loop.remove("q")
    loop.end_one()  # as inside Celery's handler of a cold stop
    loop.step()
    loop.answers.set()
    assert loop.told.wait(10)
    loop.step()
    assert (loop.running, loop.ahead) == (["4"], 0)
    loop._leases.flush()
    assert depths(core) == (7, 1)


def test_an_answer_that_the_loop_does_not_read_goes_back(core: FairQueue, loop: Loop) -> None:
    """A solo pool's task may keep the loop for an hour."""
    loop.begin_a_call()
    loop.answers.set()
    assert loop.told.wait(10)
    time.sleep(loop._claim_ahead.hold_seconds)
    loop.give_back_stale()
    assert loop.ahead == 0
    loop._leases.flush()
    assert depths(core) == (7, 2)


def test_a_channel_that_closes_waits_for_the_answer(core: FairQueue, loop: Loop) -> None:
    """Else its jobs would be leased until their leases end."""
    loop.begin_a_call()
    closing = threading.Thread(target=loop.close)
    closing.start()
    loop.answers.set()
    closing.join(10)
    loop._leases.flush()
    assert depths(core) == (7, 2)


def test_an_error_is_raised_in_the_loop(core: FairQueue, loop: Loop) -> None:
    """The ends that the call has told stay pending, and the next call tells them."""
    loop.is_away = True
    loop.begin_a_call()
    loop.answers.set()
    assert loop.told.wait(10)
    with pytest.raises(StoreUnavailable):
        loop.step()
    assert (loop._leases.pending, loop.due_in()) == (3, 0)
    loop.is_away = False
    loop.told.clear()
    loop.step()
    assert loop.told.wait(10)
    loop.step()
    assert loop._leases.pending == 0
    assert depths(core) == (3, 6)


def test_the_loop_calls_where_there_is_no_thread(loop: Loop) -> None:
    """The system refuses it."""
    loop.step()
    with out_of_threads():
        loop.begin_a_call(answers=True)
    assert loop.asked == [threading.get_ident()] * 2


def test_a_process_that_is_free_at_once_gets_the_next_job(loop: Loop) -> None:
    """A revoked job frees it inside its delivery: a step is due though a call is under way."""
    loop.step()
    loop.answers.clear()
    loop.end_one()
    loop._leases.pending_since -= HOLD_BACK_SECONDS
    loop.step()
    wait_for(lambda: len(loop.asked) == 2, seconds=10)
    loop._is_delivering = True
    loop.end_one()
    loop._is_delivering = False
    assert (len(loop.delivered), loop.due_in()) == (1, 0)
    loop.step()
    assert (len(loop.delivered), loop.due_in()) == (2, None)


def test_a_channel_that_closes_inside_a_call_does_not_wait_for_it(
    core: FairQueue, loop: Loop
) -> None:
    """As in a handler of a signal: what the call brings goes back."""
    claim = loop._claim

    def interrupted(*args: Any, **how: Any) -> Any:
        loop.close()
        return claim(*args, **how)

    loop._claim = interrupted
    loop.step()
    loop._leases.flush()
    assert (loop.ahead, loop.delivered, depths(core)) == (0, [], (12, 0))


def test_a_call_that_is_interrupted_before_it_begins_is_forgotten(
    core: FairQueue, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C as its thread starts: the next call tells the ends."""
    loop.step()
    with monkeypatch.context() as interrupted:

        def stop(_: object) -> None:
            raise KeyboardInterrupt

        interrupted.setattr(threading.Thread, "start", stop)
        with pytest.raises(KeyboardInterrupt):
            loop.begin_a_call(answers=True)
    assert (loop._leases.pending, loop.due_in()) == (3, 0)
    loop.caller = None
    loop.step()
    assert (loop._leases.pending, depths(core)) == (0, (3, 6))


def test_a_wake_up_beside_a_call_is_not_lost(loop: Loop) -> None:
    """The wait after it may end without another."""
    woken = [False, True]
    loop._waiter = SimpleNamespace(collect=woken.pop, close=lambda: None)
    for _ in range(2):
        loop.waiting = True
        loop.wake()
    assert loop._overfull
    loop.step()
    assert not loop._overfull


def test_its_thread_ends_while_no_call_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call starts another, and none is lost as it ends."""
    monkeypatch.setattr(callers, "IDLE_SECONDS", 0.001)
    told = threading.Event()
    caller = Caller(told.set)
    made = set[threading.Thread]()  # not their ids: Linux gives one to the next thread
    for _ in range(200):
        told.clear()
        caller.make(Call(lambda: Claimed((), frozenset(), 0.0), 0, (), ()))
        assert told.wait(10)
        made |= {each for each in threading.enumerate() if each.name == "fairqueue-calls"}
        time.sleep(0.0011)
    wait_for(lambda: not caller._runs, seconds=10)
    assert len(made) > 1


def test_kombu_looks_after_its_connections_ten_times_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But at each turn of the loop where it polls a plain queue, and no more once it is closed."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    channel = SimpleNamespace(active_queues=list[str]())
    hub = Hub()
    loop = SparingLoop(hub, SimpleNamespace(_channels=[channel]))
    turns = list[float]()

    def acts() -> None:
        turns.append(clock[0])

    loop.on_tick.add(acts)

    def turned() -> int:
        turns.clear()
        for tick in 3 * list(hub.on_tick):
            tick()
        return len(turns)

    assert (turned(), turned()) == (1, 0)
    clock[0] += TICK_SECONDS
    channel.active_queues.append("plain")
    assert (turned(), turned()) == (3, 3)
    channel.active_queues.clear()
    assert (turned(), turned()) == (1, 0)
    loop.on_tick.remove(acts)
    assert not hub.on_tick
    hub.close()


def test_a_descriptor_is_taken_out_of_the_loop_once() -> None:
    """And again after it was added, by its number or as a socket that has it."""
    hub = Hub()
    taken = list[object]()
    poller = hub.poller

    def unregister(fd: Any) -> None:
        taken.append(fd)
        poller.unregister(fd)

    hub.poller = SimpleNamespace(
        register=poller.register,
        poll=poller.poll,
        unregister=unregister,
    )
    for _ in range(2):  # a second connection finds the loop of the first
        SparingLoop(hub, SimpleNamespace(_channels=[]))
    reader, writer = socket.socketpair()
    with reader, writer:
        fd = reader.fileno()
        for _ in range(3):
            hub.remove_writer(fd)
        assert taken == [fd]
        hub.add_reader(fd, print)
        writer.send(b"!")
        assert [ready for ready, _ in hub.poller.poll(1)] == [fd]
        hub.remove(fd)
        hub.poller.register(reader, hub.READ)  # as kombu's transport does
        hub.remove(fd)
        hub.remove(fd)
        assert taken == [fd, fd, fd]
        assert hub.poller.poll(0) == []
    hub.poller = poller
    hub.close()
