"""A function that is one expression is written in place of its calls, where that means the same."""

from __future__ import annotations

import pytest

from fairqueue._stores.expressions import (
    Expression,
    arguments_of_call,
    expressions,
    names_bound,
)

NOTHING: frozenset[str] = frozenset()


def _only(text: str) -> Expression:
    [(_, found)] = expressions({"Jobs.one": text})
    return found


def test_a_function_that_returns_one_expression() -> None:
    """Its parameters and its text are known."""
    found = _only("function Jobs.one(a, b)\n  return a .. ' ' .. b\nend")
    assert (list(found.parameters), found.text) == (["a", "b"], "a .. ' ' .. b")


@pytest.mark.parametrize(
    "text",
    [
        "function Jobs.one(a)\n  local b = a\n  return b\nend",
        "function Jobs.one(...)\n  return call(...)\nend",
        "function Jobs.one(a)\n  return { id = a }\nend",
        "function Jobs.one(a)\n  return function() return a end\nend",
    ],
)
def test_a_function_that_is_more(text: str) -> None:
    """It stays a function."""
    assert list(expressions({"Jobs.one": text})) == []


@pytest.mark.parametrize(
    ("body", "arguments", "written"),
    [
        ("a .. b", ["x", "'y'"], "(x .. 'y')"),
        ("call('HGET', a)", ["key"], "call('HGET', key)"),
        ("call('HGET', a)", ["f(x)"], "call('HGET', f(x))"),
        ("a * 2", ["x + 1"], "((x + 1) * 2)"),
        ("a or b", ["x"], "(x or nil)"),
        ("a .. 'a'", ["x"], "(x .. 'a')"),
    ],
)
def test_a_call_is_replaced(body: str, arguments: list[str], written: str) -> None:
    """Arguments stand for parameters, in brackets where they need some; texts stay as they are."""
    assert Expression(["a", "b"], body).called_with(arguments, NOTHING) == written


@pytest.mark.parametrize(
    ("body", "arguments", "bound"),
    [
        ("a .. a", ["f(x)"], set()),  # it would be computed twice
        ("b", ["f(x)", "y"], set()),  # it would not be computed
        ("b and a", ["f(x)", "y"], set()),  # it might not be computed
        ("a + now", ["x"], {"now"}),  # this now is another one
    ],
)
def test_a_call_that_must_stay_one(body: str, arguments: list[str], bound: set[str]) -> None:
    """What would mean something else is not written."""
    assert Expression(["a", "b"], body).called_with(arguments, frozenset(bound)) is None


def test_the_names_of_a_text() -> None:
    """Locals, parameters and the variables of loops."""
    text = "local a, b = 1\nfor i, v in ipairs(x) do end\nlocal f = function(p) end"
    assert names_bound(text) == {"a", "b", "i", "v", "f", "p"}


def test_the_arguments_of_a_call() -> None:
    """Commas in inner brackets separate nothing; where no bracket closes, it says where."""
    assert arguments_of_call("f(a, g(b, c)) + 1", 2) == (["a", "g(b, c)"], 13)
    with pytest.raises(ValueError, match="unclosed bracket"):
        arguments_of_call("f(a, (b)", 2)
