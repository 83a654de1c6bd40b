"""Cheap frozen dataclasses do what the standard library's do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from fairqueue import _records


class _Fields:
    """A value."""

    a: int
    b: list[int] = dataclasses.field(default_factory=list)
    c: str = dataclasses.field(default="c", compare=False, repr=False)


def _made(decorator: Any) -> Any:
    return decorator(frozen=True, slots=True)(type("Value", (), dict(vars(_Fields))))


cheap, stock = _made(_records.dataclass), _made(dataclasses.dataclass)
Value = cheap  # pickle looks for the class by its name


def test_values_and_text_are_those_of_a_dataclass() -> None:
    """With positional and named arguments, defaults and factories."""
    for arguments, named in (((1,), {}), ((1, [2]), {"c": "d"}), ((), {"a": 3})):
        mine, other = cheap(*arguments, **named), stock(*arguments, **named)
        assert dataclasses.asdict(mine) == dataclasses.asdict(other)
        assert repr(mine) == repr(other)
    assert cheap(1).b is not cheap(1).b
    assert inspect.signature(cheap).parameters.keys() == inspect.signature(stock).parameters.keys()


def test_values_are_compared_by_their_fields() -> None:
    """But for those that say compare=False, and never with another class."""
    assert cheap(1, (2,)) == cheap(1, (2,), "other")
    assert hash(cheap(1, (2,))) == hash(cheap(1, (2,), "other"))
    assert cheap(1) != cheap(2)
    assert cheap(1) != stock(1)


def test_copies_are_equal_and_may_differ_in_a_field() -> None:
    """By copy, pickle and replace."""
    value = cheap(1, [2], "d")
    for other in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert dataclasses.asdict(other) == dataclasses.asdict(value)
    assert dataclasses.replace(value, a=7).a == 7


def test_a_value_cannot_be_changed() -> None:
    """Nor can a field be deleted."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        cheap(1).a = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del cheap(1).a
