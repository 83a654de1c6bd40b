"""What fails beside the calls of jobs is logged now and then, counted, and told to operators."""

from __future__ import annotations

import logging

import pytest

from fairqueue import FairQueue, StoreUnavailable
from fairqueue._background import BackgroundLoop, failures

log = logging.getLogger("fairqueue.test")


def test_a_loop_that_fails_often_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also of a Redis that is full, where claims go on: no other line tells of that."""
    caplog.set_level(logging.INFO, log.name)
    loop = BackgroundLoop("cleaning", log)
    for _ in range(3):
        loop.will_retry(StoreUnavailable("full"))
    loop.will_retry(KeyError("a fault"))
    (record,) = caplog.records
    assert record.getMessage() == "cleaning: will try again: full"
    assert record.levelno == logging.WARNING
    assert failures() == {"cleaning": 4}


def test_a_fault_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    """An outage is none, and has no trace."""
    BackgroundLoop("cleaning", log).will_retry(KeyError("a fault"))
    BackgroundLoop("cooking", log).will_retry(StoreUnavailable("away"))
    fault, outage = caplog.records
    assert fault.getMessage() == "cleaning: will try again: 'a fault'"
    assert fault.levelno == logging.ERROR
    assert fault.exc_info is not None
    assert outage.exc_info is None


def test_operators_see_which_worker_fails_at_what(queue: FairQueue) -> None:
    """For five minutes, as long as it lives."""
    BackgroundLoop("cleaning", log).failed("the floor is %s", "wet")
    queue.claim(["q"], 1)
    (row,) = queue.views.workers()
    ((name, count, ago),) = row.failing
    assert (name, count) == ("cleaning", 1)
    assert ago < 60
    told = [each.text for each in queue.doctor.status().remarks if each.about == "workers"]
    assert any("failed 1 time at cleaning" in text for text in told)
