"""Unit tests of the app, without a server. The fixture comes with fairqueue."""

import app
import pytest


@pytest.fixture
def jobs(fairqueue_jobs):
    """What this test enqueues, in memory; the app keeps its settings."""
    return fairqueue_jobs(app.app)


def test_each_part_runs_once(jobs, capsys):
    """One job of the workspace runs at a time, and the report waits without that place."""
    app.report.delay(["north", "south"], tenant_id="acme")
    jobs.run_until_idle()
    said = capsys.readouterr().out
    assert said.count("count the orders") == 2
    assert said.count("mail to acme: 10 orders") == 1
