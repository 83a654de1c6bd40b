"""Each flaw that other systems had, shown not to be here; one test per line of the law's table.

What needs a framework or a real worker (a heartbeat that a CPU-bound task starves, drain
time-outs in a pool, metrics) has its test where that worker is.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from fairqueue import CapacityExceeded, Ending, Finish, Limits, Store
from tests.contract.world import World, ids


def test_counter_drifts_decremented_twice(world: World) -> None:
    """Usage is the set of leases: ending one by every way in turn frees its slot once."""
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


def test_one_release_counted_twice_ran_a_limit_of_one_eleven_times(world: World) -> None:
    """Releasing the same lease eleven times frees one slot."""
    world.limit(concurrency=1)
    world.publish_many(20)
    worker = world.worker()
    lease = worker.take_one()
    assert [worker.release(lease) for _ in range(11)] == [True] + [False] * 10
    assert len(worker.take(20)) == 1


def test_late_heartbeat_revives_an_expired_lease(world: World) -> None:
    """Once it is reaped a renewal is told that it is lost, and the limit holds."""
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


def test_a_worker_renews_or_finishes_a_job_that_it_lost(world: World) -> None:
    """The fence is that of the claim: even the same worker's earlier one is void."""
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


def test_job_marked_admitted_after_it_was_handed_out(world: World) -> None:
    """Taking a job and taking its slot are one step: nobody ever sees one without the other."""
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
def parked_thousands(world: World) -> World:
    """Two thousand workspaces at their limit, and one that may run."""
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
def test_blocked_tenants_are_not_scanned_on_every_claim(parked_thousands: World) -> None:
    """With thousands parked a claim finds the runnable job at once."""
    worker = parked_thousands.worker("w")
    began = time.perf_counter()
    assert ids(worker.take()) == ["runnable"]
    assert time.perf_counter() - began < 0.25


def test_a_job_over_its_limit_put_back_at_the_head_spins(world: World) -> None:
    """It is never popped in the first place: idle claims change nothing at all."""
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


def test_twenty_delayed_jobs_hide_a_ready_one(world: World) -> None:
    """However many wait for their time, a job that is due is found by the next claim."""
    for _ in range(200):
        world.publish("a", delay_seconds=3600)
    world.publish("a", "due")
    assert ids(world.worker().take(5)) == ["due"]


def test_waiting_jobs_vanish_when_a_records_ttl_ends(world: World) -> None:
    """Waiting never expires; tests/redis shows that no key of a job has a time to live."""
    world.publish_many(3)
    world.publish(delay_seconds=99)
    world.clock.advance(400 * 86400)
    assert world.reap() == 1
    assert len(world.worker().take(9)) == 4


def test_returning_tenant_is_rewound_to_full_credit(world: World) -> None:
    """Who leaves and comes back has no more turns than who stayed."""
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


def test_virtual_clock_is_pinned_by_a_blocked_tenant(world: World) -> None:
    """One tenant that may not run does not hold the order back for newcomers."""
    world.limit("blocked", concurrency=0)
    world.publish("blocked")
    world.publish_many(100, "busy")
    worker = world.worker()
    for lease in worker.take(50):
        worker.finish(lease)
    world.publish_many(20, "new")
    taken = [lease.job.workspace for lease in worker.take(20)]
    assert abs(taken.count("new") - 10) <= 1


def test_rate_limited_job_holds_a_slot_and_deadlocks_its_group(world: World) -> None:
    """A rate is checked before leasing: who waits for it holds no slot of what others share."""
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


def test_slot_is_held_through_retry_back_off(world: World) -> None:
    """What is given back for later holds no slot until it starts again."""
    world.limit(concurrency=1)
    world.publish("a", "retried")
    world.publish("a", "next")
    worker = world.worker()
    worker.release(worker.take_one(), delay_seconds=60, counted=True)
    assert ids(worker.take()) == ["next"]


def test_capacity_check_and_enqueue_apart_overshoot(world: World) -> None:
    """Producers that race for the last places never get in more than there is room for."""
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


def test_rejection_breaks_a_retry_or_a_chord(world: World) -> None:
    """What a running job must publish gets in; of a group all or nothing does."""
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


def test_cjson_turns_an_empty_list_into_an_object(world: World) -> None:
    """The payload is opaque: it comes back as it was, also after it was given back."""
    world.publish("a", payload=b'{"args": [], "kwargs": {}, "n": 12345678901234567890}')
    worker = world.worker()
    worker.release(worker.take_one(), counted=True)
    job = worker.take_one().job
    assert job.payload == b'{"args": [], "kwargs": {}, "n": 12345678901234567890}'


def test_a_name_with_colon_star_or_brace_breaks_keys(world: World) -> None:
    """Names are encoded: none can break a key or meet another."""
    names = ["a:b", "a*", "a{b}", "{a}", "a", "a:b:c", "*"]
    for name in names:
        world.publish(name, f"job of {name}", queue=f"queue {name}")
    for name in names:
        lease = world.worker(name).take_one(f"queue {name}")
        assert (lease.job.workspace, lease.job.id) == (name, f"job of {name}")


def test_score_of_1_8e18_loses_order(world: World) -> None:
    """Tags of a long-lived store still tell thousandths of a second apart."""
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


def test_restart_of_one_worker_resets_anothers_live_jobs(world: World) -> None:
    """Only expired leases are reaped, whoever comes or goes."""
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


def test_drain_time_out_marks_running_jobs_failed_and_burns_attempts(world: World) -> None:
    """What a stopping worker gives back is unharmed: the same start again, nobody's failure."""
    world.publish_many(3)
    stopping = world.worker("stopping")
    for lease in stopping.take(3):
        assert stopping.release(lease, counted=False)
    leases = world.worker("next").take(3)
    assert [lease.deliveries for lease in leases] == [1, 1, 1]
    assert world.row().dead == 0


def test_unknown_task_is_lost_in_a_rolling_deploy(world: World) -> None:
    """A worker that does not know a task gives it back for later, until one that does comes."""
    world.publish("a", "x", task="new.task")
    old, new = world.worker("old"), world.worker("new")
    old.release(old.take_one(), delay_seconds=5, counted=False)
    world.clock.advance(5)
    old.release(old.take_one(), delay_seconds=5, counted=False)
    world.clock.advance(5)
    lease = new.take_one()
    assert (lease.job.id, lease.job.task, lease.deliveries) == ("x", "new.task", 1)


def test_wake_up_between_check_and_sleep_is_lost(world: World) -> None:
    """What is published between an empty claim and the wait ends the wait at once."""
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


def test_the_same_store_from_another_connection(store: Store, world: World) -> None:
    """What one process does another sees at once: there is no state but the store's."""
    world.limit(concurrency=1)
    world.publish_many(2)
    other = World(store.clone(), world.clock)
    assert len(world.worker("w1").take(2)) == 1
    assert other.worker("w2").take(2) == []
    other.store.close()
