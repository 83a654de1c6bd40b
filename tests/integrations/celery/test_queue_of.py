"""``queue_of``: the queue behind a Celery app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery

from fairqueue import ConfigurationError, JobState, Scope
from fairqueue_celery import CapacityExceeded, queue_of
from tests.celery_state import kept


@pytest.fixture(params=["memory", "redis"])
def app(request: pytest.FixtureRequest, namespace: str) -> Iterator[Celery]:
    """An app with limits in its options, on each broker."""
    url = f"fairqueue+memory://{namespace}"
    if request.param == "redis":
        path = request.getfixturevalue("redis_server").url.removeprefix("unix://")
        url = f"fairqueue+socket://{path}?namespace={namespace}"
    limits = {"workspace_concurrency": 2, "workspaces": {"acme": {"weight": 3}}}
    with kept():
        app = Celery("reached", broker=url, set_as_current=False)
        app.conf.broker_transport_options = limits
        yield app
        queue_of(app).close()
        app.close()


def test_it_has_the_app_s_settings_and_jobs(app: Celery) -> None:
    """Limits, pauses and cancels there act on what the app publishes."""
    queue = queue_of(app)
    for _ in range(2):
        app.send_task("work", headers={"workspace": "acme"})
    found = queue.views.why(workspace="acme")
    assert (found.state, found.waiting) == (JobState.WAITING, 2)
    limits = {
        name: limit.value for name, limit in queue.limits.get(Scope.workspace("acme")).items()
    }
    assert limits == {"concurrency": 2, "weight": 3.0}
    queue.pauses.pause(Scope.workspace("acme"))
    assert queue.views.why(workspace="acme").blockers[0].kind == "pause"
    queue.limits.set(Scope.workspace("acme"), capacity=2)
    with pytest.raises(CapacityExceeded):
        app.send_task("work", headers={"workspace": "acme"})
    assert queue.jobs.cancel_workspace("acme").removed == 2
    queue.pauses.resume(Scope.workspace("acme"))
    queue.limits.unset(Scope.workspace("acme"))


def test_an_app_on_another_broker_is_refused() -> None:
    """The error says what to set."""
    with kept():
        app = Celery("elsewhere", broker="memory://", set_as_current=False)
        with pytest.raises(ConfigurationError, match="broker_url"):
            queue_of(app)
        app.close()
