"""Where a job's workspace comes from."""

from __future__ import annotations

import sys
import types
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import fairqueue
from fairqueue import WorkspaceUnresolved
from fairqueue_celery._publish.call import Call, note_call, noted_call, workspace_of


def call(*args: Any, headers: dict[str, Any] | None = None, **kwargs: Any) -> Call:
    headers = headers or {}
    return Call("shop.work", args, kwargs, headers, headers)


@pytest.fixture
def resolvers() -> Iterator[Any]:
    """A user's module."""
    module: Any = types.ModuleType("my_resolvers")
    sys.modules["my_resolvers"] = module
    yield module
    del sys.modules["my_resolvers"]


@pytest.mark.parametrize(
    ("source", "made", "workspace"),
    [
        ("header:customer", call(headers={"customer": "acme"}), "acme"),
        ("kwarg:tenant_id", call(tenant_id="acme"), "acme"),
        ("kwarg:tenant_id", call(tenant_id=42), "42"),
        ("kwarg:tenant_id", call(), None),
        ("arg:1", call("x", "acme"), "acme"),
        ("arg:1", call("x"), None),
        ("kwarg:id", call(id=uuid.UUID(int=5)), "00000000-0000-0000-0000-000000000005"),
    ],
)
def test_sources(source: str, made: Call, workspace: str | None) -> None:
    """Headers, keywords and arguments name it; whole numbers and UUIDs are written out."""
    assert workspace_of(made, [source]) == workspace


def test_the_first_source_that_answers_wins() -> None:
    """Sources are asked in turn, after the header ``workspace``."""
    sources = ["kwarg:customer", "arg:0"]
    assert workspace_of(call("a", customer="b"), sources) == "b"
    assert workspace_of(call("a", customer=None), sources) == "a"
    assert workspace_of(call("a", headers={"workspace": "c"}), sources) == "c"


def test_the_context_comes_last() -> None:
    """A with-block counts if the call itself names no workspace."""
    with fairqueue.workspace("outside"):
        assert workspace_of(call(), ["kwarg:customer"]) == "outside"
        assert workspace_of(call(customer="mine"), ["kwarg:customer"]) == "mine"


def test_a_function_is_asked(resolvers: Any) -> None:
    """A resolver gets task name, args, kwargs and headers."""
    resolvers.find = lambda task, args, kwargs, headers: f"{task}-{args[0]}-{kwargs['k']}"
    assert workspace_of(call(1, k=2), ["my_resolvers:find"]) == "shop.work-1-2"


@pytest.mark.parametrize("value", [1.5, True, b"acme", {"id": 1}])
def test_other_types_are_refused(value: Any) -> None:
    """What cannot be a name is refused, with the source and the task."""
    with pytest.raises(WorkspaceUnresolved, match=r"kwarg:customer.*shop\.work"):
        workspace_of(call(customer=value), ["kwarg:customer"])


def test_a_call_is_known_by_its_headers() -> None:
    """Only a publish with the same headers object finds the call."""
    headers = {"task": "shop.work"}
    note_call(sender="shop.work", body=(("a",), {"k": 1}, {}), headers=headers)

    found = noted_call(headers)

    assert found is not None
    assert (found[0].args, found[0].kwargs) == (("a",), {"k": 1})
    assert noted_call({"task": "shop.work"}) is None
