"""Known flaws of other schedulers do not occur here: one test per row of docs/guarantees.md.

Flaws that need a framework or a real worker, such as a heartbeat that a CPU-bound task starves, are
tested with that worker.
"""

from __future__ import annotations

from tests.contract.world import Worker, World, ids


def test_a_job_over_its_limit_is_not_claimed_and_put_back(world: World, worker: Worker) -> None:
    """Claims that find no runnable job change nothing."""
    world.limit("full", concurrency=1)
    world.publish_many(5, "full")
    worker.take_one()
    before = world.stats()
    for _ in range(50):
        assert worker.take() == []
    assert world.stats() == before
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
