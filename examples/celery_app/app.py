"""A Celery app that writes one report per call. Only its broker URL mentions fairqueue."""

import os

from celery import Celery

SETTINGS = (
    "workspace_from=kwarg:tenant_id"
    "&workspace_concurrency=2"  # running jobs per workspace
    "&workspace_capacity=1000"  # waiting jobs per workspace
    "&run_beat_schedule=true"  # the workers publish beat_schedule: there is no beat process
)
BROKER = os.environ.get("BROKER", "fairqueue://")  # Celery itself reads BROKER_URL

app = Celery("app", broker=f"{BROKER}?{SETTINGS}", backend=f"{BROKER}?{SETTINGS}")
app.conf.beat_schedule = {
    "daily": {
        "task": "app.report",
        "schedule": 86_400.0,
        "args": ("today",),
        "kwargs": {"tenant_id": "ada"},
    },
}


@app.task(bind=True)
def report(self, month: str, *, tenant_id: str) -> str:
    """Write one report, and tell how far it is."""
    self.update_state(state="PROGRESS", meta={"current": 1, "total": 2})
    print(f"report of {month} for {tenant_id}", flush=True)
    return f"{month}.pdf"
