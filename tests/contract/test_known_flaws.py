"""Known flaws of other schedulers do not occur here: one test per row of docs/architecture.md.

Flaws that need a framework or a real worker, such as a heartbeat that a CPU-bound task starves, are
tested with that worker.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from fairqueue import CapacityExceeded, Limits
from fairqueue._stores.store import Store
from fairqueue.adapters import Ending, Finish
from tests.contract.world import World, ids


def test_a_lease_frees_its_slot_once(world: World) -> None:
    """Usage is the number of leases, so ending one lease repeatedly frees one slot."""
    world.limit(concurrency=2)
    world.publish_many(10)
    worker = world.worker()
    first, _second = worker.take(2)
    assert worker.finish(first)
    assert not worker.finish(first)
    assert not worker.release(first)
    assert not worker.reject(first)
    assert worker.claim(0, finishes=[Finish(first.fence)] * 3).lost == {first.fence}
    assert len(worker.take(10)) == 1
    assert world.row().running == 2


def test_eleven_releases_of_a_lease_free_one_slot(world: World) -> None:
    """Releasing the same lease eleven times frees one slot."""
    world.limit(concurrency=1)
    world.publish_many(20)
    worker = world.worker()
    lease = worker.take_one()
    assert [worker.release(lease) for _ in range(11)] == [True] + [False] * 10
    assert len(worker.take(20)) == 1


def test_a_late_heartbeat_does_not_revive_a_reaped_lease(world: World) -> None:
    """Renewing a reaped lease reports it as lost, and the limit holds."""
    world.limit(concurrency=1)
    world.publish("a", "x")
    late, other = world.worker("late"), world.worker("other")
    lease = late.take_one()
    world.pass_time(31)
    again = other.take_one()
    assert late.renew(lease, seconds=31) == {lease.fence}
    assert world.row().running == 1
    assert other.finish(again)
    assert world.row().running == 0


def test_a_worker_cannot_renew_or_finish_a_job_that_it_lost(world: World) -> None:
    """Each claim has its own fence, so a worker's earlier fence for the same job is invalid."""
    world.publish("a", "x")
    worker = world.worker()
    old = worker.take_one()
    world.pass_time(31)
    new = worker.take_one()
    assert (old.job.id, old.fence < new.fence) == (new.job.id, True)
    assert worker.renew(old, new) == {old.fence}
    assert not worker.finish(old, 1.0)
    assert not worker.reject(old)
    assert worker.finish(new, 1.0)


def test_a_job_and_its_slot_are_taken_in_one_step(world: World) -> None:
    """No observer sees a claimed job without its slot."""
    world.limit(concurrency=3)
    world.publish_many(60)
    seen, stop = [], threading.Event()

    def look() -> None:
        while not stop.is_set():
            row = world.row()
            seen.append((row.running, row.waiting + row.running))

    watcher = threading.Thread(target=look)
    watcher.start()
    done = 0
    worker = world.worker()
    while leases := worker.take(5):
        done += len(leases)
        worker.claim(0, finishes=[Finish(lease.fence) for lease in leases])
    stop.set()
    watcher.join()
    assert done == 60
    assert max((running for running, _ in seen), default=0) <= 3


@pytest.fixture
def blocked_thousands(world: World) -> World:
    """Two thousand workspaces at their limit, and one with a runnable job."""
    world.configure(default=Limits(concurrency=1))
    for n in range(2000):
        world.publish(f"w{n}")
        world.publish(f"w{n}")
    worker = world.worker("holder")
    while worker.take(200):
        pass
    world.publish("free", "runnable")
    return world


@pytest.mark.slow
def test_blocked_workspaces_are_not_scanned_on_every_claim(blocked_thousands: World) -> None:
    """A claim finds the runnable job at once beside thousands of blocked workspaces."""
    worker = blocked_thousands.worker("w")
    began = time.perf_counter()
    assert ids(worker.take()) == ["runnable"]
    assert time.perf_counter() - began < 0.25


