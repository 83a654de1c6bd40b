"""FairQueue: what it rejects, which workspace it publishes to, and how it may be reused."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from fairqueue import (
    ConfigurationError,
    FairQueue,
    JobContext,
    JobState,
    LeaseLost,
    Scope,
    workspace,
)
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.store import Store
from fairqueue._validation import MOST_DELAY_SECONDS
from fairqueue.adapters import new_job_id, run_context
from fairqueue.rows import DeadFilter
from fairqueue.testing import ManualClock


@pytest.fixture
def queue(clock: ManualClock) -> Iterator[FairQueue]:
    """A queue on a store of its own."""
    with FairQueue(store=Store(MemoryEngine(), clock=clock)) as queue:
        yield queue


def _workspaces(queue: FairQueue) -> dict[str, int]:
    return {w.workspace: w.waiting for w in queue.views.stats().workspaces}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_an_id_may_be_copied_and_sent_to_a_process(queue: FairQueue, copied: Any) -> None:
    """With its outcome."""
    job_id = queue.publish(b"", queue="q")
    again = copied(job_id)
    assert (again, again.outcome, type(again)) == (job_id, job_id.outcome, type(job_id))


def test_a_payload_may_be_too_large(clock: ManualClock) -> None:
    """The error names task, workspace, size and remedy; a retry is accepted all the same."""
    store = Store(MemoryEngine(), clock=clock)
    said = r"task 'send' of workspace 'acme'.* 1,025 bytes.* max_payload_bytes is 1,024.*elsewhere"
    with FairQueue(store=store, max_payload_bytes=1024) as queue:
        queue.publish(b"x" * 1024, queue="q", workspace="acme")
        with pytest.raises(ConfigurationError, match=said):
            queue.publish(b"x" * 1025, queue="q", workspace="acme", task="send")
        queue.publish(b"x" * 1025, queue="q", workspace="acme", exempt=True)
        assert queue.depth("q") == 2


def test_what_must_be_accepted_is_delayed_for_a_hundred_years_at_most(
    queue: FairQueue, clock: ManualClock
) -> None:
    """A retry and a job that is given back are not refused for an absurd delay."""
    queue.publish(b"x", queue="q", delay_seconds=3e11, exempt=True)
    for _ in range(2):
        assert queue.claim(["q"]).leases == ()
        clock.advance(MOST_DELAY_SECONDS + 1)
        (lease,) = queue.claim(["q"]).leases
        queue.release(lease, delay_seconds=1e300)


def test_ids_differ_unless_given(queue: FairQueue) -> None:
    """Each publish is a new job; the same id is not. None looks like a command line's option."""
    ids = {queue.publish(b"x", queue="q") for _ in range(50)}
    assert len(ids) == 50
    assert not any(new_job_id().startswith("-") for _ in range(1000))
    assert queue.publish(b"x", queue="q", job_id="mine") == "mine"
    assert queue.publish(b"x", queue="q", job_id="mine") == "mine"
    assert queue.depth("q") == 51


@pytest.mark.parametrize("act", ["ack", "release", "reject"])
def test_ending_a_lost_lease_raises(queue: FairQueue, act: str) -> None:
    """Every way to end a lost lease raises LeaseLost, with the job and its workspace."""
    queue.publish(b"x", queue="q", workspace="acme", job_id="one")
    (lease,) = queue.claim(["q"]).leases
    queue.release(lease)
    more = {"reason": "bad"} if act == "reject" else {}
    with pytest.raises(LeaseLost) as caught:
        getattr(queue, act)(lease, **more)
    assert (caught.value.job_id, caught.value.workspace) == ("one", "acme")
    assert queue.depth("q") == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"queue": ""}, "queue name must not be empty"),
        ({"queue": 7}, "queue name must be a str, not int"),
        ({"task": 7}, "task name must be a str, not int"),
        ({"workspace": ""}, "workspace name must not be empty"),
        ({"workspace": True}, "not bool"),
        ({"workspace": 4.2}, "workspace name must be a str, an int or a UUID, not float"),
        ({"workspace": "w" * 201}, "201 bytes long, at most 200"),
        ({"workspace": "é" * 101}, "202 bytes long, at most 200"),
        ({"workspace": "\ud800"}, "not valid UTF-8"),
        ({"task": "t" * 256}, "at most 255"),
        ({"priority": -1}, "priority must be a whole number from 0"),
        ({"priority": 1.5}, "priority must be a whole number from 0"),
        ({"priority": 2**24}, "priority must be a whole number from 0"),
        ({"delay_seconds": float("inf")}, "delay_seconds must be a finite number"),
        ({"delay_seconds": float("nan")}, "delay_seconds must be a finite number"),
        ({"delay_seconds": 10**400}, "delay_seconds must be a finite number"),
        ({"delay_seconds": 3e11}, r"at most 100 years \(3,155,760,000 seconds\), not 3e\+11"),
        ({"delay_seconds": True}, "delay_seconds must be a finite number"),
        ({"delay_seconds": None}, "delay_seconds must be a finite number"),
        ({"expires_seconds": "5"}, "expires_seconds must be a finite number of seconds, not '5'"),
        ({"expires_seconds": float("nan")}, "expires_seconds must be a finite number"),
        ({"unique_key": "k", "unique_for": [1]}, "unique_for must be a finite number"),
        ({"unique_key": "k", "unique_for": -1}, "unique_for must be more than 0 seconds, not -1"),
        ({"unique_key": "k", "unique_for": 0}, "unique_for must be more than 0 seconds, not 0"),
        ({"unique_for": 5}, "unique_for has no meaning without unique_key"),
        ({"block_seconds": float("nan")}, "block_seconds must be a finite number"),
        ({"job_id": "\ud800"}, "the job id .* is not valid UTF-8"),
        ({"job_id": 7}, "a job id must be a str, not int"),
        ({"group": "\ud800"}, "the group .* is not valid UTF-8"),
    ],
)
def test_an_invalid_publish_is_rejected(queue: FairQueue, asked: dict[str, Any], said: str) -> None:
    """The error names the bad argument, and nothing is stored."""
    with pytest.raises(ConfigurationError, match=said):
        queue.publish(b"x", **{"queue": "q", **asked})
    assert queue.views.stats().workspaces == ()


