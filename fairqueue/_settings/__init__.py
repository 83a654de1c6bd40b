"""The settings: their model, how text is parsed, and error messages."""

from __future__ import annotations

from fairqueue._settings.model import (
    LIMITS,
    Settings,
    live_limits,
)
from fairqueue._settings.url import ENCODED, mask_password, servers_of, split_settings

__all__ = [
    "ENCODED",
    "LIMITS",
    "Settings",
    "live_limits",
    "mask_password",
    "servers_of",
    "split_settings",
]
