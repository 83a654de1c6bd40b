"""``fairqueue.current()`` where Celery runs a task in the process that calls it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

SHOP = """
import celery, fairqueue

URL = "fairqueue://127.0.0.1:1/0?workspace_from=kwarg:tenant_id"
app = celery.Celery("shop", broker=URL)


@app.task
def whoami(tenant_id=None):
    job = fairqueue.current()
    job.raise_if_lost()
    return job.workspace, job.fence, job.deliveries, job.stand_in, job.lost, job.cancelled


@app.task
def parent(tenant_id=None):
    return child.apply().get(), child.apply(kwargs={"tenant_id": "other"}).get()


@app.task
def child(tenant_id=None):
    return fairqueue.current().workspace


@app.task
def what_is_current(*_):
    return fairqueue.current()


@app.task
def task_id():
    return fairqueue.current().job_id, fairqueue.current() is fairqueue.current()
"""


def said(code: str, shop: str = SHOP) -> str:
    """What a fresh process prints, in which nothing has loaded the transport."""
    done = subprocess.run(
        [sys.executable, "-c", shop + textwrap.dedent(code)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_apply_gives_a_stand_in() -> None:
    """One object for a run, with the workspace that a publish would have, and Celery's task id.

    A task that it runs inherits its workspace, unless that names one.
    """
    code = """
    print(whoami.apply(kwargs={"tenant_id": "acme"}).get(), whoami.apply(("acme",)).get()[0])
    print(fairqueue.current())
    print(parent.apply(kwargs={'tenant_id': 'acme'}).get())
    result = task_id.apply()
    print(result.get() == (result.id, True))
    """
    expected = ["('acme', 0, 1, True, False, False) acme", "None", "('acme', 'other')", "True"]
    assert said(code).splitlines() == expected


def test_always_eager_gives_a_stand_in() -> None:
    """So it does with ``delay()``, the option ``workspace``, headers and the block around it."""
    code = """
    app.conf.task_always_eager = True
    print(child.delay(tenant_id="acme").get(), end=" ")
    print(child.apply_async(workspace="acme").get(), end=" ")
    print(child.apply_async(headers={"workspace": "acme"}).get(), end=" ")
    print(child.s().set(workspace="acme").delay().get(), end=" ")
    with fairqueue.workspace("acme"):
        print(child.delay().get(), end=" ")
    print(child.delay().get())
    """
    assert said(code) == "acme acme acme acme acme default"


def test_a_direct_call_is_no_job() -> None:
    """It is a call of a function, and so is a run of an app on another broker."""
    code = """
    print(what_is_current())
    other = celery.Celery("other", broker="memory://")
    print(other.task(what_is_current.run, name="x").apply().get())
    """
    assert said(code) == "None\nNone"


def test_a_publish_from_it_is_an_ordinary_one() -> None:
    """Its callbacks are not tried for ever: no job has ended from which they follow."""
    code = """
    app.conf.broker_transport_options = {"socket_connect_timeout": 1}
    app.conf.task_publish_retry = False
    try:
        child.apply(link=child.si(), throw=True)
    except Exception as error:
        print(type(error).__name__)
    """
    assert said(code) == "OperationalError"


def test_a_resolver_that_fails_harms_no_run() -> None:
    """The run is one of the default workspace."""
    shop = """
import celery, fairqueue

def broken(*_):
    raise ValueError("no")

app = celery.Celery("shop", broker="fairqueue://127.0.0.1:1/0")
app.conf.broker_transport_options = {"workspace_from": broken}


@app.task
def child():
    return fairqueue.current().workspace
"""
    assert said("print(child.apply().get())", shop) == "default"
