"""The setting ``FAIRQUEUE`` of Django, and the front door that it describes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from fairqueue import ConfigurationError
from fairqueue_web._door import FrontDoor


def options() -> dict[str, Any]:
    """Return the setting; empty if there is none."""
    found = getattr(settings, "FAIRQUEUE", {})
    if not isinstance(found, Mapping):
        raise ConfigurationError(f"it must be a dict, not {type(found).__name__}")
    return dict(found)


@cache
def front_door() -> FrontDoor:
    """Return the front door of this process. ConfigurationError says what is wrong."""
    given = options()
    return FrontDoor(given.pop("url", None), **given)


def _forget(*, setting: str, **_: Any) -> None:
    """A test has overridden the setting."""
    if setting == "FAIRQUEUE":
        front_door.cache_clear()


setting_changed.connect(_forget)
