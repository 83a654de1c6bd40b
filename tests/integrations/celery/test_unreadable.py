"""What is checked before Celery handles a message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kombu.message import Message

from fairqueue_celery._worker.unreadable import _what_is_wrong


def message(**headers: Any) -> Message:
    return Message(
        body=json.dumps([[1], {}, {}]),
        content_type="application/json",
        content_encoding="utf-8",
        headers={"task": "shop.work", "id": "1", **headers},
        accept={"application/json"},
    )


@pytest.mark.parametrize("limits", [None, [None, None], [10, 5.5], (None, 3)])
def test_time_limits_as_celery_sends_them(limits: Any) -> None:
    """None, or a hard and a soft limit."""
    assert _what_is_wrong(message(timelimit=limits)) is None


@pytest.mark.parametrize("limits", ["x", 5, [], [1], [1, 2, 3], ["1", None], {"a": 1, "b": 2}])
def test_malformed_time_limits(limits: Any) -> None:
    """Otherwise the job would hold its slot until the worker stops, without ever running."""
    assert "time limits" in str(_what_is_wrong(message(timelimit=limits)))
