"""Parses the values of settings in options, URLs and environment variables."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

MOST = 2_000_000_000
"""The largest count; Lua and JSON represent it exactly."""

_PER_SECOND = {"s": 1.0, "m": 1 / 60, "h": 1 / 3600}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([smh])\s*")
_SOURCE = re.compile(
    r"(header|kwarg):.+|arg:\d+|(?!(header|kwarg|arg)s?:)[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
)

_ADDRESS = re.compile(r"(\[[\w:.%]+\]|[\w.-]+):(\d{1,5})")
PORTS = 2**16
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a reader that also reads None, empty text, ``none`` and ``null``, as None."""
    return lambda value: None if _is_none(value) else read(value)


def _is_none(value: Any) -> bool:
    text = value.strip().lower() if isinstance(value, str) else value
    return text in (None, "", "none", "null")


def number(
    least: float = -math.inf, *, above: float = -math.inf, most: float = math.inf
) -> Callable[[Any], float]:
    """Return a reader of numbers, or text of one, in these bounds."""

    def read(value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError("must be a number, not a boolean")  # noqa: TRY004 - a wrong value like others
        try:
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("must be a number") from None
        if not math.isfinite(found):
            raise ValueError("must be a finite number")
        if found < least:
            raise ValueError(f"must be at least {least:,}")
        if found <= above:
            raise ValueError(f"must be above {above:,}")
        if found > most:
            raise ValueError(f"must be at most {most:,}")
        return found

    return read


def whole(least: int, *, most: int = MOST) -> Callable[[Any], int]:
    """Return a reader of whole numbers, or text of one, in these bounds."""
    in_bounds = number(least, most=most)

    def read(value: Any) -> int:
        found = in_bounds(value)
        if not found.is_integer():
            raise ValueError("must be a whole number")
        return int(found)

    return read


def flag(value: Any) -> bool:
    """Read a boolean, 1 or 0, or text of one."""
    text = value.strip().lower() if isinstance(value, str) else value
    if text in (True, "true", "1", "yes", "on", "t", "y"):
        return True
    if text in (False, "false", "0", "no", "off", "f", "n"):
        return False
    raise ValueError("must be true or false")


def one_of(*known: str) -> Callable[[Any], str]:
    """Return a reader of one of these words."""

    def read(value: Any) -> str:
        if value not in known:
            *first, last = map(repr, known)
            raise ValueError(f"must be {', '.join(first)} or {last}")
        return str(value)

    return read


def path(value: Any) -> Path:
    """Read the path of a file or directory."""
    if not isinstance(value, str | os.PathLike):
        raise ValueError("must be a path")  # noqa: TRY004 - a wrong value like others
    return Path(value)


def rate(value: Any) -> float:
    """Read a number of starts per second, or Celery's notation ``"100/m"``."""
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None and isinstance(value, str) and "/" in value:
        raise ValueError("expected a number of starts per second, or N/s, N/m or N/h")
    return _per_second(float(match[1]) * _PER_SECOND[match[2]] if match else value)


_per_second = number(above=0, most=1e9)


def mapping(value: Any) -> Any:
    """Read a mapping, or JSON text of one."""
    parsed = _from_json(value) if isinstance(value, str) else value
    if not isinstance(parsed, Mapping):
        raise ValueError("expected a mapping by name, or a JSON object")  # noqa: TRY004
    return dict(parsed)


def entry(value: Any) -> Mapping[str, Any]:
    """Read the limits of one name."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of limits")  # noqa: TRY004 - a wrong value like others
    return value


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
