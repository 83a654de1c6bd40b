"""The fixtures that fairqueue gives to pytest, in the project of a user."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

CELERY = """
import fairqueue
from celery import Celery

app = Celery("shop", broker="fairqueue://nowhere.invalid/0?workspace_from=kwarg:tenant_id")
app.conf.result_backend = "redis://nowhere.invalid/0"
done = []


@app.task
def report(month, tenant_id=None):
    done.append((tenant_id, month))
    return f"{month}.pdf"


@app.task(bind=True, max_retries=2)
def flaky(self, times, tenant_id=None):
    if self.request.retries < times:
        raise self.retry(countdown=60)
    done.append((tenant_id, self.request.retries))


@app.task
def broken(tenant_id=None):
    raise ValueError("no such month")


@app.task
def sends(tenant_id=None):
    report.delay("May")


@app.task
def whoami(month, tenant_id=None):
    job = fairqueue.current()
    return None if job is None else (job.workspace, job.stand_in, job.fence)


@app.task
def caller(tenant_id=None):
    done.append(whoami("May", tenant_id="other"))


send = report.delay
"""

DRAMATIQ = """
import fairqueue
import dramatiq
from dramatiq.brokers.redis import RedisBroker
from fairqueue_dramatiq import FairQueueMiddleware

URL = "redis://nowhere.invalid/0"
broker = RedisBroker(url=URL)
broker.add_middleware(FairQueueMiddleware(url=URL, workspace_from="kwarg:tenant_id"))
dramatiq.set_broker(broker)
app, done = broker, []


@dramatiq.actor
def report(month, tenant_id=None):
    done.append((tenant_id, month))


@dramatiq.actor(max_retries=2, min_backoff=60_000, max_backoff=60_000)
def flaky(times, tenant_id=None):
    done.append((tenant_id, len(done)))
    if len(done) <= times:
        raise RuntimeError("not yet")


@dramatiq.actor(max_retries=0)
def broken(tenant_id=None):
    raise ValueError("no such month")


@dramatiq.actor
def sends(tenant_id=None):
    report.send("May")


@dramatiq.actor
def whoami(month, tenant_id=None):
    job = fairqueue.current()
    return None if job is None else (job.workspace, job.stand_in, job.fence)


@dramatiq.actor
def caller(tenant_id=None):
    done.append(whoami("May", tenant_id="other"))


for actor in (report, flaky, broken, caller):
    actor.delay = actor.send
send = report.send
"""

PASSES = """
import pytest
from shop import app, broken, caller, done, flaky, report, send, sends, whoami

import fairqueue


@pytest.fixture
def jobs(fairqueue_jobs):
    done.clear()
    return fairqueue_jobs(app, workspace_capacity=3)


def test_what_is_enqueued(jobs):
    send("May", tenant_id="acme")
    send("June", tenant_id="globex")
    found = jobs.assert_enqueued(report, workspace="acme", args=("May",), count=1)
    assert found[0].kwargs == {"tenant_id": "acme"}
    jobs.assert_enqueued(report, kwargs={"tenant_id": "globex"})
    jobs.assert_enqueued(flaky, count=0)
    jobs.assert_enqueued(report, workspace="acme", args=("July",), count=0)


def test_each_test_begins_with_nothing(jobs):
    jobs.assert_enqueued(count=0)
    assert jobs.run_until_idle() == []


def test_the_order_is_fair(jobs):
    for month in ("May", "June", "July"):
        send(month, tenant_id="acme")
    send("May", tenant_id="globex")
    runs = jobs.run_until_idle()
    assert [run.workspace for run in runs] == ["acme", "globex", "acme", "acme"]
    assert {run.outcome for run in runs} == {"succeeded"}
    assert done == [("acme", "May"), ("globex", "May"), ("acme", "June"), ("acme", "July")]


def test_a_full_workspace_refuses(jobs):
    for _ in range(3):
        send("May", tenant_id="acme")
    with pytest.raises(fairqueue.CapacityExceeded) as refused:
        send("May", tenant_id="acme")
    assert (refused.value.workspace, refused.value.waiting) == ("acme", 3)


def test_a_retry_waits_for_its_time(jobs):
    flaky.delay(2, tenant_id="acme")
    assert [run.outcome for run in jobs.run_until_idle()] == ["retried"]
    jobs.assert_enqueued(flaky, workspace="acme", count=1)
    jobs.clock.advance(90)
    assert [run.outcome for run in jobs.run_until_idle()] == ["retried"]
    assert [run.outcome for run in jobs.run_until_idle(within_seconds=600)] == ["succeeded"]
    assert done[-1] == ("acme", 2)


