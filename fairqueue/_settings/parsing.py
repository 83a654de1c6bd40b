"""Parses the values of settings in options, URLs and environment variables."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PER_SECOND = {"s": 1.0, "m": 1 / 60, "h": 1 / 3600}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([smh])\s*")
_SOURCE = re.compile(
    r"(header|kwarg):.+|arg:\d+|(?!(header|kwarg|arg)s?:)[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
)

_ADDRESS = re.compile(r"(\[[\w:.%]+\]|[\w.-]+):(\d{1,5})")
PORTS = 2**16
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "t": True, "y": True}
_SWITCH |= {"0": False, "false": False, "no": False, "off": False, "f": False, "n": False}


def number_or_none(value: Any) -> Any:
    """Read empty text, ``none`` and ``null`` as None; reject booleans."""
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")  # noqa: TRY004
    if isinstance(value, str) and value.strip().lower() in {"", "none", "null"}:
        return None
    return value


def number(
    least: float, most: float = math.inf, *, above: bool = False, optional: bool = False
) -> Callable[[Any], Any]:
    """Read a finite number, from ``least`` or only ``above`` it; ``optional``: or None."""

    def read(value: Any) -> Any:
        value = number_or_none(value)
        return value if value is None and optional else _within(_float(value), least, most, above)

    return read


def whole(least: int, most: int, *, optional: bool = False) -> Callable[[Any], Any]:
    """Read a whole number; ``optional``: or None."""

    def read(value: Any) -> Any:
        value = number_or_none(value)
        return value if value is None and optional else _within(_int(value), least, most)

    return read


def _float(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("Input should be a valid number") from None
    if not math.isfinite(found):
        raise ValueError("Input should be a finite number")
    return found


def _int(value: Any) -> int:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not found.is_integer():
        raise ValueError("Input should be a valid integer")
    return int(found)


def _within(value: float, least: float, most: float, above: bool = False) -> float:  # noqa: FBT001, FBT002
    if value < least or (above and value == least):
        how = "greater than" if above else "greater than or equal to"
        raise ValueError(f"Input should be {how} {least:.12g}")
    if value > most:
        raise ValueError(f"Input should be less than or equal to {most:.12g}")
    return value


def one_of(*words: str) -> Callable[[Any], Any]:
    """Read one of these words."""
    *first, last = map(repr, words)

    def read(value: Any) -> Any:
        if value not in words:
            raise ValueError(f"Input should be {', '.join(first)} or {last}")
        return value

    return read


def switch(value: Any) -> bool:
    """Read a boolean, or a word for one."""
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word not in _SWITCH:
        raise ValueError("Input should be a valid boolean")
    return _SWITCH[word]


def path(value: Any) -> Path | None:
    """Read a path, or None."""
    named = number_or_none(value)
    if not isinstance(named, str | Path | None):
        raise ValueError("Input is not a valid path")  # noqa: TRY004
    return None if named is None else Path(named)


def rate(value: Any) -> Any:
    """Read a number of starts per second, or Celery's notation ``"100/m"``."""
    value = number_or_none(value)
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None and isinstance(value, str) and "/" in value:
        raise ValueError("expected a number of starts per second, or N/s, N/m or N/h")
    per_second = float(match[1]) * _PER_SECOND[match[2]] if match else value
    return None if value is None else _within(_float(per_second), 0, 1e9, above=True)


def options(value: Any) -> Mapping[str, Any]:
    """Read the settings of an entry."""
    if not isinstance(value, Mapping):
        raise ValueError("Input should be a valid dictionary")  # noqa: TRY004
    return {str(name): of for name, of in value.items()}


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
