"""Parses the values of settings in options, URLs and environment variables."""

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

_ADDRESS = re.compile(r"(\[[\w:.%]+\]|[\w.-]+):(\d{1,5})")
PORTS = 2**16
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def number_or_none(value: Any) -> Any:
    """Read empty text, ``none`` and ``null`` as None; reject booleans."""
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")  # noqa: TRY004 - pydantic reports ValueError
    if isinstance(value, str) and value.strip().lower() in {"", "none", "null"}:
        return None
    return value


def rate(value: Any) -> Any:
    """Read a number of starts per second, or Celery's notation ``"100/m"``."""
    value = number_or_none(value)
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None and isinstance(value, str) and "/" in value:
        raise ValueError("expected a number of starts per second, or N/s, N/m or N/h")
    return float(match[1]) * _PER_SECOND[match[2]] if match else value


def mapping(value: Any) -> Any:
    """Read a mapping, or JSON text of one."""
    parsed = _from_json(value) if isinstance(value, str) else value
    if not isinstance(parsed, Mapping):
        raise ValueError("expected a mapping by name, or a JSON object")  # noqa: TRY004
    return dict(parsed)


def function(value: Any) -> str | None:
    """Read ``package.module:function``, or None."""
    named = number_or_none(value)
    if named is not None and not (isinstance(named, str) and _FUNCTION.fullmatch(named.strip())):
        raise ValueError("expected 'package.module:function'")
    return None if named is None else named.strip()


def address(value: Any) -> str | None:
    """Read ``host:port``, with brackets around an IPv6 address, or None."""
    named = number_or_none(value)
    if named is None:
        return None
    found = _ADDRESS.fullmatch(named.strip()) if isinstance(named, str) else None
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
