"""Unit tests of the app, without a server."""

import os

os.environ["APP_ENV"] = "test"

import pytest
from app import broker, report, written
from dramatiq import Worker

import fairqueue


@pytest.fixture
def worker():
    """A worker in this process."""
    worker = Worker(broker, worker_timeout=100, worker_threads=2)
    worker.start()
    yield worker
    worker.stop()
    broker.flush_all()


def test_a_report_is_written(worker):
    """Send and join, as with any StubBroker."""
    report.send("May", tenant_id="ada")
    broker.join(report.queue_name)
    worker.join()
    assert written == [("ada", "May")]


def test_a_full_workspace_is_rejected():
    """The rejection can be tested, too."""
    for _ in range(1000):
        report.send("May", tenant_id="megacorp")
    with pytest.raises(fairqueue.CapacityExceeded):
        report.send("May", tenant_id="megacorp")
    broker.flush_all()
