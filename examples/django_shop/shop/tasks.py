"""A task. It knows nothing of workspaces."""

from shop.celery import app


@app.task(acks_late=True)
def report(month: str) -> str:
    """Write one report."""
    return f"{month}.pdf"
