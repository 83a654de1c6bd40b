"""The facade: what it refuses, whose workspace it takes, and what it may be asked again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from fairqueue import (
    ConfigurationError,
    FairQueue,
    Finish,
    LeaseLost,
    Running,
    current,
    current_workspace,
    running,
    workspace,
)
from fairqueue._stores.memory import MemoryStore
from fairqueue.testing import ManualClock


@pytest.fixture
def queue(clock: ManualClock) -> Iterator[FairQueue]:
    """A queue on a store of its own."""
    with FairQueue(store=MemoryStore(clock=clock)) as queue:
        yield queue


def _workspaces(queue: FairQueue) -> dict[str, int]:
    return {w.workspace: w.waiting for w in queue.stats().workspaces}


def test_a_jobs_life(queue: FairQueue) -> None:
    """Published, claimed with its payload as it was, acked, gone."""
    job_id = queue.publish(b"\x00payload\n", queue="mail", workspace="acme", task="send")
    assert queue.depth("mail") == 1
    (lease,) = queue.claim(["mail"]).leases
    job = lease.job
    assert (job.id, job.workspace, job.queue, job.task) == (job_id, "acme", "mail", "send")
    assert job.payload == b"\x00payload\n"
    assert lease.deliveries == 1
    assert not lease.redelivered
    queue.ack(lease)
    assert queue.depth("mail") == 0
    assert queue.stats().workspaces == ()


def test_ids_differ_unless_given(queue: FairQueue) -> None:
    """Each publish is a new job; the same id is not."""
    ids = {queue.publish(b"x", queue="q") for _ in range(50)}
    assert len(ids) == 50
    assert queue.publish(b"x", queue="q", job_id="mine") == "mine"
    assert queue.publish(b"x", queue="q", job_id="mine") == "mine"
    assert queue.depth("q") == 51


@pytest.mark.parametrize("act", ["ack", "ack_early", "release", "reject"])
def test_who_lost_a_lease_is_told(queue: FairQueue, act: str) -> None:
    """Every ending of a lease that has passed raises LeaseLost, with the job and its workspace."""
    queue.publish(b"x", queue="q", workspace="acme", job_id="one")
    (lease,) = queue.claim(["q"]).leases
    queue.release(lease)
    more = {"reason": "bad"} if act == "reject" else {}
    with pytest.raises(LeaseLost) as caught:
        getattr(queue, act)(lease, **more)
    assert (caught.value.job_id, caught.value.workspace) == ("one", "acme")
    assert queue.depth("q") == 1


def test_several_endings_at_once(queue: FairQueue) -> None:
    """finish() tells which fences were lost, and only those."""
    queue.publish(b"x", queue="q")
    queue.publish(b"x", queue="q")
    first, second = queue.claim(["q"], 2).leases
    queue.release(first)
    lost = queue.finish([Finish(first.fence), Finish(second.fence, seconds=0.1)])
    assert lost == {first.fence}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"queue": ""}, "queue name must not be empty"),
        ({"queue": 7}, "queue name must be a str, not int"),
        ({"workspace": ""}, "workspace name must not be empty"),
        ({"workspace": 42}, "workspace name must be a str, not int"),
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
        ({"delay_seconds": True}, "delay_seconds must be a finite number"),
        ({"delay_seconds": None}, "delay_seconds must be a finite number"),
        ({"expires_seconds": "5"}, "expires_seconds must be a finite number of seconds, not '5'"),
        ({"expires_seconds": float("nan")}, "expires_seconds must be a finite number"),
        ({"unique_key": "k", "unique_for": [1]}, "unique_for must be a finite number"),
        ({"block_seconds": float("nan")}, "block_seconds must be a finite number"),
        ({"job_id": "\ud800"}, "the job id .* is not valid UTF-8"),
        ({"job_id": 7}, "a job id must be a str, not int"),
        ({"group": "\ud800"}, "the group .* is not valid UTF-8"),
    ],
)
def test_what_cannot_be_published_is_refused(
    queue: FairQueue, asked: dict[str, Any], said: str
) -> None:
    """A bad name or number is refused with its name, and leaves nothing."""
    with pytest.raises(ConfigurationError, match=said):
        queue.publish(b"x", **{"queue": "q", **asked})
    assert queue.stats().workspaces == ()


@pytest.mark.parametrize("queues", ["mail", [], [""], ["q", 3]])
def test_claims_name_their_queues(queue: FairQueue, queues: Any) -> None:
    """A claim of a bare string, of nothing or of no name is refused: it would wait for ever."""
    with pytest.raises(ConfigurationError, match="queue name"):
        queue.claim(queues)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"concurency": 2}, "unknown limit 'concurency'; known: .*concurrency"),
        ({"reserve": 3, "concurrency": 2}, "above its concurrency of 2"),
        ({"workspace_concurrency": 2}, "unknown limit 'workspace_concurrency'"),
        ({"parent": "x" * 201}, "'parent'"),
        ({"concurrency": -1}, "'concurrency'"),
        ({"concurrency": 1.5}, "'concurrency'"),
        ({"concurrency": "many"}, "'concurrency'"),
        ({"capacity": -1}, "'capacity'"),
        ({"weight": 0}, "'weight'"),
        ({"weight": float("nan")}, "'weight'"),
        ({"rate": 0}, "'rate'"),
        ({"burst": 2}, "burst has no meaning without rate"),
    ],
)
def test_impossible_limits_are_refused(queue: FairQueue, limits: dict[str, Any], said: str) -> None:
    """A live limit is held to the same rules as a configured one."""
    with pytest.raises(ConfigurationError, match=said):
        queue.set_limits("acme", **limits)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"capacity": 2}, "unknown limit 'capacity'; known: "),
        ({"workspace_concurrency": -1}, "'workspace_concurrency'"),
        ({"burst": 2}, "burst has no meaning without rate"),
    ],
)
def test_impossible_limits_of_a_task_are_refused(
    queue: FairQueue, limits: dict[str, Any], said: str
) -> None:
    """As those of a workspace."""
    with pytest.raises(ConfigurationError, match=said):
        queue.set_task_limits("report", **limits)


def test_live_limits_of_a_task_act_at_once(queue: FairQueue) -> None:
    """Over all workspaces, and they go away again."""
    for name in ("acme", "globex", "initech"):
        queue.publish(b"x", queue="q", workspace=name, task="report")
    queue.set_task_limits("report", concurrency=1)
    assert len(queue.claim(["q"], 5).leases) == 1
    queue.unset_task_limits("report")
    assert len(queue.claim(["q"], 5).leases) == 2


def test_live_limits_act_at_once(queue: FairQueue) -> None:
    """They hold for the backlog, keep what is not named, and go away again."""
    for _ in range(5):
        queue.publish(b"x", queue="q", workspace="acme")
    queue.set_limits("acme", concurrency=1)
    queue.set_limits("acme", weight=2.0)
    assert len(queue.claim(["q"], 5).leases) == 1
    queue.set_limits("acme", concurrency=3)
    assert len(queue.claim(["q"], 5).leases) == 2
    queue.unset_limits("acme")
    assert len(queue.claim(["q"], 5).leases) == 2


def test_whose_workspace(queue: FairQueue) -> None:
    """Named at the publish, else by the context, else by the running job, else the default."""
    job = Running("id", "parent", fence=1, deliveries=1)
    queue.publish(b"x", queue="q")
    with workspace("outer"):
        queue.publish(b"x", queue="q")
        with running(job):
            queue.publish(b"x", queue="q")
            with workspace("inner"):
                queue.publish(b"x", queue="q")
                queue.publish(b"x", queue="q", workspace="named")
    expected = ["default", "inner", "named", "outer", "parent"]
    assert _workspaces(queue) == dict.fromkeys(expected, 1)


def test_contexts_end_where_they_end() -> None:
    """Inside, the innermost counts; outside, also after an error, there is none."""
    job = Running("id", "parent", fence=7, deliveries=2)
    assert current() is None
    assert current_workspace() is None

    def body() -> None:
        with running(job) as inside:
            assert current() is inside
            assert current_workspace() == "parent"
            with workspace("other"):
                assert current_workspace() == "other"
                assert current() is inside
            raise KeyError

    with pytest.raises(KeyError):
        body()
    assert current() is None
    assert current_workspace() is None


def test_a_nested_job_hides_the_outer_one() -> None:
    """A job that runs another inside itself has its own workspace back afterwards."""
    outer = Running("1", "outer", fence=1, deliveries=1)
    inner = Running("2", "inner", fence=2, deliveries=1)
    with running(outer):
        with running(inner):
            assert current_workspace() == "inner"
        assert current_workspace() == "outer"


@pytest.mark.parametrize("name", ["", 3, None, "w" * 201])
def test_a_context_needs_a_name(name: Any) -> None:
    """What cannot be a workspace's name is refused where it is given, not at a later publish."""
    with pytest.raises(ConfigurationError, match="workspace name"), workspace(name):
        pytest.fail("it was let in")