def test_a_job_over_its_limit_is_not_claimed_and_put_back(world: World) -> None:
    """Claims that find no runnable job change nothing."""
    world.limit("full", concurrency=1)
    world.publish_many(5, "full")
    worker = world.worker()
    worker.take_one()
    before = world.store.snapshot()
    for _ in range(50):
        assert worker.take() == []
    assert world.store.snapshot() == before
    world.publish("other", "x")
    assert ids(worker.take(5)) == ["x"]


def test_delayed_jobs_do_not_hide_a_ready_one(world: World) -> None:
    """The next claim finds a due job beside any number of scheduled ones."""
    for _ in range(200):
        world.publish("a", delay_seconds=3600)
    world.publish("a", "due")
    assert ids(world.worker().take(5)) == ["due"]


def test_waiting_jobs_do_not_vanish(world: World) -> None:
    """Waiting jobs do not expire; tests/audit shows that no key of a job has a time to live."""
    world.publish_many(3)
    world.publish(delay_seconds=99)
    world.clock.advance(400 * 86400)
    assert world.reap() == 1
    assert len(world.worker().take(9)) == 4


def test_a_returning_workspace_gets_no_credit(world: World) -> None:
    """A workspace with pauses in its load gets no more turns than one without."""
    world.publish_many(200, "stays")
    worker = world.worker()
    turns = []
    for _ in range(60):
        if not world.row("leaves").waiting:
            world.publish("leaves")
        (lease,) = worker.take(1)
        turns.append(lease.job.workspace)
        world.clock.advance(1)
        worker.finish(lease, 1.0)
    assert abs(turns.count("leaves") - 30) <= 2


def test_a_blocked_workspace_does_not_hold_virtual_time_back(world: World) -> None:
    """Beside a blocked workspace, a new one gets its share."""
    world.limit("blocked", concurrency=0)
    world.publish("blocked")
    world.publish_many(100, "busy")
    worker = world.worker()
    for lease in worker.take(50):
        worker.finish(lease)
    world.publish_many(20, "new")
    taken = [lease.job.workspace for lease in worker.take(20)]
    assert abs(taken.count("new") - 10) <= 1


def test_a_rate_limited_job_holds_no_shared_slot(world: World) -> None:
    """The rate is checked before the lease, so a waiting job uses no slot of its queue."""
    world.store.set_limits("queue", "q", Limits(concurrency=1))
    world.limit("slow", rate=0.01)
    world.publish_many(3, "slow")
    world.publish_many(3, "other")
    worker, done = world.worker(), []
    for _ in range(6):
        for lease in worker.take(5):
            done.append(lease.job.workspace)
            worker.finish(lease)
    assert sorted(done) == ["other"] * 3 + ["slow"]
    assert world.row("slow").running == 0


def test_no_slot_is_held_through_the_delay_of_a_retry(world: World) -> None:
    """A job that is released with a delay holds no slot until it starts again."""
    world.limit(concurrency=1)
    world.publish("a", "retried")
    world.publish("a", "next")
    worker = world.worker()
    worker.release(worker.take_one(), delay_seconds=60, counted=True)
    assert ids(worker.take()) == ["next"]


