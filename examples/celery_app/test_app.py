"""Unit tests of the app, without any server."""

import os

os.environ["APP_ENV"] = "test"

import pytest
from app import app, report
from celery.contrib.testing.worker import start_worker

import fairqueue


def test_a_report_is_written():
    """As with any broker: call, and get the result; the worker is a thread of this process."""
    with start_worker(app, perform_ping_check=False, shutdown_timeout=20):
        assert report.delay("May", tenant_id="ada").get(timeout=10) == "May.pdf"


def test_a_full_tenant_is_told():
    """The refusal can be tested, too."""
    for _ in range(1000):
        report.delay("May", tenant_id="megacorp")
    with pytest.raises(fairqueue.CapacityExceeded):
        report.delay("May", tenant_id="megacorp")
    app.control.purge()
