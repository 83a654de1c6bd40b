"""Reads the values of settings, from options, URLs and environment variables.

Each function returns a value of its kind, or raises ValueError. None shows a value: it might be a
secret.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Read = Callable[[Any], Any]

MOST = 2_000_000_000
"""The largest count; Lua and JSON represent it exactly."""
PORTS = 2**16
_PER_SECOND = {"s": 1.0, "m": 1 / 60, "h": 1 / 3600}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([smh])\s*")
_SOURCE = re.compile(
    r"(header|kwarg):.+|arg:\d+|(?!(header|kwarg|arg)s?:)[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
)
_ADDRESS = re.compile(r"(\[[\w:.%]+\]|[\w.-]+):(\d{1,5})")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_NONE = frozenset({"", "none", "null"})
_TRUE, _FALSE = (
    frozenset({"true", "t", "yes", "y", "on", "1"}),
    {"false", "f", "no", "n", "off", "0"},
)


def optional(read: Read) -> Read:
    """Read empty text, ``none`` and ``null`` as None."""

    def read_or_none(value: Any) -> Any:
        is_none = value is None or (isinstance(value, str) and value.strip().lower() in _NONE)
        return None if is_none else read(value)

    return read_or_none


def resolved(value: Any) -> Path:
    """Read a path, which stays where it is if the working directory or a link changes."""
    try:
        return Path(os.path.realpath(value))
    except OSError as error:
        raise ValueError("there is no working directory") from error


def number(least: float, most: float = math.inf, *, above: bool = False) -> Read:
    """Read a finite number in a range, which has ``least`` in it unless it is ``above``."""

    def read(value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError("a boolean is not a number")  # noqa: TRY004
        try:
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("it is not a number") from None
        if not least <= found <= most or math.isinf(found) or (above and found == least):
            raise ValueError("the number is not in the range")
        return found

    return read


def count(least: int, most: int = MOST) -> Read:
    """Read a whole number in a range."""
    read_number = number(least, most)

    def read(value: Any) -> int:
        found: float = read_number(value)
        if not found.is_integer():
            raise ValueError("it is not a whole number")
        return int(found)

    return read


def rate(value: Any) -> float:
    """Read a number of starts per second, or Celery's notation ``"100/m"``."""
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None and isinstance(value, str) and "/" in value:
        raise ValueError("expected a number of starts per second, or N/s, N/m or N/h")
    starts = float(match[1]) * _PER_SECOND[match[2]] if match else value
    return number(1e-9, 1e9)(starts)  # type: ignore[no-any-return]


def one_of(*words: str) -> Read:
    """Read one of these words."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"it is none of {', '.join(map(repr, words))}")
        return str(value)

    return read


def boolean(value: Any) -> bool:
    """Read a boolean, or a word for one."""
    text = str(int(value) if value in (0, 1) else value).strip().lower()
    if text not in _TRUE | _FALSE:
        raise ValueError("it is no boolean")
    return text in _TRUE


def mapping(value: Any) -> dict[Any, Any]:
    """Read a mapping, or JSON text of one."""
    parsed = _from_json(value) if isinstance(value, str) else value
    if not isinstance(parsed, Mapping):
        raise ValueError("expected a mapping by name, or a JSON object")  # noqa: TRY004
    return dict(parsed)


def function(value: Any) -> str:
    """Read ``package.module:function``."""
    if not (isinstance(value, str) and _FUNCTION.fullmatch(value.strip())):
        raise ValueError("expected 'package.module:function'")
    return value.strip()


def address(value: Any) -> str:
    """Read ``host:port``, with brackets around an IPv6 address."""
    found = _ADDRESS.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or int(found[2]) >= PORTS:
        raise ValueError("expected 'host:port', such as '127.0.0.1:9797'")
    return found[0]


def workspace_sources(value: Any) -> tuple[Any, ...]:
    """Read where a job says its workspace: a list, text separated by commas, or a function."""
    if callable(value):
        return (value,)
    if isinstance(value, str):
        value = _from_json(value) if value.lstrip().startswith("[") else value.split(",")
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("expected one source or a list of sources")
    return tuple(_source(item) for item in value)


def _source(value: Any) -> Any:
    if callable(value):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if not _SOURCE.fullmatch(text):
        raise ValueError(
            "a source must be 'header:NAME', 'kwarg:NAME', 'arg:N', 'package.module:function' or a "
            f"function, not {text or value!r}"
        )
    return text


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError("the text is not valid JSON") from None