def test_a_failure_is_raised_or_returned(jobs):
    broken.delay(tenant_id="acme")
    with pytest.raises(ValueError, match="no such month"):
        jobs.run_until_idle()
    broken.delay(tenant_id="acme")
    [run] = jobs.run_until_idle(propagate=False)
    assert (run.outcome, type(run.error)) == ("failed", ValueError)
    jobs.assert_enqueued(count=0)


def test_a_pause_holds(jobs):
    send("May", tenant_id="acme")
    jobs.queue.pauses.pause(fairqueue.Scope.workspace("acme"))
    assert jobs.run_until_idle(within_seconds=60) == []
    jobs.queue.pauses.resume(fairqueue.Scope.workspace("acme"))
    assert len(jobs.run_until_idle()) == 1


def test_a_direct_call_has_a_stand_in(jobs):
    assert whoami("May", tenant_id="acme") == ("acme", True, 0)
    assert whoami("May", "acme") == ("acme", True, 0)
    assert whoami("May") == ("default", True, 0)
    with fairqueue.workspace("acme"):
        assert whoami("May") == ("acme", True, 0)
    assert fairqueue.current() is None


def test_a_direct_call_in_a_job_is_part_of_it(jobs):
    caller.delay(tenant_id="acme")
    jobs.run_until_idle()
    assert done[-1][:2] == ("acme", False)


def test_what_a_direct_call_sends_belongs_to_its_workspace(jobs):
    sends(tenant_id="acme")
    jobs.assert_enqueued(report, workspace="acme", count=1)


def test_afterwards_a_direct_call_is_no_job():
    assert whoami("May", tenant_id="acme") is None


def test_limits_are_those_of_the_fixture(fairqueue_jobs):
    jobs = fairqueue_jobs(app, workspace_rate="1/m", workspace_burst=1)
    for _ in range(4):
        send("May", tenant_id="acme")
    assert len(jobs.run_until_idle()) == 1
    assert len(jobs.run_until_idle(within_seconds=70)) == 1
    assert len(jobs.run_until_idle(within_seconds=600)) == 2


def test_the_history_has_each_job_once(fairqueue_jobs):
    jobs = fairqueue_jobs(app, history=10)
    send("May", tenant_id="acme")
    jobs.run_until_idle()
    jobs.queue.history.flush()
    assert [job.outcome for job in jobs.queue.history.list()] == ["succeeded"]
"""

OF_CELERY = """
import pytest
from celery import chain, chord, group
from celery.exceptions import NotRegistered, Reject
from shop import app, whoami

import fairqueue
from fairqueue import step
from fairqueue_celery import queue_of

URL = app.conf.broker_url


@app.task
def add(x, y, tenant_id=None):
    return x + y


@app.task
def total(numbers, tenant_id=None):
    return sum(numbers)


@app.task
def parent(tenant_id=None):
    job = fairqueue.current()
    add.delay(1, 1)
    return job.workspace, job.deliveries


@app.task(acks_late=True)
def summary(tenant_id=None):
    return step.invoke("sum", add, 1, 2)


@app.task
def early(tenant_id=None):
    return step.invoke("sum", add, 1, 2)


@app.task
def refused(requeue, tenant_id=None):
    raise Reject("no", requeue=requeue)


def test_a_chain_and_a_chord(fairqueue_jobs):
    jobs = fairqueue_jobs(app, workspace_capacity=4)
    with fairqueue.workspace("acme"):
        last = chain(add.s(1, 2), add.s(4)).delay()
        body = chord(group(add.s(n, n) for n in range(3)))(total.s())
    runs = jobs.run_until_idle()
    assert {run.workspace for run in runs} == {"acme"}
    assert (last.get(), body.get()) == (7, 6)


def test_a_job_knows_its_workspace_and_hands_it_on(fairqueue_jobs):
    jobs = fairqueue_jobs(app)
    result = parent.delay(tenant_id="acme")
    assert [run.workspace for run in jobs.run_until_idle()] == ["acme", "acme"]
    assert result.get() == ("acme", 1) or result.get() == ["acme", 1]


