"""Tests of the shop, without a server. The fixture comes with fairqueue."""

import pytest
from fastapi.testclient import TestClient
from tasks import app, report
from web import make_web

from fairqueue_celery import schedules_of

TOKEN = "a token for this test"


@pytest.fixture
def jobs(fairqueue_jobs):
    """What this test orders, in memory; the shop keeps its settings."""
    return fairqueue_jobs(app)


@pytest.fixture
def client(jobs):
    """A client of the web application."""
    return TestClient(make_web(jobs.queue, TOKEN))


def ordered(client, org):
    return client.post(f"/orgs/{org}/reports", params={"month": "May", "seconds": 0})


def test_a_report_belongs_to_the_customer_of_the_path(client, jobs):
    """The task does not name it: the middleware does."""
    assert ordered(client, "ada").status_code == 202
    jobs.assert_enqueued(report, workspace="ada", args=("May",), count=1)


def test_a_report_is_written(client, jobs):
    """Run what was ordered, and get its result."""
    task = ordered(client, "ada").json()["task"]
    jobs.run_until_idle()
    assert app.AsyncResult(task).get() == "May.pdf"


def test_a_customer_sees_how_far_a_report_is(client, jobs):
    """And no other customer does."""
    task = ordered(client, "ada").json()["task"]
    assert client.get(f"/orgs/ada/reports/{task}").json()["state"] == "waiting"
    assert client.get(f"/orgs/eve/reports/{task}").status_code == 404
    jobs.run_until_idle()
    assert client.get(f"/orgs/ada/reports/{task}").json()["state"] == "ended"
    assert '"state": "ended"' in client.get(f"/orgs/ada/reports/{task}/events").text


def test_a_flood_is_refused_and_others_are_not(client, jobs):
    """The hundred and first report of one customer is too many; another's is the second to run."""
    assert {ordered(client, "megacorp").status_code for _ in range(100)} == {202}
    refused = ordered(client, "megacorp")
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert ordered(client, "ada").status_code == 202
    assert [run.workspace for run in jobs.run_until_idle()][:2] == ["megacorp", "ada"]


def test_the_dashboard_asks_for_the_token(client, jobs):
    """And without one there is no dashboard."""
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/queues/").status_code == 401
    assert client.get("/queues/", headers=bearer).status_code == 200
    assert TestClient(make_web(jobs.queue)).get("/queues/").status_code == 404


def test_a_report_each_night(client):
    """It is stored for the customer of the path, and put once."""
    night = "/orgs/ada/nightly?hour=2&tz=Europe/Berlin"
    assert [client.put(night).json() for _ in range(2)] == [{"changed": True}, {"changed": False}]
    row = schedules_of(app).get("nightly", workspace="ada")
    assert (row.schedule, row.tz, row.task) == ("0 2 * * *", "Europe/Berlin", "tasks.report")
    assert client.delete("/orgs/ada/nightly").json() == {"removed": True}
