"""The settings: their model, how text is parsed, and error messages."""

from __future__ import annotations

from fairqueue._settings.model import LIMITS, Settings, limits_of
from fairqueue._settings.url import ENCODED, mask_password, servers_of, split_settings

__all__ = [
    "ENCODED",
    "LIMITS",
    "Settings",
    "limits_of",
    "mask_password",
    "servers_of",
    "split_settings",
]
