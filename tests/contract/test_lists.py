"""The lists of what runs, waits and is paused, and of queues, tasks and workers."""

from __future__ import annotations

import os
from json import dumps

import pytest

from fairqueue import Limits, Pause
from fairqueue.errors import ConfigurationError
from fairqueue.messages import arguments_of
from fairqueue.operate import Operators
from fairqueue.rows import RunningJob, WaitingJob
from tests.contract.world import Worker, World

BAD_NAME = "a b/c#d~:{1}"


def _ids(jobs: tuple[WaitingJob, ...] | tuple[RunningJob, ...]) -> list[str]:
    return [job.job_id for job in jobs]


def _all_waiting(admin: Operators, n: int = 3, **where: str | float) -> list[str]:
    """Read page by page."""
    page = admin.views.waiting(n=n, **where)  # type: ignore[arg-type]
    found = _ids(page.jobs)
    while page.cursor:
        page = admin.views.waiting(n=n, cursor=page.cursor, **where)  # type: ignore[arg-type]
        found += _ids(page.jobs)
    return found


def test_a_running_job_has_its_lease(world: World, admin: Operators) -> None:
    """Which worker runs it, since when, how often it was delivered, and how long its lease is."""
    world.publish(BAD_NAME, "x y", queue=BAD_NAME, task=BAD_NAME, priority=3)
    worker = world.worker("host:1:ab")
    worker.release(worker.take_one(BAD_NAME), counted=True)
    lease = worker.take_one(BAD_NAME)
    world.clock.advance(4)
    (job,) = admin.views.running().jobs
    where = (job.job_id, job.workspace, job.queue, job.task, job.priority)
    assert where == ("x y", BAD_NAME, BAD_NAME, BAD_NAME, 3)
    assert (job.worker, job.owner, job.fence) == ("host:1:ab", "host:1:ab", lease.fence)
    assert (job.seconds, job.lease_seconds_left) == pytest.approx((4, 26), abs=0.01)
    assert (job.deliveries, job.acked_early, job.cancelled) == (2, False, False)
    assert job.since == pytest.approx(world.clock() - 4, abs=0.01)
    world.jobs.cancel("x y", queue=BAD_NAME)
    assert [each.cancelled for each in admin.views.running().jobs] == [True]


def test_running_jobs_are_chosen(world: World, admin: Operators) -> None:
    """By workspace, queue, task and worker, all together, and by how long they run."""
    for workspace, queue, task in [("a", "q", "t"), ("a", "r", "u"), ("b", "q", "u")]:
        world.publish(workspace, f"{workspace}-{queue}-{task}", queue=queue, task=task)
    world.worker("one").take(2)
    world.store.heartbeat("two", "celery@two", "")
    world.clock.advance(10)
    world.worker("two").take(1, "r")

    def found(**where: str | float) -> list[str]:
        return sorted(_ids(admin.views.running(**where).jobs))  # type: ignore[arg-type]

    assert found() == ["a-q-t", "a-r-u", "b-q-u"]
    assert found(workspace="a") == ["a-q-t", "a-r-u"]
    assert found(queue="q") == ["a-q-t", "b-q-u"]
    assert found(task="u") == ["a-r-u", "b-q-u"]
    assert found(workspace="a", task="u") == found(workspace="a", queue="r") == ["a-r-u"]
    assert found(queue="q", task="u") == ["b-q-u"]
    assert found(worker="celery@two") == found(worker="two") == ["a-r-u"]
    assert found(longer_than=5) == ["a-q-t", "b-q-u"]
    assert found(task="unknown") == found(workspace="c") == []
    with pytest.raises(ConfigurationError, match="workspace name must not be empty"):
        found(workspace="")


