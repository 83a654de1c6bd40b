"""``on_full="block"``: a publish waits for room, for so long and no longer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import CapacityExceeded, ConfigurationError, FairQueue, LeaseLost, Outcome, Pause
from fairqueue import _patience as patience
from fairqueue._stores.memory import MemoryStore
from tests.contract.world import World


class Sleeper:
    """Time passes only where somebody sleeps, and what is to happen meanwhile happens then."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._events: list[tuple[float, Callable[[], Any]]] = []
        self.slept: list[float] = []

    def after(self, seconds: float, act: Callable[[], Any]) -> None:
        """Let this happen once so much time has passed."""
        self._events.append((self._world.clock() + seconds, act))

    def monotonic(self) -> float:
        """What the time module tells."""
        return self._world.clock()

    def sleep(self, seconds: float) -> None:
        """What the time module does."""
        self.slept.append(seconds)
        until = self._world.clock() + seconds
        for event in [event for event in self._events if event[0] <= until]:
            self._events.remove(event)
            event[1]()
        self._world.clock.advance(seconds)


@pytest.fixture
def sleeper(world: World, monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    """Whoever waits for room sleeps here."""
    sleeper = Sleeper(world)
    monkeypatch.setattr(patience, "time", sleeper)
    return sleeper


@pytest.fixture
def queue(world: World) -> FairQueue:
    """A producer with ten seconds' patience, beside a full workspace."""
    world.limit("a", capacity=1)
    world.publish("a", "first")
    return FairQueue(store=world.store, brings_limits=False, on_full="block", block_seconds=10)


def test_it_gets_in_once_there_is_room(queue: FairQueue, world: World, sleeper: Sleeper) -> None:
    """A slot frees after four seconds: the publish that waits is in at most a second later."""
    begun = world.clock()
    sleeper.after(4.0, lambda: world.worker().take_one())
    job_id = queue.publish(b"x", queue="q", workspace="a")
    assert job_id.outcome is Outcome.CREATED
    assert 4.0 <= world.clock() - begun <= 5.0
    assert world.row("a").waiting == 1


def test_time_is_up(queue: FairQueue, world: World, sleeper: Sleeper) -> None:
    """Without room it is refused as ever, when its time is up, and nothing is stored."""
    begun = world.clock()
    with pytest.raises(CapacityExceeded) as caught:
        queue.publish(b"x", queue="q", workspace="a")
    assert world.clock() - begun == pytest.approx(10.0)
    assert (caught.value.scope, caught.value.limit, caught.value.waiting) == ("workspace", 1, 1)
    assert caught.value.retry_after >= 1
    assert world.row("a").waiting == 1


def test_it_does_not_poll_busily(queue: FairQueue, sleeper: Sleeper) -> None:
    """In ten seconds it looks some 20 times: soon at first, later about once a second."""
    with pytest.raises(CapacityExceeded):
        queue.publish(b"x", queue="q", workspace="a")
    assert 10 <= len(sleeper.slept) <= 26
    assert max(sleeper.slept) <= patience.LONGEST_STEP_SECONDS
    assert sleeper.slept[0] <= patience.FIRST_STEP_SECONDS


@pytest.mark.parametrize("how", [{"exempt": True}, {"workspace": "b"}])
def test_who_need_not_wait_does_not(
    queue: FairQueue, sleeper: Sleeper, how: dict[str, Any]
) -> None:
    """What a system must publish, and where there is room."""
    queue.publish(b"x", queue="q", **{"workspace": "a", **how})
    assert sleeper.slept == []


def test_who_asks_not_to_wait_is_refused_at_once(queue: FairQueue, sleeper: Sleeper) -> None:
    """``block_seconds=0`` of a publish, for who must not be held up."""
    with pytest.raises(CapacityExceeded):
        queue.publish(b"x", queue="q", workspace="a", block_seconds=0)
    assert sleeper.slept == []


def test_a_call_may_be_patient_by_itself(world: World, sleeper: Sleeper) -> None:
    """``block_seconds`` of a publish counts whatever is set."""
    world.limit("a", capacity=0)
    queue = FairQueue(store=world.store, brings_limits=False)
    with pytest.raises(CapacityExceeded):
        queue.publish(b"x", queue="q", workspace="a", block_seconds=2.0)
    assert sum(sleeper.slept) == pytest.approx(2.0)
    with pytest.raises(ConfigurationError, match="must be a finite number"):
        queue.publish(b"x", queue="q", workspace="a", block_seconds=float("inf"))


def test_a_group_waits_as_a_whole(queue: FairQueue, world: World, sleeper: Sleeper) -> None:
    """Its first job waits; once that is in, the rest passes without a wait."""
    sleeper.after(3.0, lambda: world.worker().take_one())
    queue.publish(b"x", queue="q", workspace="a", group="g")
    waited = len(sleeper.slept)
    for _ in range(5):
        queue.publish(b"x", queue="q", workspace="a", group="g")
    assert len(sleeper.slept) == waited
    assert world.row("a").waiting == 6


def test_it_waits_for_the_end_of_a_drain(queue: FairQueue, world: World, sleeper: Sleeper) -> None:
    """What drains has no room until it is resumed."""
    world.store.pause("workspace", "b", Pause.DRAINING)
    sleeper.after(2.0, lambda: world.store.pause("workspace", "b", None))
    assert queue.publish(b"x", queue="q", workspace="b").outcome is Outcome.CREATED


def test_delay_and_expiry_count_from_the_call(
    queue: FairQueue, world: World, sleeper: Sleeper
) -> None:
    """Four seconds in line are four seconds less until it is due, and until it expires."""
    begun = world.clock()
    sleeper.after(4.0, lambda: world.worker().take_one())
    queue.publish(b"x", queue="q", workspace="a", delay_seconds=6.0, expires_seconds=8.0)
    world.clock.advance(begun + 5.9 - world.clock())
    assert world.worker("w2").take() == []
    world.clock.advance(0.2)
    assert world.worker("w3").take_one().job.workspace == "a"
    sleeper.after(4.0, lambda: world.publish("b"))
    late = queue.publish(b"x", queue="q", workspace="a", delay_seconds=9.0, expires_seconds=3.0)
    world.pass_time(4.0)
    assert [letter.job.id for letter in world.dead("a")] == [late]


def test_a_parent_that_loses_its_lease_waits_no_more(
    queue: FairQueue, world: World, sleeper: Sleeper
) -> None:
    """The next look tells it, though there is still no room."""
    worker = world.worker()
    parent = worker.take_one()
    world.publish("a")
    sleeper.after(1.0, lambda: worker.release(parent))
    with pytest.raises(LeaseLost):
        queue.publish(b"x", queue="q", workspace="a", parent_fence=parent.fence)
    assert sum(sleeper.slept) <= 2.1


def test_a_key_that_is_taken_is_told_at_once(
    queue: FairQueue, world: World, sleeper: Sleeper
) -> None:
    """A publish under a unique key that another job holds needs no room."""
    world.limit("b", capacity=1)
    one = queue.publish(b"x", queue="q", workspace="b", unique_key="k")
    again = queue.publish(b"x", queue="q", workspace="b", unique_key="k")
    assert (again, again.outcome) == (one, Outcome.EXISTING)
    assert sleeper.slept == []


def test_who_waits_holds_no_lock() -> None:
    """While one thread waits in real time, another publishes and claims in the same store."""
    store = MemoryStore()
    queue = FairQueue(store=store, workspace_capacity=1, on_full="block", block_seconds=30)
    queue.publish(b"1", queue="q", workspace="a")
    waiting = threading.Thread(
        target=queue.publish, args=(b"2",), kwargs={"queue": "q", "workspace": "a"}
    )
    waiting.start()
    queue.publish(b"3", queue="q", workspace="b")
    while waiting.is_alive():
        queue.claim(["q"], 2)
        waiting.join(0.01)
    assert queue.depth("q", running=True) == 3
