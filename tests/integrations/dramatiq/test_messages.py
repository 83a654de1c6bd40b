"""What is read from a message: its priority, delay and group."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from dramatiq import Message

from fairqueue_dramatiq._messages import core_priority, delay_seconds, group_of

LEAST_URGENT = 2**24 - 1


def message(**options: Any) -> Any:
    return Message("default", "work", (), {}, options)


def test_the_brokers_priority_goes_before_the_actors() -> None:
    """High broker_priority first; among equal ones a low actor priority first."""
    order = [(9, 100), (5, -3), (5, 0), (5, 100), (0, -(2**15)), (0, 0), (0, 2**15 - 1)]
    assert all(core_priority(*a) < core_priority(*b) for a, b in pairwise(order))


@pytest.mark.parametrize(
    "pair", [(0, 0), (255, -(2**15)), (0, 2**40), (-7, 2**40), (300, -(2**40))]
)
def test_any_priority_becomes_one_of_the_core(pair: tuple[int, int]) -> None:
    """A value out of range counts as the nearest in range."""
    assert 0 <= core_priority(*pair) <= LEAST_URGENT


def test_a_delay_is_given_or_left_until_the_eta() -> None:
    """Milliseconds become seconds; a time in the past is no delay."""
    soon = int(time.time() * 1000) + 5000
    assert delay_seconds(message(), 1500) == 1.5
    assert delay_seconds(message(), -5) == 0
    assert delay_seconds(message(eta=soon), None) == pytest.approx(5, abs=0.5)
    assert delay_seconds(message(eta=1), None) == 0
    assert delay_seconds(message(), None) == 0


def test_a_group_is_found_through_a_pipeline() -> None:
    """Of a pipeline inside a group only the last message carries the group."""
    last = {"options": {"group_completion_uuid": "g"}}
    middle = {"options": {"pipe_target": last}}
    assert group_of({"pipe_target": middle}) == "g"
    assert group_of({"group_completion_uuid": "g"}) == "g"
    assert group_of({"pipe_target": {"options": {}}}) is None
    assert group_of({}) is None
