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


@pytest.mark.parametrize("limits", [None, [None, None], [10, 5.5], ["10", b"5.5"]])
def test_time_limits_as_celery_sends_them(limits: Any) -> None:
    """None, or a hard and a soft limit; text becomes the number that Celery reads in it."""
    made = message(timelimit=limits)
    assert _what_is_wrong(made) is None
    assert made.headers["timelimit"] in (None, [None, None], [10, 5.5])


@pytest.mark.parametrize("limits", ["xy", 5, [], [1], [1, 2, 3], ["x", None], {"a": 1, "b": 2}])
def test_malformed_time_limits(limits: Any) -> None:
    """Otherwise the job would hold its slot until the worker stops, without ever running."""
    assert "time limits" in str(_what_is_wrong(message(timelimit=limits)))


@pytest.mark.parametrize("headers", [{}, {"task": "shop.work", "id": "1"}])
@pytest.mark.parametrize("in_headers", [False, True])
def test_fields_of_older_protocols(headers: dict[str, Any], in_headers: bool) -> None:
    """Celery takes each from the headers, and else from the body, where the arguments are."""
    for name, wrong in (("timelimit", ["x", None]), ("root_id", [1])):
        body = {"task": "shop.work", "id": "2", "args": [1], "kwargs": {}}
        part = {name: wrong}
        whole = message()
        whole.headers = {**headers, **(part if in_headers else {})}
        whole.body = json.dumps(body if in_headers else {**body, **part})
        assert _what_is_wrong(whole)


def test_a_mapping_without_arguments_is_no_body_of_a_task_in_the_headers() -> None:
    """Celery would unpack its keys."""
    whole = message()
    whole.body = json.dumps({"task": "shop.work", "kwargs": {}, "more": 1})
    assert "body must be a list" in str(_what_is_wrong(whole))
