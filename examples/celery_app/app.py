"""A Celery app that writes one report per call. Only its broker URL mentions fairqueue."""

import os

from celery import Celery

SETTINGS = (
    "workspace_from=kwarg:tenant_id"
    "&workspace_concurrency=2"  # running jobs per workspace
    "&workspace_capacity=1000"  # waiting jobs per workspace
)
BROKER = os.environ.get("BROKER", "fairqueue://")

app = Celery("app", broker=f"{BROKER}?{SETTINGS}", backend=f"{BROKER}?{SETTINGS}")


@app.task
def report(month: str, *, tenant_id: str) -> str:
    """Write one report."""
    print(f"report of {month} for {tenant_id}", flush=True)
    return f"{month}.pdf"
