"""Unit tests of the app, without a server. The fixture comes with fairqueue."""

import app
import pytest


@pytest.fixture
def jobs(fairqueue_jobs):
    """What this test enqueues, in memory; the app keeps its settings."""
    return fairqueue_jobs(app.app)


def test_a_customer_is_onboarded(jobs, capsys):
    """All steps run."""
    app.onboard.delay("ada", tenant_id="acme")
    jobs.run_until_idle()
    assert "send welcome to ada" in capsys.readouterr().out


def test_a_retry_goes_on_behind_the_finished_steps(jobs, capsys, monkeypatch):
    """The mail fails at first; the customer is created once."""
    mail, fails = app.send_welcome, [True]

    def send_welcome(user):
        if fails.pop():
            raise ConnectionError
        mail(user)

    monkeypatch.setattr(app, "send_welcome", send_welcome)
    onboard = app.app.task(
        app.onboard.run, name="onboard_again", autoretry_for=(ConnectionError,),
        default_retry_delay=0, acks_late=True,
    )  # fmt: skip
    fails.insert(0, False)
    onboard.delay("ada", tenant_id="acme")
    jobs.run_until_idle()
    said = capsys.readouterr().out
    assert said.count("create customer") == said.count("assign 3 seats") == 1
    assert said.count("send welcome") == 1
