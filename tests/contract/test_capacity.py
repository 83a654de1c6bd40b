"""Capacity is checked and used atomically; what must be accepted always is."""

from __future__ import annotations

import pytest

from fairqueue import CapacityExceeded, Limits
from tests.contract.world import Worker, World

SCOPES = ("workspace", "queue", "total")


def _refused(world: World, workspace: str = "a", *, queue: str = "q") -> CapacityExceeded:
    with pytest.raises(CapacityExceeded) as caught:
        world.publish(workspace, queue=queue)
    return caught.value


@pytest.mark.parametrize("scope", SCOPES)
def test_capacity_is_exact(world: World, scope: str) -> None:
    """Exactly as many jobs as fit are accepted; the error names the scope that is full."""
    world.limit_level(scope, capacity=3)
    world.publish_many(3)
    error = _refused(world)
    assert (error.scope, error.limit, error.waiting) == (scope, 3, 3)
    assert (error.workspace, error.queue) == ("a", "q")
    assert world.store.depth("q") == 3


def test_a_refused_publish_leaves_nothing(world: World) -> None:
    """The snapshot is unchanged, and the same id can be published once there is capacity."""
    world.limit(capacity=1)
    world.publish("a")
    before = world.stats()
    with pytest.raises(CapacityExceeded):
        world.publish("a", "refused")
    assert world.stats() == before
    world.limit(capacity=2)
    assert world.again("a", "refused")


def test_a_refused_first_publish_leaves_nothing(world: World) -> None:
    """A workspace and a queue that were unknown before are unknown afterwards."""
    world.configure(default=Limits(capacity=0))
    _refused(world, "stranger", queue="nowhere")
    stats = world.stats()
    assert (stats.workspaces, stats.queues) == ((), {})


def test_running_jobs_use_no_capacity(world: World) -> None:
    """A start makes room for one more job."""
    world.limit(capacity=2)
    world.publish_many(2)
    world.worker().take_one()
    world.publish()
    assert _refused(world).waiting == 2


def test_scheduled_jobs_use_capacity(world: World) -> None:
    """A job that is not due yet counts like any other."""
    world.limit(capacity=1)
    world.publish(delay_seconds=3600)
    assert _refused(world).waiting == 1


def test_capacity_of_a_workspace_counts_all_its_queues(world: World) -> None:
    """Its jobs count together on all queues."""
    world.limit(capacity=2)
    world.publish(queue="q1")
    world.publish(queue="q2")
    assert _refused(world, queue="q3").waiting == 2


def test_total_capacity_counts_every_queue(world: World) -> None:
    """It also holds for the first publish to a new queue."""
    world.limit_level("total", capacity=2)
    world.publish(queue="q1")
    world.publish("b", queue="q2")
    assert _refused(world, "c", queue="new").waiting == 2


def test_total_capacity_counts_blocked_jobs(world: World) -> None:
    """Jobs of a workspace that cannot start any count from the first on, exempt ones too."""
    world.limit_level("total", capacity=1)
    world.limit("a", concurrency=0)
    world.publish("a", exempt=True)
    assert _refused(world, "b", queue="other").waiting == 1


def test_each_queue_has_its_own_default_capacity(world: World) -> None:
    """The default applies to each queue by itself; a named queue has its own capacity."""
    world.configure(queue_default=Limits(capacity=1), queues={"big": Limits(capacity=2)})
    for queue in ("q1", "q2", "big", "big"):
        world.publish(queue=queue)
    assert [_refused(world, queue=queue).limit for queue in ("q1", "q2", "big")] == [1, 1, 2]


def test_an_exempt_publish_is_never_refused(world: World) -> None:
    """Exempt jobs are accepted whatever is full, and count from then on."""
    world.limit(capacity=0)
    for _ in range(3):
        world.publish(exempt=True)
    assert _refused(world).waiting == 3


def test_a_returned_job_is_never_refused(world: World, worker: Worker) -> None:
    """Released and redelivered jobs are accepted, however full the workspace is."""
    world.limit(capacity=2)
    world.publish_many(2)
    first, _second = worker.take(2)
    world.publish_many(2)
    worker.release(first)
    world.pass_time(31)
    assert world.row().waiting == 4


def test_the_rest_of_a_group_is_accepted(world: World) -> None:
    """Once its first job is accepted, the whole group is."""
    world.limit(capacity=3)
    world.publish_many(2)
    for _ in range(5):
        world.publish(group="g1")
    assert world.row().waiting == 7


def test_a_group_is_refused_by_its_first_job(world: World) -> None:
    """Then none of its jobs is stored, and the next try is decided again."""
    world.limit(capacity=1)
    world.publish()
    with pytest.raises(CapacityExceeded):
        world.publish(group="g1")
    with pytest.raises(CapacityExceeded):
        world.publish(group="g1")
    world.worker().take_one()
    world.publish(group="g1")
    world.publish(group="g1")
    with pytest.raises(CapacityExceeded):
        world.publish(group="g2")


def test_retry_after_follows_the_drain_rate(world: World, worker: Worker) -> None:
    """For a workspace that starts a job every 20 seconds it is about 20 seconds, with jitter."""
    world.limit(capacity=1, concurrency=1)
    world.publish()
    for _ in range(6):
        lease = worker.take_one()
        world.publish()
        world.clock.advance(20)
        worker.finish(lease, 20)
    lease = worker.take_one()
    world.publish()
    assert 20 <= _refused(world).retry_after <= 30


def test_retry_after_grows_with_the_excess(world: World, worker: Worker) -> None:
    """It is twice as long for two jobs too many as for one."""
    world.limit(capacity=10, concurrency=1)
    world.publish_many(10)
    for _ in range(3):
        lease = worker.take_one()
        world.publish()
        world.clock.advance(10)
        worker.finish(lease, 10)
    world.limit(capacity=1)
    after = _refused(world).retry_after
    assert 90 <= after <= 160


def test_the_nearest_full_scope_is_named(world: World) -> None:
    """The error names the workspace before the queue, and the queue before the total."""
    for scope in ("total", "queue", "workspace"):
        world.limit_level(scope, capacity=0)
        assert _refused(world).scope == scope
