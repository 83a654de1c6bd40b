"""Many publishes in one call: each has the outcome of a publish; a group goes in whole or not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairqueue import CapacityExceeded, FairQueueError, Job, LeaseLost, Limits, Outcome, Pause
from fairqueue._publish.new_job import as_one_group
from fairqueue._types import Admission, JobId
from tests.contract.test_capacity import SCOPES
from tests.contract.world import Worker, World, ids

Pair = tuple[Job, Admission]


def job(n: int, workspace: str = "a", *, queue: str = "q", task: str = "t") -> Job:
    """Make a job whose id and payload have this number."""
    return Job(f"j{n}", workspace, queue, task, b"%d\n" % n)


def jobs(n: int, workspace: str = "a", *, group: str | None = None, first: int = 0) -> list[Pair]:
    """Make this many jobs."""
    return [(job(first + i, workspace), Admission(group=group)) for i in range(n)]


def outcomes(done: list[JobId | FairQueueError]) -> list[object]:
    """Say what became of each: the outcome, or the kind of error."""
    return [type(one) if isinstance(one, FairQueueError) else one.outcome for one in done]


def refusal(done: list[JobId | FairQueueError]) -> CapacityExceeded:
    """Return the one error with which every job was refused."""
    (error,) = {id(one): one for one in done}.values()
    assert isinstance(error, CapacityExceeded)
    return error


def test_jobs_keep_their_order_and_payload(world: World) -> None:
    """They are claimed in the order in which they were given, byte for byte; none are no call."""
    assert world.store.publish_many([]) == []
    payloads = [b"", bytes(range(256)), b"1 2 3 ", b"\n|"]
    pairs = [(replace(job(n), payload=each), Admission()) for n, each in enumerate(payloads)]
    done = world.store.publish_many(pairs)
    assert outcomes(done) == [Outcome.CREATED] * 4
    leases = world.worker().take(4)
    assert [(lease.job.id, lease.job.payload) for lease in leases] == [
        (f"j{n}", payload) for n, payload in enumerate(payloads)
    ]


def test_jobs_of_the_same_call_count_on_every_queue(world: World) -> None:
    """They use the capacity of their workspace before its record says so."""
    world.limit(capacity=2)
    world.publish()
    done = world.store.publish_many([(job(1, queue="q2"), Admission()), (job(2), Admission())])
    assert outcomes(done) == [Outcome.CREATED, CapacityExceeded]


def test_large_payloads_take_more_calls(world: World) -> None:
    """No call has more than a megabyte of them, unless one job has."""
    pairs = [(replace(job(n), payload=b"x" * 700_000), Admission()) for n in range(4)]
    assert outcomes(world.store.publish_many(pairs)) == [Outcome.CREATED] * 4
    assert world.store.depth("q") == 4


def test_each_job_has_the_outcome_of_a_publish(world: World) -> None:
    """One that is known, one that is refused, one whose parent lost its lease, one under a key."""
    world.limit("full", capacity=0)
    world.publish("a", "j1")
    pairs = [
        (job(0), Admission()),
        (job(1), Admission()),
        (job(2, "full"), Admission()),
        (job(3), Admission(parent_fence=12345)),
        (job(4), Admission(unique_key="k")),
        (job(5), Admission(unique_key="k")),
        (job(6, "full"), Admission(exempt=True)),
    ]
    done = world.store.publish_many(pairs)
    assert outcomes(done) == [
        Outcome.CREATED,
        Outcome.REPEATED,
        CapacityExceeded,
        LeaseLost,
        Outcome.CREATED,
        Outcome.EXISTING,
        Outcome.CREATED,
    ]
    assert isinstance(done[5], JobId)
    assert done[5] == "j4"
    assert (world.row("a").waiting, world.row("full").waiting) == (3, 1)


def test_a_capacity_is_exact_within_one_call(world: World) -> None:
    """As many as fit are stored, the first ones."""
    world.limit(capacity=3)
    done = world.store.publish_many(jobs(5))
    assert outcomes(done) == [Outcome.CREATED] * 3 + [CapacityExceeded] * 2
    assert ids(world.worker().take(5)) == ["j0", "j1", "j2"]


def test_delayed_and_expiring_jobs(world: World) -> None:
    """They wait for their time, and die at it."""
    late, early = replace(job(0), delay_seconds=10.0), replace(job(1), expires_seconds=5.0)
    world.store.publish_many([(late, Admission()), (early, Admission())])
    world.pass_time(20)
    assert ids(world.worker().take(2)) == ["j0"]
    assert [letter.job.id for letter in world.dead()] == ["j1"]


def test_a_publish_of_many_wakes_a_waiter(world: World) -> None:
    """It leaves the token that a publish leaves."""
    world.store.publish_many(jobs(3))
    waiter = world.store.waiter(["q"])
    assert waiter.wait(5)
    waiter.close()


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("size", [5, 150])
def test_a_group_is_let_in_whole_or_not_at_all(world: World, scope: str, size: int) -> None:
    """Its size is known, so it needs room for all of its jobs."""
    world.limit_level(scope, capacity=size)
    world.publish("a", "before")
    error = refusal(world.store.publish_many(jobs(size, group="g")))
    assert (error.scope, error.limit, error.waiting, error.jobs) == (scope, size, 1, size)
    assert (error.workspace, error.queue, error.task) == ("a", "q", "t")
    assert not error.never_fits
    assert world.store.depth("q") == 1
    world.worker().take_one()
    done = world.store.publish_many(jobs(size, group="g"))
    assert outcomes(done) == [Outcome.CREATED] * size


def test_a_group_that_never_fits_says_so(world: World) -> None:
    """To wait for room does not help."""
    world.limit(capacity=5)
    error = refusal(world.store.publish_many(jobs(500, group="g")))
    assert error.never_fits
    assert "no room for 500 jobs at once: its capacity is 5" in str(error)
    assert world.stats().queues == {}


def test_a_group_over_several_workspaces_names_the_full_one(world: World) -> None:
    """The rejection is that of the whole group, whichever job it is given for."""
    world.limit("b", capacity=1)
    pairs = [(job(n, "ab"[n % 2]), Admission(group="g")) for n in range(4)]
    error = refusal(world.store.publish_many(pairs))
    assert (error.workspace, error.jobs, error.limit) == ("b", 2, 1)
    assert world.store.depth("q") == 0


def test_each_group_is_decided_by_itself(world: World) -> None:
    """Jobs of none, and of other groups, are not refused with it."""
    world.limit(capacity=4)
    pairs = [*jobs(3, group="big"), *jobs(2, group="small", first=3), *jobs(1, first=5)]
    pairs += jobs(2, group="other", first=6)
    done = world.store.publish_many(pairs)
    assert outcomes(done) == (
        [Outcome.CREATED] * 3 + [CapacityExceeded] * 2 + [Outcome.CREATED] + [CapacityExceeded] * 2
    )


def test_exempt_jobs_of_a_group_need_no_room(world: World) -> None:
    """They are accepted, however full it is."""
    world.limit(capacity=0)
    pairs = [(one, how._replace(exempt=True)) for one, how in jobs(3, group="g")]
    assert outcomes(world.store.publish_many(pairs)) == [Outcome.CREATED] * 3


def test_a_group_is_refused_while_its_task_drains(world: World) -> None:
    """Nothing of it is stored."""
    world.publish("a", "before", task="t")
    world.store.pause("task", "t", Pause.DRAINING)
    error = refusal(world.store.publish_many(jobs(3, group="g")))
    assert (error.scope, error.draining, error.never_fits) == ("task", True, False)
    assert world.store.depth("q") == 1


def test_an_observed_limit_refuses_no_group(world: World) -> None:
    """It is counted, once for each workspace, queue and task of it."""
    world.configure(default=Limits(capacity=2), enforced=False)
    assert outcomes(world.store.publish_many(jobs(3, group="g"))) == [Outcome.CREATED] * 3
    assert world.row().would_reject == 1


def test_a_group_that_is_refused_is_not_observed(world: World) -> None:
    """A drain refuses it, also where capacities are only observed."""
    world.configure(default=Limits(capacity=0), enforced=False)
    world.publish("a", "before", task="draining", exempt=True)
    world.store.pause("task", "draining", Pause.DRAINING)
    pairs = [*jobs(1, group="g"), (job(1, task="draining"), Admission(group="g"))]
    assert refusal(world.store.publish_many(pairs)).scope == "task"
    assert world.row().would_reject == 0


def test_the_same_ids_need_room_again_once_they_are_forgotten(world: World, worker: Worker) -> None:
    """All or none of jobs whose ids were used before is decided by what is free now."""
    world.limit(capacity=5)
    batch = as_one_group(jobs(5))
    world.store.publish_many(batch)
    assert outcomes(world.store.publish_many(batch)) == [Outcome.REPEATED] * 5
    for lease in worker.take(5):
        worker.finish(lease)
    assert outcomes(world.store.publish_many(batch)) == [Outcome.REPEATED] * 5
    world.pass_time(130)
    world.store.publish_many(jobs(5, first=10))
    assert refusal(world.store.publish_many(batch)).jobs == 5
    assert world.row().waiting == 5


def test_the_same_ids_need_room_again_where_one_of_them_waits(world: World, worker: Worker) -> None:
    """A repeat of all or none is told what is known, and stores nothing above the capacity."""
    world.limit(capacity=5)
    batch = as_one_group(jobs(5))
    world.store.publish_many(batch)
    for lease in worker.take(4):
        worker.finish(lease)
    world.pass_time(130)
    world.store.publish_many(jobs(4, first=10))
    done = outcomes(world.store.publish_many(batch))
    assert done == [CapacityExceeded] * 4 + [Outcome.REPEATED]


def test_the_rest_of_all_or_none_is_let_in_however_late(world: World) -> None:
    """A call of several steps was interrupted; its repeat an hour later is not refused."""
    world.limit(capacity=150)
    batch = as_one_group(jobs(150))
    calls = [world.store.publish_many(batch[:100])]
    world.clock.advance(3600)
    calls.append(world.store.publish_many(batch))
    assert list(map(outcomes, calls)) == [
        [Outcome.CREATED] * 100,
        [Outcome.REPEATED] * 100 + [Outcome.CREATED] * 50,
    ]
