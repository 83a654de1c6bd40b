"""Unit tests of the app, without a server. The fixture comes with fairqueue."""

import pytest
from app import app, report

import fairqueue


@pytest.fixture
def jobs(fairqueue_jobs):
    """What this test enqueues, in memory; the app keeps its settings."""
    return fairqueue_jobs(app)


def test_a_report_is_ordered_for_its_customer(jobs):
    """Ask what is enqueued, and for which workspace."""
    report.delay("May", tenant_id="ada")
    jobs.assert_enqueued(report, workspace="ada", args=("May",), count=1)


def test_a_report_is_written(jobs):
    """Call the task, run what is enqueued, and get its result."""
    result = report.delay("May", tenant_id="ada")
    jobs.run_until_idle()
    assert result.get(timeout=10) == "May.pdf"


def test_a_customer_sees_the_status_of_a_report(jobs):
    """By the task's own id; another customer does not."""
    result = report.delay("May", tenant_id="ada")
    assert jobs.queue.job(result.id, workspace="ada").state == "waiting"
    assert jobs.queue.job(result.id, workspace="eve") is None


def test_a_full_workspace_is_rejected(jobs):
    """The rejection can be tested, too."""
    for _ in range(1000):
        report.delay("May", tenant_id="megacorp")
    with pytest.raises(fairqueue.CapacityExceeded):
        report.delay("May", tenant_id="megacorp")
    jobs.assert_enqueued(report, workspace="megacorp", count=1000)