def test_the_longest_running_jobs_come_first(world: World, admin: Operators) -> None:
    """Only as many as were asked for; the others that match are counted."""
    worker, kept = world.worker(), []
    for n in range(40):
        world.publish_many(10, f"w{n % 2}")
        kept += worker.take(10)
        world.clock.advance(0.5)
    by_age = [lease.job.id for lease in kept]
    found = admin.views.running(n=7)
    assert (_ids(found.jobs), found.total) == (by_age[:7], 400)
    mine = [lease.job.id for lease in kept if lease.job.workspace == "w1"]
    found = admin.views.running(n=3, workspace="w1")
    assert (_ids(found.jobs), found.total) == (mine[:3], 200)
    found = admin.views.running(n=2, task="t", longer_than=10.1)
    assert (_ids(found.jobs), found.total) == (by_age[:2], 200)


def test_a_waiting_job_is_told_from_a_scheduled_one(world: World, admin: Operators) -> None:
    """Each has when it was published, when it is due, and when it expires; no running one comes."""
    world.publish("a", "runs")
    world.worker().take_one()
    world.publish("a", "waits", expires_seconds=50)
    world.publish("a", "later", delay_seconds=60)
    world.clock.advance(5)
    for where in ({"workspace": "a"}, {"queue": "q"}, {}):
        page = admin.views.waiting(**where)  # type: ignore[arg-type]
        jobs = {job.job_id: job for job in page.jobs}
        assert set(jobs) == {"waits", "later"}
        assert jobs["waits"].due is None
        assert jobs["later"].due == pytest.approx(world.clock() + 55, abs=0.01)
        assert jobs["waits"].expires == pytest.approx(world.clock() + 45, abs=0.01)
        assert jobs["later"].expires is None
        assert [job.seconds for job in page.jobs] == pytest.approx([5, 5], abs=0.01)


def test_jobs_of_a_workspace_come_in_their_order(world: World, admin: Operators) -> None:
    """First those that came back, then by priority, then scheduled ones; holes are passed."""
    kept = [world.publish(priority=priority) for priority in (10, 9, 0, 0, 0)]
    later = world.publish(delay_seconds=9)
    worker = world.worker()
    first = worker.take_one()
    world.jobs.cancel(kept[3])
    worker.release(first)
    in_order = [kept[2], kept[4], kept[1], kept[0], later]
    for n in (1, 2, 3, 100):
        assert _all_waiting(admin, n, workspace="a") == in_order
    assert _all_waiting(admin, 2, workspace="a", queue="other") == []


def test_jobs_of_one_id_are_all_listed(world: World, admin: Operators) -> None:
    """A job is known by its workspace, its queue and its id."""
    for workspace in "ab":
        for queue in "qr":
            world.publish(workspace, "same", queue=queue)
    assert len(admin.views.waiting().jobs) == 4
    assert len(admin.views.waiting(workspace="a").jobs) == 2
    world.worker().take(4, "q", "r")
    assert len(admin.views.running().jobs) == 4


def test_a_page_goes_on_behind_the_last(world: World, admin: Operators) -> None:
    """Over the lanes of all queues and of tasks with limits, and over many jobs."""
    world.limit_task("u", concurrency=1)
    for queue in ("~q", BAD_NAME, "q"):
        world.publish_many(150, queue=queue)
        world.publish_many(3, queue=queue, task="u")
    world.publish(delay_seconds=5, queue="~q")
    for n in (7, 100, 1000):
        found = _all_waiting(admin, n, workspace="a")
        assert len(found) == len(set(found)) == 460
        assert sorted(found) == sorted(_all_waiting(admin, n))
    assert len(_all_waiting(admin, queue="q")) == 153
    assert len(_all_waiting(admin, task="u")) == len(_all_waiting(admin, task="u", workspace="a"))
    assert len(_all_waiting(admin, task="u")) == 9
    assert _all_waiting(admin, longer_than=1) == []


@pytest.mark.parametrize("cursor", ["x", "q:", "q:x", ":"])
def test_an_unknown_cursor_is_refused(world: World, admin: Operators, cursor: str) -> None:
    """It says so, instead of listing something else."""
    world.publish()
    with pytest.raises(ConfigurationError, match="not a cursor of this list"):
        admin.views.waiting(cursor=cursor)


