"""The Django app: it checks the settings, and has the command ``manage.py fairqueue``."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth import get_user_model
from django.core import checks

from fairqueue import ConfigurationError
from fairqueue_web.django.conf import front_door, options

USER = "user:"


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
    given = options().get("workspace_from", ())
    sources = given if isinstance(given, list | tuple) else [given]
    users = (each for each in sources if isinstance(each, str) and each.startswith(USER))
    paths = [source.removeprefix(USER) for source in users]
    return [
        checks.Error(
            f"the setting FAIRQUEUE: workspace_from: 'user:{path}': {missing}; requests of such "
            "users would fail",
            id="fairqueue.E002",
        )
        for path in paths
        if (missing := _missing_of_user(path))
    ]


def _missing_of_user(path: str) -> str | None:
    """Say which part of a path the project's user model lacks, as far as its fields tell."""
    if not apps.is_installed("django.contrib.auth"):
        return None
    model = get_user_model()
    for name in path.split("."):
        if not hasattr(model, name):
            return f"the model {model.__name__} has no {name!r}"
        fields = {field.name: field for field in model._meta.get_fields()}  # noqa: SLF001 - Django's own name
        model = getattr(fields.get(name), "related_model", None)
        if model is None:
            return None
    return None
