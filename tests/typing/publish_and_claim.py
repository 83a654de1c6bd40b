"""A user's program must type-check: publish, claim, acknowledge, and what is known inside a job."""

from __future__ import annotations

from typing_extensions import assert_type

from fairqueue import (
    CapacityExceeded,
    FairQueue,
    FairQueueError,
    Job,
    JobContext,
    JobId,
    Lease,
    LeaseLost,
    NewJob,
    Outcome,
    Settings,
    current,
    workspace,
)
from fairqueue.adapters import Claimed, Finish


def produce(queue: FairQueue) -> str:
    """An id is a str that also tells the outcome; payloads are bytes."""
    with workspace("acme"):
        job_id = queue.publish(b"hello", queue="mail", task="send", unique_key="welcome")
    assert_type(job_id, JobId)
    assert_type(job_id.outcome, Outcome)
    queue.publish("hello", queue="mail")  # type: ignore[arg-type]
    queue.publish(b"hello")  # type: ignore[call-arg]
    queue.publish(b"hello", "mail")  # type: ignore[call-arg]
    return job_id


def produce_many(queue: FairQueue) -> list[str]:
    """Each outcome is an id or an error; a job has the arguments of a publish."""
    jobs = [NewJob(b"hello", queue="mail", workspace=7, job_id=f"m{n}") for n in range(3)]
    outcomes = queue.publish_many(jobs, all_or_none=True, block_seconds=2.0)
    assert_type(outcomes, list[JobId | FairQueueError])
    NewJob(b"hello")  # type: ignore[call-arg]
    NewJob("hello", "mail")  # type: ignore[arg-type]
    queue.publish_many([b"hello"])  # type: ignore[list-item]
    return [one for one in outcomes if isinstance(one, JobId)]


def consume(queue: FairQueue) -> int:
    """A claim brings leases, and each lease its job; endings are reported one by one or at once."""
    claimed = queue.claim(["mail"], 10, wait_seconds=1.0)
    assert_type(claimed, Claimed)
    assert_type(claimed.leases, tuple[Lease, ...])
    for lease in claimed.leases:
        assert_type(lease.job, Job)
        assert_type(lease.job.payload, bytes)
        queue.ack(lease, seconds=0.5)
    lost = queue.finish([Finish(lease.fence) for lease in claimed.leases])
    assert_type(lost, frozenset[int])
    queue.ack(claimed.leases[0].fence)  # type: ignore[arg-type]
    return len(claimed.leases)


def give_back(queue: FairQueue, lease: Lease) -> None:
    """Options of an ending are keyword-only, and nothing is returned."""
    queue.release(lease, delay_seconds=5.0, counted=True)
    queue.reject(lease, reason="unreadable")
    queue.reject(lease)  # type: ignore[call-arg]
    queue.release(lease, 5.0)  # type: ignore[call-arg]


def handle(queue: FairQueue, *, tries: int) -> float:
    """Errors carry what a caller needs."""
    try:
        produce(queue)
    except CapacityExceeded as error:
        assert_type(error.retry_after, float)
        assert_type(error.scope, str)
        return error.retry_after * tries
    except LeaseLost as error:
        assert_type(error.job_id, str)
    except FairQueueError:
        raise
    return 0.0


def inside_a_job() -> int:
    """Outside a job there is none, which must be checked."""
    job = current()
    assert_type(job, JobContext | None)
    job.raise_if_lost()  # type: ignore[union-attr]
    return 0 if job is None or job.cancelled else job.fence


def configure() -> FairQueue:
    """Settings are typed, and a queue is a context manager of its own type."""
    settings = Settings.load({"workspace_concurrency": 2})
    assert_type(settings.workspace_concurrency, int | None)
    assert_type(settings.lease_seconds, float)
    with FairQueue("redis://localhost", settings=settings) as queue:
        assert_type(queue, FairQueue)
        return queue