@pytest.mark.parametrize("queues", ["mail", [], [""], ["q", 3], iter(["q"]), None])
def test_claims_name_their_queues(queue: FairQueue, queues: Any) -> None:
    """A claim of a bare string or without a queue is rejected: it would wait for ever."""
    with pytest.raises(ConfigurationError, match="queue name"):
        queue.claim(queues)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"concurency": 2}, "unknown setting 'concurency'; did you mean 'concurrency'"),
        ({"reserve": 3, "concurrency": 2}, "above its concurrency of 2"),
        ({"workspace_concurrency": 2}, "unknown setting 'workspace_concurrency'"),
        ({"parent": "x" * 201}, "'parent'"),
        ({"weight": float("nan")}, "'weight'"),
        ({"rate": 0}, "'rate'"),
        ({"burst": 2}, "'burst' has no effect without a rate"),
        ({"task": "t", "capacity": 2}, "unknown setting 'capacity'"),
        ({"task": "t", "workspace_concurrency": -1}, "'workspace_concurrency'"),
    ],
)
def test_impossible_limits_are_rejected(
    queue: FairQueue, limits: dict[str, Any], said: str
) -> None:
    """A live limit is validated like a configured one."""
    task, limits = limits.get("task"), {k: v for k, v in limits.items() if k != "task"}
    scope = Scope.task(task) if task else Scope.workspace("acme")
    with pytest.raises(ConfigurationError, match=said):
        queue.limits.set(scope, **limits)


def test_the_workspace_of_a_publish(queue: FairQueue) -> None:
    """It is the named one, else the context's, else the running job's, else the default."""
    job = JobContext("id", "parent", fence=1, deliveries=1, store_id="store")
    queue.publish(b"x", queue="q")
    with workspace("outer"):
        queue.publish(b"x", queue="q")
        with run_context(job):
            queue.publish(b"x", queue="q")
            with workspace("inner"):
                queue.publish(b"x", queue="q")
                queue.publish(b"x", queue="q", workspace="named")
    expected = ["default", "inner", "named", "outer", "parent"]
    assert _workspaces(queue) == dict.fromkeys(expected, 1)


@pytest.mark.parametrize("name", ["", "  ", 3.5, None, "w" * 201])
def test_a_context_needs_a_name(name: Any) -> None:
    """A bad or blank name is rejected by workspace(), not by a later publish."""
    with pytest.raises(ConfigurationError, match=r"workspace name|be blank"), workspace(name):
        pytest.fail("it was accepted")


def test_a_running_job_can_ask_whether_it_is_lost() -> None:
    """raise_if_lost raises once the lease is gone."""
    lost = False
    job = JobContext("id", "acme", fence=1, deliveries=1, store_id="store", is_lost=lambda: lost)
    job.raise_if_lost()
    lost = True
    assert job.lost
    with pytest.raises(LeaseLost):
        job.raise_if_lost()


