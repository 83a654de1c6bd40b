"""The WSGI middleware around bare applications."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from fairqueue import CapacityExceeded, FairQueue
from fairqueue.adapters import current_workspace
from fairqueue_web.wsgi import FairQueueMiddleware

Started = list[tuple[str, dict[str, str]]]


def whose(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(current_workspace()).encode()]


def stream(environ: Any, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    for _ in range(2):
        yield f"{current_workspace()} ".encode()


def begin(
    app: Any, path: str = "/", workspace: str | None = "acme"
) -> tuple[Started, Any, Callable[[], bytes]]:
    """Begin a request as a server does; the last of the results reads the body."""
    started: Started = []
    environ: dict[str, Any] = {"PATH_INFO": path}
    setup_testing_defaults(environ)
    if workspace is not None:
        environ["HTTP_X_ORG"] = workspace

    def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
        if exc_info and started:
            started.clear()
        started.append((status, dict(headers)))
        return lambda _: None

    body = app(environ, start_response)
    return started, body, lambda: b"".join(body)


def get(app: Any, path: str = "/", workspace: str | None = "acme") -> tuple[str, str]:
    """One request: status and body."""
    started, body, read = begin(app, path, workspace)
    try:
        text = read().decode()
        return started[-1][0], text
    finally:
        getattr(body, "close", lambda: None)()


def front(app: Any, **options: Any) -> FairQueueMiddleware:
    return FairQueueMiddleware(app, **{"workspace_from": "header:X-Org", **options})


def test_an_application_runs_in_the_workspace_of_its_request() -> None:
    """Where the request names none, as without the middleware."""
    assert get(front(whose)) == ("200 OK", "acme")
    assert get(front(whose), workspace=None) == ("200 OK", "None")
    assert current_workspace() is None


def test_a_body_is_made_in_the_workspace() -> None:
    """Each step of a generator."""
    assert get(front(stream))[1] == "acme acme "


@pytest.mark.parametrize("app", [whose, stream])
def test_the_middleware_keeps_the_rules_of_wsgi(app: Any) -> None:
    """As wsgiref checks them, on both of its sides; also where it rejects."""
    environ: dict[str, Any] = {"HTTP_X_ORG": "acme", "QUERY_STRING": ""}
    setup_testing_defaults(environ)
    for options in ({}, {"workspace_from": (), "require_workspace": True}):
        body = validator(front(validator(app), **options))(environ, lambda *_: lambda _: None)
        assert b"".join(body)
        body.close()  # type: ignore[attr-defined]


def test_a_publish_that_is_rejected_becomes_429(full: CapacityExceeded) -> None:
    """Also where the application had begun to answer, and sent nothing yet."""

    def late(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        raise full

    started, _, read = begin(front(late))
    ((status, headers),) = started
    assert status == "429 Too Many Requests"
    assert int(headers["Retry-After"]) >= 1
    assert b"try again later" in read()


def test_a_publish_of_a_generator_that_is_rejected_becomes_429(full: CapacityExceeded) -> None:
    """If it was before the first part of the body; after it, the response breaks off."""

    def lazy(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/late":
            yield b"some"
        raise full

    assert get(front(lazy))[0] == "429 Too Many Requests"
    with pytest.raises(CapacityExceeded):
        get(front(lazy), "/late")


def test_a_place_is_taken_until_the_response_is_closed(queue: FairQueue) -> None:
    """A streamed body is a request in flight; a second close changes nothing."""
    app = front(stream, queue=queue)
    _, body, read = begin(app)
    assert get(app)[0] == "429 Too Many Requests"
    assert get(app, workspace="other")[0] == "200 OK"
    assert read() == b"acme acme "
    assert queue.requests.in_flight("acme") == (1, 1, 0)
    body.close()
    body.close()
    assert queue.requests.in_flight("acme") == (0, 0, 0)


def test_an_application_that_fails_keeps_no_place(queue: FairQueue) -> None:
    """Whatever it raises."""

    def fail(environ: Any, start_response: Any) -> Iterable[bytes]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(front(fail, queue=queue))
    assert queue.requests.in_flight("acme") == (0, 0, 0)
