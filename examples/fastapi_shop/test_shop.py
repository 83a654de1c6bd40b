"""Tests of the shop, without a server."""

import os

os.environ["APP_ENV"] = "test"

import pytest
from celery.contrib.testing.worker import start_worker
from fastapi.testclient import TestClient
from tasks import app, report
from web import web

from fairqueue_celery import queue_of


@pytest.fixture
def client():
    """A client of the web application; what it has ordered is gone afterwards."""
    yield TestClient(web, base_url="http://localhost", client=("127.0.0.1", 50000))
    app.control.purge()


def ordered(client, org):
    return client.post(f"/orgs/{org}/reports", params={"month": "May", "seconds": 0})


def test_a_report_belongs_to_the_customer_of_the_path(client):
    """The task does not name it: the middleware does."""
    assert ordered(client, "ada").status_code == 202
    waiting = queue_of(app).admin.list_waiting(workspace="ada")
    assert [job.task for job in waiting.jobs] == [report.name]


def test_a_report_is_written(client):
    """The worker is a thread of this process."""
    with start_worker(app, perform_ping_check=False, shutdown_timeout=20):
        task = ordered(client, "ada").json()["task"]
        assert app.AsyncResult(task).get(timeout=10) == "May.pdf"


def test_a_flood_is_refused_and_others_are_not(client):
    """The hundred and first report of one customer is too many."""
    assert {ordered(client, "megacorp").status_code for _ in range(100)} == {202}
    refused = ordered(client, "megacorp")
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert ordered(client, "ada").status_code == 202


def test_the_dashboard_is_mounted(client):
    """Without a token it answers this host only."""
    assert client.get("/queues/").status_code == 200


def test_a_scaler_may_ask_how_much_there_is(client):
    """Two waiting reports are two jobs."""
    assert {ordered(client, "ada").status_code for _ in range(2)} == {202}
    assert client.get("/internal/depth").json() == {"jobs": 2}