def test_a_task_waits_for_its_child(fairqueue_jobs):
    jobs = fairqueue_jobs(app, workspace_concurrency=1, history=10)
    result = summary.delay(tenant_id="acme")
    runs = jobs.run_until_idle()
    assert [run.task.split(".")[-1] for run in runs] == ["summary", "add", "summary"]
    assert [run.outcome for run in runs] == ["rejected", "succeeded", "succeeded"]
    assert result.get() == 3
    jobs.queue.history.flush()
    assert len(jobs.queue.history.list()) == 2


def test_an_early_acked_task_cannot_wait(fairqueue_jobs):
    jobs = fairqueue_jobs(app)
    early.delay(tenant_id="acme")
    with pytest.raises(fairqueue.ConfigurationError, match="acks_late"):
        jobs.run_until_idle()


def test_a_rejected_job_is_a_dead_letter(fairqueue_jobs):
    jobs = fairqueue_jobs(app)
    refused.delay(False, tenant_id="acme")
    assert [run.outcome for run in jobs.run_until_idle()] == ["rejected"]
    assert len(jobs.queue.dead.page("acme")) == 1


def test_an_unknown_task_is_named(fairqueue_jobs):
    jobs = fairqueue_jobs(app)
    app.send_task("shop.reprot", kwargs={"tenant_id": "acme"})
    with pytest.raises(NotRegistered, match="shop.reprot"):
        jobs.run_until_idle()


def test_a_task_that_enqueues_itself_is_stopped(fairqueue_jobs, monkeypatch):
    monkeypatch.setattr("fairqueue.testing._jobs.MOST_RUNS", 5)
    jobs = fairqueue_jobs(app)
    again.delay(tenant_id="acme")
    with pytest.raises(AssertionError, match="does a task enqueue itself.*again"):
        jobs.run_until_idle()


@app.task
def again(tenant_id=None):
    again.delay(tenant_id=tenant_id)


def test_an_applied_task_has_a_stand_in(fairqueue_jobs):
    fairqueue_jobs(app)
    assert whoami.apply(("May",), {"tenant_id": "acme"}).get() == ("acme", True, 0)


def test_the_app_is_as_it_was(fairqueue_jobs):
    assert app.conf.broker_url == URL
    assert app.conf.result_backend == "redis://nowhere.invalid/0"
    assert type(app.backend).__name__ == "RedisBackend"
    assert queue_of(app).settings.workspace_capacity is None


def test_two_apps_share_the_clock(fairqueue_jobs, fairqueue_clock):
    jobs = fairqueue_jobs(app)
    assert jobs.clock is fairqueue_clock
    with pytest.raises(fairqueue.ConfigurationError, match="workspace_capacity"):
        fairqueue_jobs(app, workspace_capacit=1)
    with pytest.raises(TypeError, match="a Celery app or a Dramatiq broker, not str"):
        fairqueue_jobs("shop")
"""

OF_DRAMATIQ = """
import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AsyncIO, SkipMessage
from shop import broker

import fairqueue
from fairqueue_dramatiq import FairQueueMiddleware, queue_of

stub = StubBroker()
stub.add_middleware(AsyncIO())
stub.add_middleware(FairQueueMiddleware(workspace_from="kwarg:tenant_id", keep_failures=False))
seen = []


@dramatiq.actor(broker=stub, max_retries=0)
def broken(tenant_id=None):
    raise ValueError("no")


@dramatiq.actor(broker=stub)
def parent(tenant_id=None):
    seen.append(fairqueue.current().workspace)
    child.send()


@dramatiq.actor(broker=stub)
async def child():
    seen.append(fairqueue.current().workspace)


@dramatiq.actor(broker=stub)
def skips():
    raise SkipMessage("not now")


def test_a_skipped_job_is_rejected(fairqueue_jobs):
    jobs = fairqueue_jobs(stub, on_missing_workspace="default")
    skips.send()
    assert [run.outcome for run in jobs.run_until_idle()] == ["rejected"]


def test_a_stub_has_its_dead_letters(fairqueue_jobs):
    jobs = fairqueue_jobs(stub)
    broken.send(tenant_id="acme")
    with pytest.raises(ValueError):
        jobs.run_until_idle()
    assert [m.actor_name for m in stub.dead_letters] == ["broken"]


def test_a_job_knows_its_workspace_and_hands_it_on(fairqueue_jobs):
    jobs = fairqueue_jobs(stub)
    parent.send(tenant_id="acme")
    jobs.run_until_idle()
    assert seen == ["acme", "acme"]


@dramatiq.actor(broker=stub, workspace="clean-ups")
async def clean_up():
    return fairqueue.current().workspace


