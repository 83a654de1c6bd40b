"""With ``on_full="block"`` a publish waits for capacity, up to a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import CapacityExceeded, ConfigurationError, FairQueue, LeaseLost, Outcome, Pause
from fairqueue._publish import capacity_wait
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.store import Store
from tests.contract.world import Worker, World


class Sleeper:
    """A clock that advances only while the test sleeps, and runs scheduled calls on the way."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._events: list[tuple[float, Callable[[], Any]]] = []
        self.slept: list[float] = []

    def after(self, seconds: float, act: Callable[[], Any]) -> None:
        """Schedule a call for this many seconds from now."""
        self._events.append((self._world.clock() + seconds, act))

    def monotonic(self) -> float:
        """Return the time, in place of the time module."""
        return self._world.clock()

    def sleep(self, seconds: float) -> None:
        """Sleep, in place of the time module."""
        self.slept.append(seconds)
        until = self._world.clock() + seconds
        for event in [event for event in self._events if event[0] <= until]:
            self._events.remove(event)
            event[1]()
        self._world.clock.advance(seconds)


@pytest.fixture
def sleeper(world: World, monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    """Replaces the clock of blocked publishes."""
    sleeper = Sleeper(world)
    monkeypatch.setattr(capacity_wait, "time", sleeper)
    return sleeper


@pytest.fixture
def queue(world: World) -> FairQueue:
    """A producer that blocks for up to ten seconds, and a full workspace."""
    world.limit("a", capacity=1)
    world.publish("a", "first")
    return FairQueue(store=world.store, brings_limits=False, on_full="block", block_seconds=10)


def test_a_blocked_publish_succeeds_once_there_is_capacity(
    queue: FairQueue, world: World, sleeper: Sleeper
) -> None:
    """A slot is freed after four seconds; the publish succeeds at most a second later."""
    begun = world.clock()
    sleeper.after(4.0, lambda: world.worker().take_one())
    job_id = queue.publish(b"x", queue="q", workspace="a")
    assert job_id.outcome is Outcome.CREATED
    assert 4.0 <= world.clock() - begun <= 5.0
    assert world.row("a").waiting == 1


def test_a_blocked_publish_is_refused_when_its_time_is_up(
    queue: FairQueue, world: World, sleeper: Sleeper
) -> None:
    """Without capacity in time it is refused, and nothing is stored."""
    begun = world.clock()
    with pytest.raises(CapacityExceeded) as caught:
        queue.publish(b"x", queue="q", workspace="a")
    assert world.clock() - begun == pytest.approx(10.0)
    assert (caught.value.scope, caught.value.limit, caught.value.waiting) == ("workspace", 1, 1)
    assert caught.value.retry_after >= 1
    assert world.row("a").waiting == 1


def test_a_blocked_publish_polls_slowly(queue: FairQueue, sleeper: Sleeper) -> None:
    """In ten seconds it looks about 20 times: often at first, later once a second."""
    with pytest.raises(CapacityExceeded):
        queue.publish(b"x", queue="q", workspace="a")
    assert 10 <= len(sleeper.slept) <= 26
    assert max(sleeper.slept) <= capacity_wait.LONGEST_PAUSE_SECONDS
    assert sleeper.slept[0] <= capacity_wait.FIRST_PAUSE_SECONDS


@pytest.mark.parametrize(
    "how", [{"exempt": True}, {"workspace": "b"}, {"job_id": "first"}, {"unique_key": "k"}]
)
def test_a_publish_that_need_not_wait_does_not(
    queue: FairQueue, world: World, sleeper: Sleeper, how: dict[str, Any]
) -> None:
    """An exempt publish, one with enough capacity, a repeat, and one whose key is taken."""
    if "unique_key" in how:
        world.worker().take_one()
        queue.publish(b"x", queue="q", workspace="a", **how)
    queue.publish(b"x", queue="q", **{"workspace": "a", **how})
    assert sleeper.slept == []


def test_block_seconds_0_does_not_wait(queue: FairQueue, sleeper: Sleeper) -> None:
    """A publish with ``block_seconds=0`` is refused at once."""
    with pytest.raises(CapacityExceeded):
        queue.publish(b"x", queue="q", workspace="a", block_seconds=0)
    assert sleeper.slept == []


def test_block_seconds_overrides_the_setting(world: World, sleeper: Sleeper) -> None:
    """A publish with ``block_seconds`` waits even if the setting says to raise."""
    world.limit("a", capacity=0)
    queue = FairQueue(store=world.store, brings_limits=False)
    with pytest.raises(CapacityExceeded):
        queue.publish(b"x", queue="q", workspace="a", block_seconds=2.0)
    assert sum(sleeper.slept) == pytest.approx(2.0)
    with pytest.raises(ConfigurationError, match="must be a finite number"):
        queue.publish(b"x", queue="q", workspace="a", block_seconds=float("inf"))


def test_a_blocked_group_waits_as_a_whole(queue: FairQueue, world: World, sleeper: Sleeper) -> None:
    """Its first job waits; the others are then accepted without a wait."""
    sleeper.after(3.0, lambda: world.worker().take_one())
    queue.publish(b"x", queue="q", workspace="a", group="g")
    waited = len(sleeper.slept)
    for _ in range(5):
        queue.publish(b"x", queue="q", workspace="a", group="g")
    assert len(sleeper.slept) == waited
    assert world.row("a").waiting == 6


def test_a_blocked_publish_waits_for_the_end_of_a_drain(
    queue: FairQueue, world: World, sleeper: Sleeper
) -> None:
    """A draining workspace has no capacity until it is resumed."""
    world.store.pause("workspace", "b", Pause.DRAINING)
    sleeper.after(2.0, lambda: world.store.pause("workspace", "b", None))
    assert queue.publish(b"x", queue="q", workspace="b").outcome is Outcome.CREATED


def test_delay_and_expiry_count_from_the_call(
    queue: FairQueue, world: World, sleeper: Sleeper
) -> None:
    """Four seconds of waiting leave four seconds less until the job is due, or expires."""
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


def test_a_parent_that_loses_its_lease_stops_waiting(
    queue: FairQueue, world: World, worker: Worker, sleeper: Sleeper
) -> None:
    """The next check raises, even though the workspace is still full."""
    parent = worker.take_one()
    world.publish("a")
    sleeper.after(1.0, lambda: worker.release(parent))
    with pytest.raises(LeaseLost):
        queue.publish(b"x", queue="q", workspace="a", parent_fence=parent.fence)
    assert sum(sleeper.slept) <= 2.1


def test_a_blocked_publish_holds_no_lock() -> None:
    """While one thread is blocked, another publishes and claims in the same store."""
    store = Store(MemoryEngine())
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
