"""The Celery app of the shop. Nothing in the task is about queues."""

import os
import time

from celery import Celery

SETTINGS = "workspace_concurrency=2&workspace_capacity=100"
REDIS = os.environ.get("REDIS", "localhost:6379/0")
BROKER = f"fairqueue://{REDIS}?{SETTINGS}"

app = Celery("tasks", broker=BROKER, backend=BROKER)


@app.task(acks_late=True)
def report(month: str, *, seconds: float = 0.5) -> str:
    """Write one report."""
    time.sleep(seconds)
    return f"{month}.pdf"