def test_a_queue_has_its_numbers(world: World, admin: Operators) -> None:
    """Jobs, limits, a pause, which flows are in line, and when a job started last."""
    world.publish_many(3)
    world.publish("b")
    world.publish(queue=BAD_NAME, delay_seconds=5)
    world.worker().take_one()
    world.store.set_limits("queue", "q", Limits(concurrency=4, capacity=9))
    world.store.pause("queue", BAD_NAME, Pause.DRAINING)
    odd, usual = admin.views.queues()
    assert (usual.queue, usual.waiting, usual.running, usual.runnable) == ("q", 3, 1, 2)
    assert (usual.concurrency, usual.capacity, usual.pause) == (4, 9, None)
    assert usual.last_start == pytest.approx(world.clock(), abs=0.01)
    assert (odd.queue, odd.waiting, odd.pause) == (BAD_NAME, 1, Pause.DRAINING)
    assert odd.last_start is None


def test_a_task_has_its_numbers(world: World, worker: Worker, admin: Operators) -> None:
    """Its average duration, its limits, a pause, and how many of its jobs run."""
    for task in (BAD_NAME, "t", ""):
        world.publish_many(2, task=task)
    for lease in worker.take(2):
        worker.finish(lease, 3.0) if lease.job.id == "j0" else None
    world.clock.advance(5)
    world.limit_task("t", workspace_concurrency=2, rate=0.5, burst=4, workspace_rate=0.25)
    world.store.pause("task", "t", Pause.DRAINING)
    world.store.pause("task", "idle", Pause.PAUSED)
    rows = {row.task: row for row in admin.views.tasks()}
    assert set(rows) == {BAD_NAME, "t", "", "idle"}
    assert rows[BAD_NAME].running == 1
    row = rows["t"]
    assert (row.concurrency, row.workspace_concurrency, row.rate, row.burst) == (None, 2, 0.5, 4)
    assert (row.workspace_rate, row.workspace_burst) == (0.25, None)
    assert (row.pause, rows["idle"].pause, rows[""].pause) == (Pause.DRAINING, Pause.PAUSED, None)
    assert row.average_seconds is None


def test_a_worker_is_known_by_its_node(world: World, admin: Operators) -> None:
    """It gives its name and versions once; one that never did is known by its leases."""
    world.store.heartbeat("host:1:ab", "celery@host 1", "fairqueue/1 celery/5")
    world.clock.advance(20)
    world.publish_many(3)
    world.worker("host:1:ab").take(2)
    old = world.worker("host:2:cd")
    old.renew(old.take_one())
    world.clock.advance(5)
    first, second = admin.views.workers()
    assert (first.worker, first.owner) == ("celery@host 1", "host:1:ab")
    assert (first.software, first.running) == ("fairqueue/1 celery/5", 2)
    assert (second.worker, second.software, second.running) == ("host:2:cd", "", 1)
    silent = [first.silent_seconds, second.silent_seconds]
    assert silent == pytest.approx([5, 5], abs=0.01)
    assert first.last_seen == pytest.approx(world.clock() - 5, abs=0.01)
    jobs = admin.views.running(worker="celery@host 1").jobs
    assert [job.worker for job in jobs] == [first.worker] * 2


def test_a_worker_says_which_queues_it_takes(world: World, admin: Operators) -> None:
    """And how many jobs it can run at once; one of an older release says neither."""
    world.store.heartbeat("one", "celery@1", "", queues=["mail", BAD_NAME], slots=4)
    world.store.heartbeat("two", "celery@2", "", queues=["mail"])
    world.store.heartbeat("two", "celery@2", "", queues=[], slots=2)
    world.store.heartbeat("three", "celery@3", "", queues=["mail"])
    world.store.heartbeat("three", "celery@3", "")
    found = [(row.slots, row.queues, row.more_queues) for row in admin.views.workers()]
    assert found == [(4, ("mail", BAD_NAME), 0), (2, (), 0), (None, None, 0)]