def test_a_running_job_can_ask_whether_it_is_lost() -> None:
    """raise_if_lost raises once the lease is gone."""
    lost = False
    job = Running("id", "acme", fence=1, deliveries=1, is_lost=lambda: lost)
    job.raise_if_lost()
    lost = True
    assert job.lost
    with pytest.raises(LeaseLost):
        job.raise_if_lost()


def test_other_limits_than_are_stored_are_told(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Who connects with other limits is told that the stored ones count, unless it decides."""
    store = MemoryStore(clock=clock)
    assert FairQueue(store=store, workspace_concurrency=2).connect()
    assert not FairQueue(store=store, workspace_concurrency=3).connect()
    assert "the stored ones count" in caplog.text
    assert FairQueue(store=store, workspace_concurrency=4, authoritative=True).connect()
    assert not FairQueue(store=store, workspace_concurrency=2).connect()


def test_a_blocking_claim_ends_in_time(queue: FairQueue) -> None:
    """Where nothing comes it returns empty when its time is up."""
    since = time.monotonic()
    assert queue.claim(["q"], wait_seconds=0.15).leases == ()
    assert 0.1 < time.monotonic() - since < 2


def test_it_may_be_closed_and_used_again(redis_url: str, namespace: str) -> None:
    """close() ends connections, not the queue."""
    queue = FairQueue(redis_url, namespace=namespace)
    queue.publish(b"x", queue="q")
    queue.close()
    assert queue.depth("q") == 1
    queue.close()


def test_settings_in_the_url_and_as_arguments(redis_url: str, namespace: str) -> None:
    """Settings may stand in the query; arguments come before them."""
    url = f"{redis_url}?namespace={namespace}&workspace_concurrency=2&lease_seconds=5"
    with FairQueue(url, lease_seconds=7) as queue:
        assert queue.settings.workspace_concurrency == 2
        assert queue.settings.lease_seconds == 7
        for _ in range(5):
            queue.publish(b"x", queue="q", workspace="acme")
        assert len(queue.claim(["q"], 5).leases) == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), True, "5", None, 10**400])
def test_no_bad_number_ends_a_run(queue: FairQueue, bad: Any) -> None:
    """It is refused by name, and the job can still be given back and ended."""
    queue.publish(b"x", queue="q")
    (lease,) = queue.claim(["q"]).leases
    with pytest.raises(ConfigurationError, match=r"^delay_seconds must be"):
        queue.release(lease, delay_seconds=bad)
    with pytest.raises(ConfigurationError, match=r"^seconds must be"):
        queue.release(lease, seconds=bad)
    if bad is not None:
        with pytest.raises(ConfigurationError, match=r"^seconds must be"):
            queue.ack(lease, seconds=bad)
    queue.ack(lease, seconds=1.0)


def test_what_is_no_text_is_no_job(queue: FairQueue) -> None:
    """As a shell hands over what is no UTF-8: refused by whatever takes an id."""
    bad = "\udcff"
    for act in (
        lambda: queue.cancel(bad),
        lambda: queue.withdraw(bad, queue="q"),
        lambda: queue.why(bad),
        lambda: queue.dead_letter("w", bad),
        lambda: queue.replay("w", bad),
        lambda: queue.purge_dead("w", bad),
    ):
        with pytest.raises(ConfigurationError, match=r"job id .* is not valid UTF-8"):
            act()


@pytest.mark.parametrize("rate", [0, -1, float("nan"), 1e-320])
def test_a_replay_ends_some_day(queue: FairQueue, rate: float) -> None:
    """A pace at which nothing would ever be due is refused."""
    with pytest.raises(ConfigurationError, match="per_second must be at least"):
        queue.replay_all("w", per_second=rate)


def test_an_error_about_the_whole_names_no_setting(queue: FairQueue) -> None:
    """It begins with what is wrong."""
    with pytest.raises(ConfigurationError, match=r"^burst has no meaning without rate"):
        queue.set_limits("w", burst=5)