def test_overridden_limits_are_reported(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Connecting with limits other than the stored ones logs a warning, unless authoritative."""
    store = Store(MemoryEngine(), clock=clock)
    assert FairQueue(store=store, workspace_concurrency=2).connect()
    assert not FairQueue(store=store, workspace_concurrency=3).connect()
    assert "limits are overridden by those stored in Redis" in caplog.text
    assert FairQueue(store=store, workspace_concurrency=4, authoritative=True).connect()
    assert not FairQueue(store=store, workspace_concurrency=2).connect()


def test_a_blocking_claim_times_out(queue: FairQueue) -> None:
    """Without jobs it returns an empty result when its time is up."""
    since = time.monotonic()
    assert queue.claim(["q"], wait_seconds=0.15).leases == ()
    assert 0.1 < time.monotonic() - since < 2


def test_a_closed_queue_can_be_used_again(redis_url: str, namespace: str) -> None:
    """close() only closes connections."""
    queue = FairQueue(redis_url, namespace=namespace)
    queue.publish(b"x", queue="q")
    queue.close()
    assert queue.depth("q") == 1
    queue.close()


def test_settings_in_the_url_and_as_arguments(redis_url: str, namespace: str) -> None:
    """Settings may stand in the query; arguments take precedence."""
    url = f"{redis_url}?namespace={namespace}&workspace_concurrency=2&lease_seconds=5"
    with FairQueue(url, lease_seconds=7) as queue:
        assert queue.settings.workspace_concurrency == 2
        assert queue.settings.lease_seconds == 7
        for _ in range(5):
            queue.publish(b"x", queue="q", workspace="acme")
        assert len(queue.claim(["q"], 5).leases) == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), True, "5", None, 10**400])
def test_a_bad_number_does_not_end_a_lease(queue: FairQueue, bad: Any) -> None:
    """It is rejected by name, and the job can still be released and acked."""
    queue.publish(b"x", queue="q")
    (lease,) = queue.claim(["q"]).leases
    with pytest.raises(ConfigurationError, match=r"^delay_seconds must be"):
        queue.release(lease, delay_seconds=bad)
    with pytest.raises(ConfigurationError, match=r"^seconds must be"):
        queue.release(lease, seconds=bad)
    if bad is not None:
        with pytest.raises(ConfigurationError, match=r"^seconds must be"):
            queue.ack(lease, seconds=bad)
    with pytest.raises(ConfigurationError, match=r"^seconds must be"):
        queue.renew([(lease.fence, bad)])
    with pytest.raises(ConfigurationError, match=r"^seconds must be"):
        queue.reject(lease, reason="bad", seconds=bad)
    queue.ack(lease, seconds=1.0)


class _Name(str, Enum):
    QUEUE, WORKSPACE, TASK = "mail", "acme", "send"
    JOB, KEY, GROUP, REASON = "job-1", "key", "group", "no"


class _Plan(int, Enum):
    SMALL = 7


def test_names_may_be_members_of_an_enum(queue: FairQueue) -> None:
    """They are what they are equal to, and not what Python formats them as."""
    names: dict[str, Any] = {"queue": _Name.QUEUE, "workspace": _Name.WORKSPACE}
    names |= {"task": _Name.TASK, "group": _Name.GROUP, "unique_key": _Name.KEY}
    job = queue.publish(b"", job_id=_Name.JOB, **names)
    assert (str(job), queue.depth("mail")) == ("job-1", 1)
    queue.limits.set(Scope.task(_Name.TASK), concurrency=3)
    assert queue.limits.get(Scope.task("send"))["concurrency"].value == 3
    why = queue.views.why(_Name.JOB, workspace=_Name.WORKSPACE, queue=_Name.QUEUE)
    assert (why.state, why.job_id) == (JobState.WAITING, "job-1")
    (lease,) = queue.claim([_Name.QUEUE]).leases
    assert (lease.job.workspace, lease.job.task) == ("acme", "send")
    queue.reject(lease, reason=_Name.REASON)
    chosen = DeadFilter(workspace=_Name.WORKSPACE, reason=_Name.REASON, job_id=_Name.JOB)
    assert [letter.reason for letter in queue.dead.list(chosen)] == ["no"]
    queue.publish(b"", queue="mail", workspace=_Plan.SMALL)
    assert _workspaces(queue)["7"] == 1


def test_an_id_that_is_not_utf8_is_rejected(queue: FairQueue) -> None:
    """Every method that takes an id rejects what a shell passes for invalid UTF-8."""
    bad = "\udcff"
    for act in (
        lambda: queue.jobs.cancel(bad),
        lambda: queue.jobs.withdraw(bad, queue="q"),
        lambda: queue.views.why(bad),
        lambda: queue.dead.get("w", bad),
        lambda: queue.dead.replay("w", bad),
        lambda: queue.dead.get("w", bad),
    ):
        with pytest.raises(ConfigurationError, match=r"job id .* is not valid UTF-8"):
            act()


@pytest.mark.parametrize("rate", [0, -1, float("nan"), 1e-320])
def test_a_replay_must_not_be_too_slow(queue: FairQueue, rate: float) -> None:
    """A rate at which no job would ever be due is rejected."""
    with pytest.raises(ConfigurationError, match="per_second must be at least"):
        queue.dead.replay_all(DeadFilter("w"), per_second=rate)


@pytest.mark.parametrize("scope", ["acme", Scope.total, None])
def test_what_is_no_scope_is_refused(queue: FairQueue, scope: Any) -> None:
    """A bare name, or a scope that was not called, is a ConfigurationError with the remedy."""
    with pytest.raises(ConfigurationError, match=r"a scope is one of .*Scope\.total\(\)"):
        queue.limits.set(scope, concurrency=1)
    with pytest.raises(ConfigurationError, match=r"a scope is one of"):
        queue.pauses.pause(scope)
