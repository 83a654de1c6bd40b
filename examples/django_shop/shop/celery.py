"""The Celery app, as Celery's documentation has it for Django."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

app = Celery("shop", include=["shop.tasks"])
app.config_from_object("django.conf:settings", namespace="CELERY")
