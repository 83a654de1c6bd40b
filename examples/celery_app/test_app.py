"""Unit tests of the app, without a server."""

import os

os.environ["APP_ENV"] = "test"

import pytest
from app import app, report
from celery.contrib.testing.worker import start_worker

import fairqueue


def test_a_report_is_written():
    """Call the task and get its result, as with any broker. The worker is a thread."""
    with start_worker(app, perform_ping_check=False, shutdown_timeout=20):
        assert report.delay("May", tenant_id="ada").get(timeout=10) == "May.pdf"


def test_a_full_workspace_is_rejected():
    """The rejection can be tested, too."""
    for _ in range(1000):
        report.delay("May", tenant_id="megacorp")
    with pytest.raises(fairqueue.CapacityExceeded):
        report.delay("May", tenant_id="megacorp")
    app.control.purge()
