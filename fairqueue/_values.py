"""Turns what options, URLs and variables hold into values of the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PER_SECOND = {"s": 1.0, "m": 1 / 60, "h": 1 / 3600}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([smh])\s*")
_SOURCE = re.compile(
    r"(header|kwarg):.+|arg:\d+|(?!(header|kwarg|arg)s?:)[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
)

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def number_or_none(value: Any) -> Any:
    """Let text from a URL or a variable stand for a number or for None; refuse booleans."""
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")  # noqa: TRY004 - pydantic reports ValueError
    if isinstance(value, str) and value.strip().lower() in {"", "none", "null"}:
        return None
    return value


def rate(value: Any) -> Any:
    """Starts per second, from a number or from Celery's ``"100/m"``."""
    value = number_or_none(value)
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) * _PER_SECOND[match[2]] if match else value


def mapping(value: Any) -> Any:
    """A mapping, also as JSON text."""
    parsed = _from_json(value) if isinstance(value, str) else value
    if not isinstance(parsed, Mapping):
        raise ValueError("a mapping by name is expected (as text: a JSON object)")  # noqa: TRY004
    return dict(parsed)


def function(value: Any) -> str | None:
    """The name of a function in a module, or None."""
    named = number_or_none(value)
    if named is not None and not (isinstance(named, str) and _FUNCTION.fullmatch(named.strip())):
        raise ValueError("write it as 'package.module:function'")
    return None if named is None else named.strip()


def workspace_sources(value: Any) -> tuple[str, ...]:
    """Where a job's workspace comes from: text with commas, or a list; first answer wins."""
    if isinstance(value, str):
        value = _from_json(value) if value.lstrip().startswith("[") else value.split(",")
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("one source or a list of sources is expected")
    return tuple(_source(item) for item in value)


def _source(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not _SOURCE.fullmatch(text):
        raise ValueError(
            "each source is 'header:NAME', 'kwarg:NAME', 'arg:N' or 'package.module:function', "
            f"not {text or value!r}"
        )
    return text


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError("the text is not valid JSON") from None