def test_the_queues_of_a_worker_are_bounded(world: World, admin: Operators) -> None:
    """4,000 bytes of them are kept; others are only counted. They go with their worker."""
    world.store.heartbeat("one", "", "", queues=[f"{n:03}-".ljust(100, "x") for n in range(100)])
    (row,) = admin.views.workers()
    assert (len(row.queues or ()), row.more_queues) == (39, 61)
    world.clock.advance(86_500)
    world.store.heartbeat("two", "", "", queues=["q"])
    world.pass_time(900)
    key = world.store.engine.keys.key("workers")
    assert world.store.engine.command("HKEYS", key) == [b"two"]


def test_a_worker_that_has_stopped_is_not_alive(world: World, admin: Operators) -> None:
    """At once, also if leases of it have not ended; until it introduces itself again."""
    for _ in range(2):
        world.store.heartbeat("one", "celery@1", "", queues=["q"], slots=4, lease_seconds=30)
        world.publish()
        world.worker("one").take_one()
        (row,) = admin.views.workers()
        assert (row.is_alive, row.running > 0) == (True, True)
        assert admin.views.demand()["q"].worker_slots == 4
        world.store.heartbeat("one", "celery@1", "", queues=["q"], slots=4, lease_seconds=0)
        assert admin.views.workers() == []
        assert admin.views.demand()["q"].worker_slots == 0
        (row,) = admin.views.workers(gone=True)
        assert (row.queues, row.lease_seconds) == (("q",), 0)


def test_a_worker_is_silent_after_two_leases(world: World, admin: Operators) -> None:
    """Whether or not its leases were taken back; one without leases gives signs more often."""
    world.store.heartbeat("busy", "", "", queues=["q"], lease_seconds=300)
    world.store.heartbeat("idle", "", "", queues=["q"], lease_seconds=300)
    world.store.heartbeat("short", "", "", queues=["q"], lease_seconds=5)
    world.publish()
    world.worker("busy").take_one()
    seen = []
    for seconds in (9, 2, 48, 2, 538, 2):  # 9, 11, 59, 61, 599, 601
        world.clock.advance(seconds)
        seen.append([row.owner for row in admin.views.workers()])
    assert seen == [["busy", "idle", "short"], *[["busy", "idle"]] * 2, *[["busy"]] * 2, []]


def test_a_worker_that_is_gone_is_listed_for_a_day(world: World, admin: Operators) -> None:
    """Only where that is asked for; after a day the rebuild takes it away."""
    world.store.heartbeat("old", "celery@old", "")
    world.clock.advance(59)
    assert [row.worker for row in admin.views.workers()] == ["celery@old"]
    world.clock.advance(2)
    world.store.heartbeat("new", "celery@new", "")
    assert [row.worker for row in admin.views.workers()] == ["celery@new"]
    assert [row.worker for row in admin.views.workers(gone=True)] == ["celery@new", "celery@old"]
    world.clock.advance(86_400)
    world.store.heartbeat("new", "celery@new", "")
    world.pass_time(900)
    assert [row.worker for row in admin.views.workers(gone=True)] == ["celery@new"]


def test_a_pause_says_since_when_and_how_many_wait(world: World, admin: Operators) -> None:
    """The longest comes first; jobs of a task and of all are not counted."""
    world.publish_many(2, BAD_NAME)
    world.publish(BAD_NAME, delay_seconds=9)
    world.store.pause("workspace", BAD_NAME, Pause.PAUSED)
    world.clock.advance(7)
    world.store.pause("queue", "q", Pause.DRAINING)
    world.store.pause("task", "t", Pause.PAUSED)
    world.store.pause("total", "", Pause.PAUSED)
    rows = admin.pauses.list()
    assert [(r.scope, r.name, r.state, r.waiting) for r in rows] == [
        ("workspace", BAD_NAME, Pause.PAUSED, 3),
        ("queue", "q", Pause.DRAINING, 3),
        ("task", "t", Pause.PAUSED, None),
        ("total", "", Pause.PAUSED, None),
    ]
    assert [r.seconds for r in rows] == pytest.approx([7, 0, 0, 0], abs=0.01)
    assert all((row.stored_by or "").endswith(f":{os.getpid()}") for row in rows)