def test_a_direct_call_has_the_workspace_of_its_actor(fairqueue_jobs):
    fairqueue_jobs(stub)
    assert clean_up() == "clean-ups"


def test_the_broker_is_as_it_was(fairqueue_jobs):
    before = queue_of(stub)
    jobs = fairqueue_jobs(stub)
    assert queue_of(stub) is jobs.queue is not before
    assert queue_of(broker).settings.workspace_capacity is None


def test_a_worker_runs_after_it():
    parent.send(tenant_id="acme")
    worker = dramatiq.Worker(stub, worker_timeout=50, worker_threads=1)
    worker.start()
    stub.join("default")
    worker.join()
    worker.stop()
    assert len(seen) >= 2
"""

FAILS = """
import pytest
from shop import app, report, send


@pytest.fixture
def jobs(fairqueue_jobs):
    return fairqueue_jobs(app)


def test_another_workspace(jobs):
    send("May", tenant_id="globex")
    send("May", tenant_id="globex")
    send("June", tenant_id="globex")
    jobs.assert_enqueued(report, workspace="acme", args=("May",))


def test_nothing(jobs):
    jobs.assert_enqueued(report)


def test_a_number(jobs):
    send("May", tenant_id="globex")
    jobs.assert_enqueued(workspace="globex", count=2)
"""

NONE = """
import sys


def test_nothing_is_loaded():
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert "fairqueue_pytest" in loaded
    assert not loaded & {"fairqueue", "celery", "dramatiq", "kombu", "redis", "lupa", "pydantic"}
"""


INI = """
[pytest]
filterwarnings =
    error
    ignore:.*cannot be rewritten; _editable_impl_fairqueue:pytest.PytestAssertRewriteWarning
"""


@dataclass
class Project:
    """A user's project, whose tests run as the user would run them."""

    path: Path

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.path / f"{name}.py").write_text(text)

    def test(self, *options: str) -> tuple[int, str]:
        (self.path / "pytest.ini").write_text(INI)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey",
             *options],
            cwd=self.path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize("shop", [CELERY, DRAMATIQ], ids=["celery", "dramatiq"])
def test_the_tests_of_a_project_pass(project: Project, shop: str) -> None:
    """Its app names servers that do not exist; each test has its own jobs and its own limits."""
    project.write(shop=shop, test_shop=PASSES)
    code, output = project.test()
    assert code == 0, output


@pytest.mark.parametrize(
    ("shop", "tests"),
    [(CELERY, OF_CELERY), (DRAMATIQ, OF_DRAMATIQ)],
    ids=["celery", "dramatiq"],
)
def test_what_a_framework_has_of_its_own_works(project: Project, shop: str, tests: str) -> None:
    """Canvas, dead letters, async actors; afterwards the app is as it was."""
    project.write(shop=shop, test_shop=tests)
    code, output = project.test()
    assert code == 0, output


@pytest.mark.parametrize(
    ("shop", "name"), [(CELERY, "shop.report"), (DRAMATIQ, "report")], ids=["celery", "dramatiq"]
)
def test_a_failure_lists_what_is_enqueued(project: Project, shop: str, name: str) -> None:
    """The user sees which workspace the jobs went to, at the line of the test."""
    project.write(shop=shop, test_shop=FAILS)
    code, output = project.test()
    queue = "celery" if shop is CELERY else "default"
    assert code == 1, output
    for line in textwrap.dedent(f"""\
        AssertionError: expected at least one job of {name}, workspace 'acme', args ('May',) to be enqueued, found 0
        3 jobs enqueued in all:
          2 × {name}('May', tenant_id='globex'), workspace 'globex', queue '{queue}'
          1 × {name}('June', tenant_id='globex'), workspace 'globex', queue '{queue}'
        AssertionError: expected at least one job of {name} to be enqueued, found 0
        nothing is enqueued
        AssertionError: expected 2 jobs, workspace 'globex' to be enqueued, found 1
        1 job enqueued in all:
    """).splitlines():  # noqa: E501 - as it is shown
        assert line in output
    assert "_jobs.py" not in output


def test_a_suite_without_the_fixtures_loads_nothing(project: Project) -> None:
    """The plugin is loaded everywhere: it imports neither the core nor a framework."""
    project.write(test_other=NONE)
    code, output = project.test("-p", "no:hypothesispytest", "-p", "no:xdist")
    assert code == 0, output
