"""The helpers that both adapters share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace

import pytest
from redis import Redis
from redis.sentinel import Sentinel

import fairqueue
from fairqueue import (
    FairQueue,
    Job,
    JobContext,
    JobId,
    Lease,
    Outcome,
    Settings,
    workspace,
)
from fairqueue._worker.unknown_task import MOST_TASKS
from fairqueue.adapters import (
    ChildWaits,
    ClaimAhead,
    UnknownTaskBackoff,
    current_workspace,
    job_ids,
    mark_body,
    message_id_of,
    run_context,
    running_job,
    settings_summary,
    workspace_or_current,
)

JOB = Job(id="j1", workspace="ada", queue="mails", task="send", payload=b"")


def declined(times: int) -> Lease:
    return Lease(
        job=JOB,
        fence=1,
        deliveries=1,
        redelivered=False,
        lease_seconds=60,
        owner="w1",
        declined=times,
    )


def test_the_delay_of_an_unknown_task_doubles_up_to_ten_seconds() -> None:
    """It is 1, 2, 4, 8, and then always 10 s."""
    backoff = UnknownTaskBackoff(Settings.load({"unknown_task_returns": 10_000}))
    delays = [backoff.delay_seconds(declined(times)) for times in (0, 1, 2, 3, 4, 5, 9_999)]
    assert delays == [1, 2, 4, 8, 10, 10, 10]


def test_thousands_of_jobs_of_unknown_tasks_come_back_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This process gets 25 of them a second, however many it returns."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    backoff = UnknownTaskBackoff(Settings.load())
    delays = [backoff.delay_seconds(declined(3)) or 0.0 for _ in range(20_000)]
    assert delays[:200] == [8] * 200
    assert delays[9_999] == pytest.approx(400)
    assert all(sum(t <= delay < t + 1 for delay in delays) <= 26 for t in (9, 100, 399))
    assert max(delays) == 600


def test_the_returns_of_an_unknown_task_are_logged_now_and_then(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task is logged at once, and then in 10 s at most once; very many tasks share a line."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    backoff = UnknownTaskBackoff(Settings.load())
    for times in range(3):
        backoff.delay_seconds(declined(times))
    backoff.delay_seconds(replace(declined(0), job=replace(JOB, task="print")))
    now += 10
    backoff.delay_seconds(declined(3))
    first, of_another, _ = caplog.messages
    assert "does not know task 'send': job 'j1'" in first
    assert "does not know task 'print'" in of_another
    for n in range(500):
        backoff.delay_seconds(replace(declined(0), job=replace(JOB, task=f"t{n}")))
    assert len(caplog.records) == 3 + MOST_TASKS - 2 + 1


def test_the_oldest_outcomes_are_forgotten() -> None:
    """A process keeps 1,000; those under a key stay, however many others follow."""
    sent, queue = ChildWaits(), FairQueue("redis://h")
    for n in range(1001):
        job = JobId(Outcome.CREATED, f"j{n}")
        sent.published(queue, f"m{n}", "ada", "q", "t", job, keyed=True)
        sent.published(queue, f"plain{n}", "ada", "q", "t", job)
    assert sent.unique("m0") is None
    assert sent.unique("m1") == (Outcome.CREATED, "m1")


def test_a_job_id_is_new_or_starts_as_asked_and_stays_short() -> None:
    """Two publishes of one message have different ids, and a repeat has the same."""
    own, other = job_ids("m.1")
    assert (own, other != job_ids("m.1")[1]) == ("m.1", True)
    assert message_id_of(other or "") == message_id_of("m.1") == "m.1"
    assert job_ids("m", start="p") == ("m", "p~m")
    for unusable in ("", "m" * 201, "\ud800"):
        assert job_ids(unusable, start="p") == ("p", None)


def test_what_must_not_be_lost_is_published_for_no_impossible_name() -> None:
    """Its workspace is that of the running job, or else the default one."""
    assert workspace_or_current("it", lambda: "x" * 201) is None
    with workspace("ada"):
        assert workspace_or_current("it", lambda: "x" * 201) == "ada"


SAME = [
    ("redis://h/0", "redis://user:secret@h:6379?workspace_concurrency=2"),
    ("redis://h1,h2/1", "redis://h1:6379/1"),
    ("unix:///run/r.sock?db=1", "unix://:secret@/run/r.sock?db=1"),
    ("redis+sentinel://a,b/mymaster/0", "redis+sentinel://:secret@b,a:26379/mymaster/0"),
    ("redis+cluster://a,b/0?shards=2", "redis+cluster://b:6379,a/0?shards=4"),
    ("memory://a", "memory://a/?workspace_capacity=1"),
]
OTHERS = [
    "redis://h",
    "redis://h/1",
    "redis://h:6380",
    "redis://h?namespace=other",
    "unix:///run/r.sock",
    "unix:///run/other.sock",
    "redis+sentinel://a/mymaster",
    "redis+sentinel://b/mymaster",
    "redis+sentinel://a/other",
    "redis+cluster://a/0?shards=2",
    "redis+cluster://b/0?shards=2",
    "memory://a",
    "memory://b",
    "memory://a?namespace=other",
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_a_store_is_known_by_its_address_database_and_namespace(one: str, other: str) -> None:
    """Not by a login, by settings or by the number of its shards."""
    queues = [FairQueue(one), FairQueue(other)]
    assert queues[0].store.store_id == queues[1].store.store_id == queues[0].clone().store.store_id
    assert "secret" not in queues[1].store.store_id


def test_other_stores_are_known_apart() -> None:
    """Another server, database, service or namespace is another store."""
    assert len({FairQueue(url).store.store_id for url in OTHERS}) == len(OTHERS)


@pytest.mark.parametrize(("hosts", "service"), [([("a", 1)], "m"), ([("b", 1), ("a", 1)], "m")])
def test_a_store_over_an_existing_client_is_known_too(
    hosts: list[tuple[str, int]], service: str
) -> None:
    """Also over one that redis-py's own Sentinels have made."""
    client = Sentinel(hosts).master_for(service)
    assert FairQueue(client=client).store.store_id == f"{service} of {sorted(hosts)}/0 fairqueue"
    assert FairQueue(client=Redis(host="h")).store.store_id == FairQueue("redis://h").store.store_id


