"""The Django app: it checks the settings, and has the command ``manage.py fairqueue``."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks

from fairqueue import ConfigurationError
from fairqueue_web.django.conf import front_door


class FairQueueConfig(AppConfig):
    """It has no models, no tables and no pages in the admin."""

    name = "fairqueue_web.django"
    label = "fairqueue"
    verbose_name = "fairqueue"

    def ready(self) -> None:
        """Let ``manage.py check`` read the settings."""
        checks.register(_settings_are_right)


def _settings_are_right(**_: Any) -> list[checks.CheckMessage]:
    try:
        front_door()
    except ConfigurationError as error:
        return [checks.Error(f"the setting FAIRQUEUE: {error}", id="fairqueue.E001")]
    return []
