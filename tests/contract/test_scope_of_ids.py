"""A job is known by its workspace, queue and id: an equal id elsewhere is another job."""

from __future__ import annotations

import pytest

from fairqueue import Job
from fairqueue.adapters import Admission
from tests.contract.world import Worker, World


def test_two_workspaces_may_use_the_same_id(world: World) -> None:
    """Both jobs run."""
    world.publish("a", "invoice-1")
    assert world.again("b", "invoice-1")
    assert [lease.job.workspace for lease in world.worker().take(2)] == ["a", "b"]


@pytest.mark.parametrize(("workspace", "queue"), [("b", "q"), ("a", "q2")])
def test_an_id_that_has_ended_is_not_known_elsewhere(
    world: World, worker: Worker, workspace: str, queue: str
) -> None:
    """Its job ran a moment ago, in another workspace or on another queue."""
    world.publish("a", "invoice-1")
    worker.finish(worker.take_one())
    assert world.again(workspace, "invoice-1", queue=queue)


def test_dead_jobs_of_two_queues_with_one_id_are_two(world: World, worker: Worker) -> None:
    """Neither dead letter replaces the other."""
    for queue in ("q", "q2"):
        world.publish("a", "invoice-1", queue=queue)
        worker.reject(worker.take_one(queue))
        world.pass_time(130)  # that the id has ended is forgotten
    assert sorted(letter.job.queue for letter in world.dead()) == ["q", "q2"]


def test_a_first_publish_that_arrives_late_runs_its_job_once(world: World) -> None:
    """It was sent again meanwhile, and that job has run: a packet may be held up for seconds."""
    job, worker, started = Job("x", "a", "q", "t", b""), world.worker(), []
    world.publish_many(2)
    for is_new in (False, True):
        world.store.publish(job, Admission(is_new=is_new))
        for lease in worker.take(3):
            started.append(lease.job.id)
            worker.finish(lease)
    assert started.count("x") == 1
