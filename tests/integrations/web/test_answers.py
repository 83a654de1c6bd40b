"""Which rejection is whose fault, and where a request says its workspace."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from fairqueue import CapacityExceeded, ConfigurationError
from fairqueue.errors import RequestRejected
from fairqueue_web import BadWorkspace, FrontDoor
from fairqueue_web._answers import answer_to
from fairqueue_web._sources import View


def capacity(scope: str, *, draining: bool = False) -> CapacityExceeded:
    return CapacityExceeded(scope, 5, 5, 2.2, "acme", "celery", "mail", draining)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (capacity("workspace"), 429),
        (capacity("queue"), 503),
        (capacity("total"), 503),
        (capacity("task"), 503),
        (capacity("workspace", draining=True), 503),
        (RequestRejected("workspace", 1, 1, 1.2, "acme"), 429),
        (RequestRejected("total", 1, 1, 1.2, "acme"), 503),
    ],
)
def test_a_full_workspace_is_its_own_fault(error: Any, status: int) -> None:
    """429 for the client whose workspace is full, 503 for all else; both say when to return."""
    answer = answer_to(error)
    assert answer.status == status
    assert int(dict(answer.headers)["Retry-After"]) >= error.retry_after
    assert int(dict(answer.headers)["Content-Length"]) == len(answer.body)


def test_an_answer_tells_nothing_of_the_service() -> None:
    """Neither limits, nor names of queues, tasks and workspaces."""
    body = json.loads(answer_to(capacity("queue")).body)
    assert body == {"detail": "The service is busy: try again later."}


def request(
    path: str = "/", *, headers: dict[str, str] | None = None, of: Any = None, raw: Any = None
) -> View:
    """A view of a request of this user."""
    return View(raw, path, (headers or {}).get, lambda: of)


@pytest.mark.parametrize(
    ("source", "request_", "workspace"),
    [
        ("header:X-Org", request(headers={"X-Org": "acme"}), "acme"),
        ("header:X-Org", request(headers={"X-Org": ""}), None),
        ("header:X-Org", request(), None),
        ("path:/t/{workspace}/", request("/t/a:{*} b/jobs"), "a:{*} b"),
        ("path:/t/{workspace}/", request("/t/\u00e9/jobs"), "\u00e9"),
        ("path:/t/{workspace}/", request("//t//acme/jobs"), "acme"),
        ("path:/t/{workspace}/", request("/other/acme/"), None),
        ("path:/{version}/t/{workspace}", request("/v1/t/acme"), "acme"),
        ("user:org.id", request(of=SimpleNamespace(org=SimpleNamespace(id=42))), "42"),
        ("user:org.id", request(of=SimpleNamespace(org=None)), None),
        ("user:org.id", request(), None),
        ("user:org", request(of=SimpleNamespace(is_authenticated=False)), None),
        (lambda raw: raw, request(raw=UUID(int=5)), str(UUID(int=5))),
        (lambda raw: raw, request(raw=""), None),
        ("builtins:len", request(raw=[1, 2]), "2"),
    ],
)
def test_a_request_says_its_workspace(source: Any, request_: View, workspace: str) -> None:
    """By a header, its path, its user, or what a function makes of it."""
    assert FrontDoor(workspace_from=source).workspace_of(request_) == workspace
    assert FrontDoor(workspace_from=[source]).workspace_of(request_) == workspace


def test_the_first_answer_wins() -> None:
    """Sources without an answer are passed."""
    door = FrontDoor(workspace_from=["header:a", "header:b", "header:c"])
    assert door.workspace_of(request(headers={"b": "one", "c": "two"})) == "one"


@pytest.mark.parametrize(
    "text",
    ["x" * 201, "\ud800", " acme", "acme\xa0", " ", "a\tb", "a\nb", "a\0", "a\u2028b", "e\u0301"],
)
@pytest.mark.parametrize("source", ["header:a", "path:/{workspace}"])
def test_a_client_that_sends_no_name_is_told_so(source: str, text: str) -> None:
    """What a client sends is no mistake of the application: it is answered with 400."""
    with pytest.raises(BadWorkspace) as error:
        FrontDoor(workspace_from=source).workspace_of(request(f"/{text}", headers={"a": text}))
    answer = answer_to(error.value)
    assert (answer.status, "Retry-After" in dict(answer.headers)) == (400, False)


@pytest.mark.parametrize("text", ["acme,globex", "acme, globex", "\u00c3\u00a9"])
def test_a_header_that_can_be_read_in_two_ways_is_refused(text: str) -> None:
    """One that was sent twice, or that is not ASCII, where each framework decodes otherwise."""
    with pytest.raises(BadWorkspace, match="repeated"):
        FrontDoor(workspace_from="header:a").workspace_of(request(headers={"a": text}))


def test_a_workspace_may_be_required() -> None:
    """A request without one is then rejected."""
    with pytest.raises(BadWorkspace):
        FrontDoor(workspace_from="header:a", require_workspace=True).workspace_of(request())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("kwarg:org", "cannot import 'kwarg:org'"),
        ("header", "expected 'header:NAME'"),
        ("path:/t/", "must contain {workspace} once"),
        ("nowhere:function", "cannot import 'nowhere:function'"),
    ],
)
def test_a_wrong_source_is_refused_at_once(source: str, message: str) -> None:
    """When the application starts, not with its first request."""
    with pytest.raises(ConfigurationError, match=message):
        FrontDoor(workspace_from=source)


@pytest.mark.parametrize(
    ("source", "request_", "message"),
    [
        ("user:orgg", request(of=SimpleNamespace(org=1)), "has no 'orgg'"),
        (lambda raw: raw, request(raw=1.5), "not float"),
        (lambda raw: raw, request(raw=True), "not bool"),
    ],
)
def test_a_mistake_of_the_application_is_an_error(
    source: Any, request_: View, message: str
) -> None:
    """It is not answered as if the client were wrong."""
    with pytest.raises(ConfigurationError, match=message) as error:
        FrontDoor(workspace_from=source).workspace_of(request_)
    assert not isinstance(error.value, BadWorkspace)


def test_settings_without_a_url_are_refused() -> None:
    """A misspelt argument, for example."""
    with pytest.raises(ConfigurationError, match="requre_workspace"):
        FrontDoor(requre_workspace=True)


def test_a_name_that_is_too_long_is_not_told_as_missing() -> None:
    """The client learns which of the two it is."""
    door = FrontDoor(workspace_from="header:a", require_workspace=True)
    for text, detail in (("x" * 201, "too long"), ("", "does not name a workspace")):
        with pytest.raises(BadWorkspace) as error:
            door.workspace_of(request(headers={"a": text}))
        assert detail in answer_to(error.value).body.decode()