def test_a_marked_body_is_recorded_in_its_job() -> None:
    """It runs inside ``around``, even if it raises; a nested body is not recorded."""
    seen: list[tuple[bool, bool]] = []

    @contextmanager
    def around(job: JobContext) -> Iterator[None]:
        seen.append((job.body_entered, job.body_returned))
        yield

    def inner() -> None:
        job = fairqueue.current()
        assert job is not None
        assert (job.body_entered, job.body_returned) == (True, False)

    def outer() -> None:
        marked_inner()
        inner()
        raise LookupError

    marked_inner, marked_outer = mark_body(inner), mark_body(outer)
    job = JobContext("j1", "ada", 7, 1, "store", around=around)
    with run_context(job), pytest.raises(LookupError):
        marked_outer()
    assert seen == [(True, False)]
    assert job.body_returned


@pytest.mark.parametrize("lost", [False, True])
def test_what_a_run_leaves_behind_is_no_part_of_it_once_it_has_ended(lost: bool) -> None:
    """An asyncio task has its context for longer: it keeps the workspace, and needs no lease.

    What a lost run leaves behind still has its fence, so that its publishes are refused.
    """
    job = JobContext("j1", "ada", 7, 1, "store", is_lost=lambda: lost)
    with run_context(job):
        left = copy_context()
        assert left.run(running_job) is job
    assert left.run(running_job) is (job if lost else None)
    assert left.run(current_workspace) == "ada"


def test_a_forked_process_may_outlive_the_run_that_forked_it() -> None:
    """As that of a process pool, which one job makes and others use."""
    with run_context(JobContext("j1", "ada", 7, 1, "store")):
        pid = os.fork()
        if pid == 0:
            os._exit((running_job(), current_workspace()) != (None, "ada"))
        assert os.waitpid(pid, 0)[1] == 0
        assert running_job() is not None


def test_the_line_has_the_process_own_limits_if_the_store_is_away() -> None:
    """A worker starts also then."""
    settings = Settings.load({"workspace_concurrency": 2})
    line = settings_summary(FairQueue("redis://127.0.0.1:1", settings=settings))
    assert "limits not read from the store, which is away, workspace_concurrency 2, lease" in line


def test_a_missing_framework_is_told_with_its_extra() -> None:
    """By the import of each integration."""
    code = """
import sys
for framework, module in {
    "kombu": "fairqueue_celery", "dramatiq": "fairqueue_dramatiq",
    "flask": "fairqueue_web.flask", "fastapi": "fairqueue_web.fastapi",
    "django": "fairqueue_web.django",
}.items():
    sys.modules[framework] = None
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        print(str(error).partition(": ")[2])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"pip install 'fairqueue[{extra}]'"
        for extra in ("celery", "dramatiq", "flask", "fastapi", "django")
    ]


@pytest.mark.parametrize(
    ("within", "duration", "slots", "jobs"),
    [
        *((0.005, 10.0, 4, 0), (0.005, 0.02, 4, 1), (0.005, 0.001, 4, 16)),
        *((0.005, 0.0001, 1, 8), (0.005, 0.004, 1, 1), (0.0, 0.0001, 4, 0)),
    ],
)
def test_only_jobs_that_start_soon_are_claimed_ahead(
    within: float, duration: float, slots: int, jobs: int
) -> None:
    """By the mean duration, and no more than the caller allows; none before one is known."""
    claim_ahead = ClaimAhead(within)
    assert claim_ahead.jobs(slots, at_most=16) == 0
    for _ in range(200):
        claim_ahead.record(duration)
    assert claim_ahead.jobs(slots, at_most=max(8, 4 * slots)) == jobs


def test_the_newest_durations_count_most() -> None:
    """After one short job the largest number is claimed; after many long ones, none."""
    claim_ahead = ClaimAhead(0.005)
    claim_ahead.record(0.0005)
    assert claim_ahead.jobs(8, at_most=8) == 8
    for _ in range(100):
        claim_ahead.record(1.0)
    assert claim_ahead.jobs(8, at_most=8) == 0
