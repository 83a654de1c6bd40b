"""What is reckoned: one priority of two, delays, groups, and how much room a worker has."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from dramatiq import Message

from fairqueue import Settings
from fairqueue_dramatiq import pace
from fairqueue_dramatiq.messages import core_priority, delay_seconds, group_of
from fairqueue_dramatiq.pace import Pace
from fairqueue_dramatiq.room import Room

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
def test_any_priority_is_one_of_the_cores(pair: tuple[int, int]) -> None:
    """What is out of range counts as the nearest that is not."""
    assert 0 <= core_priority(*pair) <= LEAST_URGENT


def test_a_delay_is_what_was_asked_for_or_left_until_eta() -> None:
    """Milliseconds become seconds; what is past is no delay."""
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


def test_room_is_the_idle_threads() -> None:
    """And never less than none, whatever is in hand."""
    room = Room(2, 0.005)
    room.in_hand = 1
    assert room.idle() == 1
    room.in_hand = 3
    assert room.idle() == 0


def test_only_what_starts_at_once_is_claimed_ahead() -> None:
    """Nothing before the first end; a full set for tiny jobs; nothing for long ones."""
    room = Room(8, 0.005)
    assert room.ahead() == 0
    room.ended(0.0005)
    assert room.ahead() == 8
    for _ in range(100):
        room.ended(1.0)
    assert room.ahead() == 0
    assert Room(8, 0.0).ahead() == 0


LIMITS: list[dict[str, Any]] = [
    {"workspace_concurrency": 2},
    {"total_concurrency": 2},
    {"workspaces": {"ada": {"concurrency": 2}}},
    {"queues": {"mails": {"concurrency": 2}}},
    {"tasks": {"mail": {"workspace_concurrency": 2}}},
]


def test_claims_are_spaced_unless_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is at once, and so is the one after a full one."""
    monkeypatch.setattr(pace, "PACE_SECONDS", 60)
    paced = Pace(Settings.load())
    assert paced.early_seconds(ending=False) <= 0
    paced.claimed(more=False)
    assert paced.early_seconds(ending=False) > 0
    assert paced.early_seconds(ending=True) > 0
    paced.claimed(more=True)
    assert paced.early_seconds(ending=False) <= 0


@pytest.mark.parametrize("settings", LIMITS)
def test_a_scarce_slot_is_given_back_at_once(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where somebody may wait for it: with any limit of what runs."""
    monkeypatch.setattr(pace, "PACE_SECONDS", 60)
    paced = Pace(Settings.load(settings))
    paced.claimed(more=False)
    assert paced.early_seconds(ending=False) > 0
    assert paced.early_seconds(ending=True) <= 0
