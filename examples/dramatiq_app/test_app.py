"""Unit tests of the app, without a server. The fixture comes with fairqueue."""

import pytest
from app import broker, report, written

import fairqueue


@pytest.fixture
def jobs(fairqueue_jobs):
    """What this test enqueues, in memory; the middleware keeps its settings."""
    return fairqueue_jobs(broker)


def test_a_report_is_written(jobs):
    """Send it, and run what is enqueued."""
    report.send("May", tenant_id="ada")
    jobs.assert_enqueued(report, workspace="ada", count=1)
    jobs.run_until_idle()
    assert written == [("ada", "May")]


def test_a_customer_sees_the_status_of_a_report(jobs):
    """By the message's own id; another customer does not."""
    message = report.send("May", tenant_id="ada")
    assert jobs.queue.job(message.message_id, workspace="ada").state == "waiting"
    assert jobs.queue.job(message.message_id, workspace="eve") is None


def test_a_full_workspace_is_rejected(jobs):
    """The rejection can be tested, too."""
    for _ in range(1000):
        report.send("May", tenant_id="megacorp")
    with pytest.raises(fairqueue.CapacityExceeded):
        report.send("May", tenant_id="megacorp")
    jobs.assert_enqueued(report, workspace="megacorp", count=1000)