def test_concurrent_publishes_do_not_exceed_capacity(world: World) -> None:
    """The check and the enqueue are atomic."""
    world.limit(capacity=5)
    start, accepted = threading.Barrier(8), []

    def produce(n: int) -> None:
        start.wait()
        for i in range(5):
            with suppress(CapacityExceeded):
                accepted.append(world.publish("a", f"{n}-{i}"))

    producers = [threading.Thread(target=produce, args=(n,)) for n in range(8)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    assert len(accepted) == world.store.depth("q") == 5


def test_a_full_workspace_accepts_a_retry_and_a_chord_body(world: World) -> None:
    """Exempt publishes are accepted; the first job of a new group is refused."""
    world.limit(capacity=2)
    world.publish("a", "parent")
    worker = world.worker()
    parent = worker.take_one()
    world.publish_many(2)
    world.publish("a", "retry", exempt=True, parent_fence=parent.fence)
    world.publish("a", "chord body", exempt=True)
    with pytest.raises(CapacityExceeded):
        world.publish("a", group="new group")
    assert world.row().waiting == 4


def test_an_empty_list_in_a_payload_stays_a_list(world: World) -> None:
    """The payload is opaque: a release and a second claim return it unchanged."""
    world.publish("a", payload=b'{"args": [], "kwargs": {}, "n": 12345678901234567890}')
    worker = world.worker()
    worker.release(worker.take_one(), counted=True)
    job = worker.take_one().job
    assert job.payload == b'{"args": [], "kwargs": {}, "n": 12345678901234567890}'


def test_a_name_with_colon_star_or_brace_breaks_no_key(world: World) -> None:
    """Names are encoded, so they neither break a key nor collide."""
    names = ["a:b", "a*", "a{b}", "{a}", "a", "a:b:c", "*"]
    for name in names:
        world.publish(name, f"job of {name}", queue=f"queue {name}")
    for name in names:
        lease = world.worker(name).take_one(f"queue {name}")
        assert (lease.job.workspace, lease.job.id) == (name, f"job of {name}")


def test_large_scores_keep_their_order(world: World) -> None:
    """Even in a long-lived store, tags distinguish thousandths of a second."""
    world.limit("a", concurrency=1)
    world.publish_many(3, "a")
    worker = world.worker(owner="old")
    lease = worker.take_one()
    for _ in range(100):
        world.clock.advance(10)
        worker.renew(lease, seconds=1e9)
    worker.finish(lease, 1000.0)
    world.publish_many(40, "b")
    world.publish_many(40, "c")
    taken = [lease.job.workspace for lease in worker.take(40)]
    assert abs(taken.count("b") - taken.count("c")) <= 1


def test_a_restarted_worker_does_not_reset_anothers_jobs(world: World) -> None:
    """Only expired leases are reaped, even if a worker restarts."""
    world.publish_many(2)
    alive, restarted = world.worker("alive"), world.worker("restarted")
    mine, theirs = alive.take_one(), restarted.take_one()
    world.pass_time(20)
    alive.renew(mine, seconds=20)
    fresh = world.worker("restarted, a new process")
    assert fresh.take() == []
    world.pass_time(11)
    assert ids(fresh.take(5)) == [theirs.job.id]
    assert alive.finish(mine, 31)


def test_a_stopping_worker_uses_up_no_delivery(world: World) -> None:
    """The jobs that it gives back start again with the same delivery, and none is dead."""
    world.publish_many(3)
    stopping = world.worker("stopping")
    for lease in stopping.take(3):
        assert stopping.release(lease, counted=False)
    leases = world.worker("next").take(3)
    assert [lease.deliveries for lease in leases] == [1, 1, 1]
    assert world.row().dead == 0


def test_an_unknown_task_is_not_lost_in_a_rolling_deploy(world: World) -> None:
    """Workers that do not know the task give it back for later until one that does claims it."""
    world.publish("a", "x", task="new.task")
    old, new = world.worker("old"), world.worker("new")
    old.release(old.take_one(), delay_seconds=5, counted=False)
    world.clock.advance(5)
    old.release(old.take_one(), delay_seconds=5, counted=False)
    world.clock.advance(5)
    lease = new.take_one()
    assert (lease.job.id, lease.job.task, lease.deliveries) == ("x", "new.task", 1)


def test_a_wake_up_between_check_and_sleep_is_not_lost(world: World) -> None:
    """A job published between an empty claim and the wait ends the wait at once."""
    worker, waiter = world.worker(), world.store.waiter(["q"])
    for _ in range(5):
        assert worker.take() == []
        world.publish()
        assert waiter.wait(30)
        worker.finish(worker.take_one())
    waiter.close()


def test_an_early_acked_job_is_not_counted_as_running_for_ever(world: World) -> None:
    """Its lease is reaped like any other, its slot freed, and it is counted as lost."""
    world.limit(concurrency=1)
    world.publish_many(2)
    worker = world.worker()
    worker.finish(worker.take_one(), ending=Ending.ACK_EARLY)
    world.pass_time(31)
    assert len(worker.take(2)) == 1
    assert world.row().lost == 1


def test_another_connection_sees_the_same_store(store: Store, world: World) -> None:
    """What one process changes another sees at once: all state is in the store."""
    world.limit(concurrency=1)
    world.publish_many(2)
    other = World(store.clone(), world.clock)
    assert len(world.worker("w1").take(2)) == 1
    assert other.worker("w2").take(2) == []
    other.store.close()
