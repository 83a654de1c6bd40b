"""What an operator may see of a payload: the framework's id and the arguments, without secrets.

Celery's and Dramatiq's messages are JSON. Nothing else is decoded, and nothing is ever executed: of
a pickled body only what Celery wrote about it as text is shown.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

from fairqueue.plain import cut

HIDDEN_NAMES = r"passw|passphrase|token|secret|api[-_]?key|private[-_]?key|authorization|credential"
"""What names of arguments contain whose values are hidden."""
HIDDEN = "[hidden]"
MOST_TEXT = 4000  # characters
MOST_BYTES = 1 << 20
"""A larger payload is not decoded."""
_is_secret = re.compile(HIDDEN_NAMES, re.IGNORECASE).search
_QUOTED = r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?"""
_WORD = r"""[^,)}\]\s(\[{<'"\\]*"""
_OPENED = r"""[(\[{][^)\]}]*(?:[)\]}].*)?"""
_VALUE = rf"""{_QUOTED}|{_WORD}(?:{_OPENED}|[<'"\\].*)|[^,)}}\]\s]+"""
_IS = r"""[\w-]{0,100}\\?['"]?\s*[:=]\s*"""
_IN_TEXT = re.compile(
    rf"((?:authorization){_IS})(?:{_QUOTED}|.+)|((?:{HIDDEN_NAMES}){_IS})(?:{_VALUE})",
    re.IGNORECASE,
)
"""The pattern begins at the name: with a prefix, the search would begin again at each letter.

A value goes to its closing quote or the end of its word. One with quotes inside goes to the end of
its line, as one of a header such as ``Authorization: Bearer …`` does; one with brackets to the end
of the line of its first closing one.
"""
_CHAINED = re.compile(
    r"^(?:The above exception was the direct|During handling of the above exc).*\n", re.MULTILINE
)


MOST_IN_LIST, MOST_ERROR = 60, 200  # characters
LISTED_BYTES = 16_384
"""Of larger payloads a list shows no arguments."""
PARENT = "fairqueue_parent"
"""The header or option of a child: the workspace and the task or message id of its parent."""


class Arguments(NamedTuple):
    """Of one message; all are empty where it cannot be read."""

    task_id: str = ""
    """The framework's id."""
    text: str = ""
    """The arguments, as a call has them; at most 4,000 characters."""
    parent: str = ""
    """The framework's id of the task that has sent it."""


def masked(text: str) -> str:
    """Hide the values behind names such as ``password=`` in a text."""
    return _IN_TEXT.sub(rf"\1\2{HIDDEN}", text)


def last_line(details: str) -> str:
    """Return the last line of a traceback, which is the error, without secrets.

    That of a group of exceptions stands before the tracebacks of its members.
    """
    *_, newest = _CHAINED.split(masked(details))
    own = newest.partition("\n  +-+-")[0]
    return cut(own.rstrip().rpartition("\n")[2].strip(" \t|"), MOST_ERROR)


def arguments_of(payload: bytes) -> Arguments:
    """Read a payload; a message of another form, or a damaged one, has no arguments."""
    try:
        found: dict[str, Any] = json.loads(payload) if len(payload) <= MOST_BYTES else {}
        of = _celery(found) if "headers" in found else _dramatiq(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Arguments()
    return of._replace(text=cut(of.text, MOST_TEXT))


def shown(payload: bytes) -> Arguments:
    """Read a payload; of one that is no framework's the text stands for the arguments."""
    text = payload[: 4 * MOST_TEXT].decode("utf-8", "backslashreplace")
    found = arguments_of(payload)
    return found if found.task_id else Arguments(text=cut(masked(text), MOST_TEXT))


def in_a_list(payload: bytes) -> dict[str, str]:
    """Read what a list shows of a payload."""
    found = arguments_of(payload) if payload else Arguments()
    return {"task_id": found.task_id, "arguments": cut(found.text, MOST_IN_LIST)}


def _dramatiq(message: Mapping[str, Any]) -> Arguments:
    _, parent = message.get("options", {}).get(PARENT) or ("", "")
    text = _call(message["args"], message["kwargs"])
    return Arguments(str(message["message_id"]), text, str(parent))


def _celery(message: Mapping[str, Any]) -> Arguments:
    headers, body = message["headers"], message["body"]
    text = masked(f"{headers.get('argsrepr', '')} {headers.get('kwargsrepr', '')}").strip()
    if message.get("content-type") == "application/json":
        is_encoded = message.get("properties", {}).get("body_encoding") == "base64"
        args, kwargs, *_ = json.loads(b64decode(body) if is_encoded else body)
        text = _call(args, kwargs)
    _, parent = headers.get(PARENT) or ("", headers.get("parent_id") or "")
    return Arguments(str(headers["id"]), text, str(parent))


def _call(args: list[Any], kwargs: Mapping[str, Any]) -> str:
    named = (f"{name}={_value(value, name)}" for name, value in kwargs.items())
    return ", ".join([*map(_value, args), *named])


def _value(value: Any, name: str = "") -> str:
    return json.dumps(_without_secrets(value, name), ensure_ascii=False)


def _without_secrets(value: Any, name: str = "") -> Any:
    if name and _is_secret(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: _without_secrets(of, key) for key, of in value.items()}
    if isinstance(value, list):
        return [_without_secrets(of) for of in value]
    return masked(value) if isinstance(value, str) else value
