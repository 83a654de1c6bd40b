"""What an operator may see of a payload: the framework's id and the arguments, without secrets.

Celery's and Dramatiq's messages are JSON. Nothing else is decoded, and nothing is ever executed: of
a pickled body only what Celery wrote about it as text is shown.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HIDDEN_NAMES = r"passw|passphrase|token|secret|api_?key|private_?key|authorization|credential"
"""What names of arguments contain whose values are hidden."""
HIDDEN = "[hidden]"
MOST_TEXT = 4000  # characters
MOST_BYTES = 1 << 20
"""A larger payload is not decoded."""
_is_secret = re.compile(HIDDEN_NAMES, re.IGNORECASE).search
_VALUE = r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[\[{(][^\]})]*[\]})]?|[^,)}\]\s]+"""
_IN_TEXT = re.compile(
    rf"""(['"]?[\w-]*(?:{HIDDEN_NAMES})[\w-]*['"]?\s*[:=]\s*)(?:{_VALUE})""", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Of one message; both are empty where it cannot be read."""

    task_id: str = ""
    """The framework's id."""
    text: str = ""
    """The arguments, as a call has them; at most 4,000 characters."""


def masked(text: str) -> str:
    """Hide the values behind names such as ``password=`` in a text."""
    return _IN_TEXT.sub(rf"\1{HIDDEN}", text)


def arguments_of(payload: bytes) -> Arguments:
    """Read a payload; a message of another form, or a damaged one, has no arguments."""
    try:
        found: dict[str, Any] = json.loads(payload) if len(payload) <= MOST_BYTES else {}
        of = _celery(found) if "headers" in found else _dramatiq(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Arguments()
    cut = of.text if len(of.text) <= MOST_TEXT else f"{of.text[:MOST_TEXT]}…"
    return Arguments(of.task_id, cut)


def _dramatiq(message: Mapping[str, Any]) -> Arguments:
    return Arguments(str(message["message_id"]), _call(message["args"], message["kwargs"]))


def _celery(message: Mapping[str, Any]) -> Arguments:
    headers, body = message["headers"], message["body"]
    text = masked(f"{headers.get('argsrepr', '')} {headers.get('kwargsrepr', '')}").strip()
    if message.get("content-type") == "application/json":
        is_encoded = message.get("properties", {}).get("body_encoding") == "base64"
        args, kwargs, *_ = json.loads(b64decode(body) if is_encoded else body)
        text = _call(args, kwargs)
    return Arguments(str(headers["id"]), text)


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
    return value
