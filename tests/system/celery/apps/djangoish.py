"""The same app, configured from a module of prefixed settings as in Django projects."""

from __future__ import annotations

from curious import whoami  # type: ignore[import-not-found]
from shop import app  # type: ignore[import-not-found]

app.config_from_object("djangoish_settings", namespace="CELERY")
app.task(name="djangoish.whoami")(whoami.run)