def test_an_overview_of_few_workspaces_is_complete(world: World, admin: Operators) -> None:
    """It has all of them, those with the most waiting jobs first, unless a number is given."""
    world.configure(enforced=False)
    for n in range(1, 4):
        world.publish_many(n, f"w{n}")
    world.store.pause("workspace", "w1", Pause.PAUSED)
    world.worker().take(2)
    found = admin.views.overview()
    assert [row.workspace for row in found.workspaces] == ["w3", "w2", "w1"]
    assert [row.pause for row in found.workspaces] == [None, None, Pause.PAUSED]
    assert (found.is_complete, found.known_workspaces, found.observing) == (True, 3, True)
    assert (found.running, found.queued) == (2, 4)
    assert [row.queue for row in found.queues] == ["q"]
    assert [row.name for row in found.pauses] == ["w1"]
    first = admin.views.overview(top=1)
    assert ([row.workspace for row in first.workspaces], first.is_complete) == (["w3"], False)
    (row,) = admin.views.overview(workspaces=["w2"]).workspaces
    assert (row.workspace, row.waiting + row.running) == ("w2", 2)


def test_an_overview_of_many_workspaces_has_the_busiest(
    world: World, admin: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are found by a sample of the jobs, and those that are paused come with them."""
    monkeypatch.setattr("fairqueue.operate.views.ALL_UP_TO", 20)
    for n in range(60):
        world.publish_many(2, f"w{n}")
    world.publish("idle")
    world.publish_many(200, "big")
    world.publish_many(100, "large")
    world.store.pause("workspace", "idle", Pause.PAUSED)
    found = admin.views.overview(top=2)
    assert [row.workspace for row in found.workspaces] == ["big", "large"]
    assert (found.is_complete, found.known_workspaces, found.queued) == (False, 63, 421)
    assert "idle" in {row.workspace for row in admin.views.overview().workspaces}
    assert len(admin.views.overview(everything=True).workspaces) == 63


def test_lists_have_the_frameworks_id_and_the_first_arguments(
    world: World, worker: Worker, admin: Operators
) -> None:
    """Of small messages: without secrets, and cut; a job's status has its starts that are over."""
    message = {"message_id": "m1", "args": [7, "x" * 99], "kwargs": {"password": "hunter2"}}
    world.publish("a", "j1", payload=dumps(message).encode())
    world.publish("a", "large", payload=dumps(message | {"args": ["y" * 20_000]}).encode())
    waiting = {job.job_id: job for job in admin.views.waiting().jobs}
    assert (waiting["j1"].task_id, waiting["j1"].arguments[:6]) == ("m1", '7, "xx')
    assert len(waiting["j1"].arguments) == 61
    assert (waiting["large"].task_id, waiting["large"].arguments) == ("", "")
    lease = next(each for each in worker.take(2) if each.job.id == "j1")
    assert {job.task_id for job in admin.views.running().jobs} == {""}
    asked = {job.job_id: job.task_id for job in admin.views.running(arguments=True).jobs}
    assert asked == {"j1": "m1", "large": ""}
    worker.release(lease, counted=True)
    status = admin.views.why("j1").job
    assert status is not None
    assert [start.outcome for start in status.starts] == ["returned"]
    lease = worker.take_one()
    worker.reject(lease, "bad")
    (letter,) = admin.dead.list(payloads=True)
    assert arguments_of(letter.job.payload).task_id == "m1"
    assert next(admin.dead.list()).job.payload == b""
