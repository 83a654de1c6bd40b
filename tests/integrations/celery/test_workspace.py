"""Where a job's workspace comes from."""

from __future__ import annotations

import sys
import types
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import fairqueue
from fairqueue import WorkspaceUnresolved, check_sources
from fairqueue_celery.workspace import Call, note_call, noted_call, workspace_of


def call(*args: Any, headers: dict[str, Any] | None = None, **kwargs: Any) -> Call:
    headers = headers or {}
    return Call("shop.work", args, kwargs, headers, headers)


@pytest.fixture
def resolvers() -> Iterator[Any]:
    """A module of a user's own."""
    module: Any = types.ModuleType("my_resolvers")
    sys.modules["my_resolvers"] = module
    yield module
    del sys.modules["my_resolvers"]


@pytest.mark.parametrize(
    ("source", "made", "workspace"),
    [
        ("header:tenant", call(headers={"tenant": "acme"}), "acme"),
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


def test_the_first_answer_wins() -> None:
    """Sources are asked in turn; the header ``workspace`` goes before all of them."""
    sources = ["kwarg:tenant", "arg:0"]
    assert workspace_of(call("a", tenant="b"), sources) == "b"
    assert workspace_of(call("a", tenant=None), sources) == "a"
    assert workspace_of(call("a", headers={"workspace": "c"}), sources) == "c"


def test_surroundings_come_last() -> None:
    """A with-block counts where the call itself names nothing."""
    with fairqueue.workspace("outside"):
        assert workspace_of(call(), ["kwarg:tenant"]) == "outside"
        assert workspace_of(call(tenant="mine"), ["kwarg:tenant"]) == "mine"


def test_a_function_is_asked(resolvers: Any) -> None:
    """A resolver gets task name, args, kwargs and headers."""
    resolvers.find = lambda task, args, kwargs, headers: f"{task}-{args[0]}-{kwargs['k']}"
    assert workspace_of(call(1, k=2), ["my_resolvers:find"]) == "shop.work-1-2"


def test_a_resolver_that_raises_is_named(resolvers: Any) -> None:
    """The error names the resolver and the task, and keeps the cause."""

    def broken(*_: Any) -> str:
        raise LookupError("no such tenant")

    resolvers.broken = broken
    with pytest.raises(WorkspaceUnresolved, match=r"my_resolvers:broken.*shop\.work") as raised:
        workspace_of(call(), ["my_resolvers:broken"])
    assert isinstance(raised.value.__cause__, LookupError)
    assert isinstance(raised.value, fairqueue.ConfigurationError)


@pytest.mark.parametrize("value", [1.5, True, b"acme", {"id": 1}])
def test_other_types_are_refused(value: Any) -> None:
    """What cannot be a name is refused, with the source and the task."""
    with pytest.raises(WorkspaceUnresolved, match=r"kwarg:tenant.*shop\.work"):
        workspace_of(call(tenant=value), ["kwarg:tenant"])


@pytest.mark.parametrize("source", ["no.such.module:f", "fairqueue:nothing", "fairqueue:__all__"])
def test_an_unloadable_resolver_is_refused_at_start(source: str) -> None:
    """A function that is not there is told when the broker is first used."""
    with pytest.raises(WorkspaceUnresolved, match=source):
        check_sources(["kwarg:tenant", source])


def test_a_call_is_known_by_its_headers() -> None:
    """Only the publish that carries the very headers of the call finds it."""
    headers = {"task": "shop.work"}
    note_call(sender="shop.work", body=(("a",), {"k": 1}, {}), headers=headers)

    found = noted_call(headers)

    assert found is not None
    assert (found[0].args, found[0].kwargs) == (("a",), {"k": 1})
    assert noted_call({"task": "shop.work"}) is None
