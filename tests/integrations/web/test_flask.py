"""The Flask extension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flask
import pytest

from fairqueue import CapacityExceeded, FairQueue
from fairqueue.adapters import current_workspace
from fairqueue_web.flask import FairQueueFlask


def application(**options: Any) -> flask.Flask:
    """An application with the extension."""
    app = flask.Flask(__name__)
    FairQueueFlask(app, **{"workspace_from": "header:X-Org", **options})

    @app.get("/whose")
    def whose() -> str:
        return str(current_workspace())

    @app.get("/whose-async")
    async def whose_async() -> str:
        return str(current_workspace())

    @app.get("/stream")
    def stream() -> flask.Response:
        def body() -> Iterator[str]:
            for _ in range(2):
                yield f"{current_workspace()} "

        return flask.Response(flask.stream_with_context(body()))

    return app


def get(app: flask.Flask, path: str = "/whose", workspace: str | None = "acme") -> Any:
    """One request; its response is read and closed, as by a server."""
    headers = {} if workspace is None else {"X-Org": workspace}
    return app.test_client().get(path, headers=headers, buffered=True)


@pytest.mark.parametrize("path", ["/whose", "/whose-async"])
def test_views_run_in_the_workspace_of_their_request(path: str) -> None:
    """Both kinds; where the request names none, as without the extension."""
    app = application()
    assert get(app, path).text == "acme"
    assert get(app, path, None).text == "None"
    assert current_workspace() is None


def test_a_body_is_streamed_in_the_workspace(queue: FairQueue) -> None:
    """With the request's context or without; the place is taken until it is closed."""
    app = application(queue=queue)
    app.get("/plain")(lambda: (str(current_workspace()) for _ in range(2)))
    assert get(app, "/plain").text == "acmeacme"
    with app.test_client().get("/stream", headers={"X-Org": "acme"}) as response:
        assert queue.requests.in_flight("acme") == (1, 1, 0)
        assert response.get_data(as_text=True) == "acme acme "
    assert queue.requests.in_flight("acme") == (0, 0, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_the_place_is_free_where_another_function_drops_the_body(
    queue: FairQueue, *, fails: bool
) -> None:
    """One that was registered before the extension's runs after it: it replaces it, or raises."""
    app = flask.Flask(__name__)

    @app.after_request
    def replace(response: flask.Response) -> flask.Response:
        if response.is_streamed and fails:
            raise ValueError
        if response.is_streamed:
            response.response = iter(["another body"])
        return response

    FairQueueFlask(app, workspace_from="header:X-Org", queue=queue)
    app.get("/stream")(lambda: (str(current_workspace()) for _ in range(2)))
    answer = get(app, "/stream")
    assert (answer.status_code, answer.text == "another body") == (500 if fails else 200, not fails)
    assert queue.requests.in_flight("acme") == (0, 0, 0)


def test_a_function_may_use_the_context_of_the_request() -> None:
    """Such as flask.g, which an authentication sets before."""
    app = flask.Flask(__name__)
    app.before_request(lambda: setattr(flask.g, "org", 42))
    FairQueueFlask(workspace_from=lambda request: flask.g.org).init_app(app)
    app.get("/whose")(lambda: str(current_workspace()))
    assert get(app).text == "42"


def test_rejections_are_answered(queue: FairQueue, full: CapacityExceeded) -> None:
    """A request without a place, a publish, and a workspace that is missing."""
    app = application(queue=queue, require_workspace=True)

    @app.get("/full")
    def publish() -> str:
        raise full

    with queue.requests.admit("acme"):
        assert get(app).status_code == 429
    rejected = get(app, "/full")
    assert (rejected.status_code, int(rejected.headers["Retry-After"]) >= 1) == (429, True)
    assert rejected.json == {"detail": "Too many requests of this workspace: try again later."}
    assert get(app, workspace=None).status_code == 400
    assert get(app).text == "acme"
    assert queue.requests.in_flight("acme") == (0, 0, 0)
