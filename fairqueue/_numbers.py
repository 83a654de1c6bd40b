"""Which numbers of seconds are allowed."""

from __future__ import annotations

import math
from typing import Any

from fairqueue.errors import ConfigurationError


def seconds_from_zero(name: str, value: Any) -> float:
    """The value as seconds, 0 for less; ConfigurationError, with the name, for what is none."""
    try:
        number = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"{name} must be a finite number of seconds, not {value!r:.40}")
    return max(0.0, number)
