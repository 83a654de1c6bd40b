"""Known flaws of other schedulers do not occur here: one test per row of docs/guarantees.md.

Flaws that need a framework or a real worker, such as a heartbeat that a CPU-bound task starves, are
tested with that worker.
"""

from __future__ import annotations

import threading

from fairqueue import Limits
from fairqueue.adapters import Finish
from tests.contract.world import Worker, World, ids


def test_a_lease_frees_its_slot_once(world: World, worker: Worker) -> None:
    """Usage is the number of leases, so ending one lease repeatedly frees one slot."""
    world.limit(concurrency=2)
    world.publish_many(10)
    first, _second = worker.take(2)
    assert worker.finish(first)
    assert not worker.finish(first)
    assert not worker.release(first)
    assert not worker.reject(first)
    assert worker.claim(0, finishes=[Finish(first.fence)] * 3).lost == {first.fence}
    assert len(worker.take(10)) == 1
    assert world.row().running == 2


def test_a_job_and_its_slot_are_taken_in_one_step(world: World, worker: Worker) -> None:
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
    while leases := worker.take(5):
        done += len(leases)
        worker.claim(0, finishes=[Finish(lease.fence) for lease in leases])
    stop.set()
    watcher.join()
    assert done == 60
    assert max((running for running, _ in seen), default=0) <= 3


def test_a_job_over_its_limit_is_not_claimed_and_put_back(world: World, worker: Worker) -> None:
    """Claims that find no runnable job change nothing."""
    world.limit("full", concurrency=1)
    world.publish_many(5, "full")
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


def test_a_blocked_workspace_does_not_hold_virtual_time_back(world: World, worker: Worker) -> None:
    """Beside a blocked workspace, a new one gets its share."""
    world.limit("blocked", concurrency=0)
    world.publish("blocked")
    world.publish_many(100, "busy")
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
