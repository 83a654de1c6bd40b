"""The Celery app of the shop. Nothing in the task is about queues."""

import os
import time

from celery import Celery

SETTINGS = "workspace_concurrency=2&workspace_capacity=100"
IN_TESTS = os.environ.get("APP_ENV") == "test"
REDIS = os.environ.get("REDIS", "localhost:6379/0")
BROKER = f"{'fairqueue+memory://shop' if IN_TESTS else f'fairqueue://{REDIS}'}?{SETTINGS}"

app = Celery("tasks", broker=BROKER, backend=BROKER)


@app.task(acks_late=True)
def report(month: str, *, seconds: float = 0.5) -> str:
    """Write one report."""
    time.sleep(seconds)
    return f"{month}.pdf"
