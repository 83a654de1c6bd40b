"""What an operator sees of a payload: ids and arguments, no secret, and nothing executed."""

from __future__ import annotations

import json
import pickle
import time
from base64 import b64encode
from typing import Any

import pytest

from fairqueue.messages import Arguments, arguments_of, last_line, masked

KWARGS = {"order": 7, "Password": "hunter2", "to": {"api_key": ["hunter2"], "name": "é"}}
SHOWN = '3, {"auth_token": "[hidden]"}, order=7, Password="[hidden]", '
SHOWN += 'to={"api_key": "[hidden]", "name": "é"}'
ARGS: list[Any] = [3, {"auth_token": "hunter2"}]


def _celery(body: bytes, *, encoded: bool, kind: str = "application/json", **headers: str) -> bytes:
    message = {
        "body": b64encode(body).decode() if encoded else body.decode(),
        "content-type": kind,
        "headers": {"id": "t1", "task": "t", **headers},
        "properties": {"body_encoding": "base64"} if encoded else {},
    }
    return json.dumps(message).encode()


@pytest.mark.parametrize("encoded", [True, False])
def test_a_celery_message_has_its_arguments(encoded: bool) -> None:
    """Whether or not its body is base64; values behind secret names are hidden, however deep."""
    body = json.dumps([ARGS, KWARGS, {}]).encode()
    assert arguments_of(_celery(body, encoded=encoded)) == Arguments("t1", SHOWN)


def test_a_dramatiq_message_has_its_arguments() -> None:
    """And its id."""
    message = {"message_id": "m1", "actor_name": "a", "args": ARGS, "kwargs": KWARGS}
    assert arguments_of(json.dumps(message).encode()) == Arguments("m1", SHOWN)


class Bomb:
    """Fails the test when it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("unpickled",)


def test_a_pickled_body_is_never_decoded() -> None:
    """Of it only Celery's own text is shown, with the same names hidden."""
    payload = _celery(
        pickle.dumps(Bomb()),
        encoded=True,
        kind="application/x-python-serialize",
        argsrepr="(3,)",
        kwargsrepr="{'password': 'hun\\'ter2', 'order': 7}",
    )
    assert arguments_of(payload) == Arguments("t1", "(3,) {'password': [hidden], 'order': 7}")


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", b"7", b"[]", b"{}", b'{"headers": 1, "body": 2}', b"[" * 100_000, b'"headers"'],
)
def test_another_payload_has_no_arguments(payload: bytes) -> None:
    """Nor a damaged one."""
    assert arguments_of(payload) == Arguments()


def test_long_arguments_are_cut() -> None:
    """A page shows 4,000 characters; a very long message is not decoded."""
    message = {"message_id": "m", "args": ["x" * 9000], "kwargs": {}}
    assert len(arguments_of(json.dumps(message).encode()).text) == 4001
    message["args"] = ["x" * 2_000_000]
    assert arguments_of(json.dumps(message).encode()) == Arguments()


@pytest.mark.parametrize(
    "text",
    [
        "connect(password='hunter2')",
        '{"client_secret": "a\\"hunter2"}',
        "DB_PASSWORD=hunter2 failed",
        "{'tokens': ['a', 'hunter2']}",
        "Authorization: hunter2",
        "api-key=hunter2, apikey: 'hunter2",
        "Authorization: Bearer hunter2",
        "'X-Api-Key': {'a': {'b': 'x'}, 'c': 'hunter2'}",
        "password=(f(1), b'hunter2')",
        "secret=<Secret hunter2>",
        '"tokens": [\n "a",\n "hunter2"\n]',
        r"{\"password\": \"hunter2\"}",
    ],
)
def test_secrets_in_a_text_are_hidden(text: str) -> None:
    """Such as a traceback; the names stay."""
    assert "hunter2" not in masked(text)
    assert "[hidden]" in masked(text)
    message = {"message_id": "m", "args": [text], "kwargs": {"data": text}}
    assert "hunter2" not in arguments_of(json.dumps(message).encode()).text


@pytest.mark.parametrize("details", ["bad password:\n  hunter2", "{'password':\n 'hunter2 xx'}"])
def test_secrets_in_a_last_line_are_hidden(details: str) -> None:
    """Also where the name stands on the line before."""
    assert "hunter2" not in last_line(f"Traceback\nValueError: {details}")


def test_the_last_line_of_a_group_of_exceptions() -> None:
    """As ``asyncio.TaskGroup`` raises it."""
    details = """\
  + Exception Group Traceback (most recent call last):
  |   File "tasks.py", line 1, in <module>
  | ExceptionGroup: many (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: one
    +------------------------------------
"""
    assert last_line(details) == "ExceptionGroup: many (1 sub-exception)"
    chained = (
        "\nThe above exception was the direct cause of the following exception:\n\nTraceback\n"
    )
    assert last_line(f"{details}{chained}RuntimeError: refused") == "RuntimeError: refused"
    assert last_line(f"ValueError: no\n{chained}{details}").startswith("ExceptionGroup: many")


@pytest.mark.parametrize(
    "text", ["j" * 20_000, "passw" * 4000, "token" + " " * 20_000, "password is wrong"]
)
def test_a_long_text_is_read_in_a_moment(text: str) -> None:
    """Whatever a traceback repeats."""
    began = time.process_time()
    assert masked(text) == text
    assert time.process_time() - began < 0.3
