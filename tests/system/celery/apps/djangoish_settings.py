"""A settings module as in Django: Celery's settings begin with CELERY_."""

from __future__ import annotations

import os

DEBUG = False
CELERY_BROKER_URL = os.environ["DEPOT_URL"]
CELERY_RESULT_BACKEND = CELERY_BROKER_URL
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": "mine:"}
CELERY_RESULT_BACKEND_TRANSPORT_OPTIONS = {"global_keyprefix": "mine:"}
CELERY_TASK_ACKS_LATE = True
CELERY_BEAT_SCHEDULE = {
    "tick": {
        "task": "djangoish.whoami",
        "schedule": 0.25,
        "kwargs": {"tenant_id": "clock"},
    }
}
