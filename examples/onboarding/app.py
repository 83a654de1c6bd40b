"""Onboards a customer in three steps. The worker dies once, right behind the second one."""

import os
import signal
from pathlib import Path

from celery import Celery

from fairqueue import step

BROKER = os.environ.get("BROKER", "fairqueue://")
CRASH = Path(os.environ.get("CRASH", "crash"))
"""While there is this file, the worker dies behind the second step, and removes it."""

app = Celery("app", broker=f"{BROKER}?workspace_from=kwarg:tenant_id&lease_seconds=5")


def create_customer(user, key):
    """Stands for an API that takes an idempotency key."""
    print(f"create customer {user} (key {key})", flush=True)
    return {"id": f"cus_{user}"}


def assign_seats(customer, n):
    """Stands for a write to your database."""
    print(f"assign {n} seats to {customer}", flush=True)


def send_welcome(user):
    """Stands for a mail."""
    print(f"send welcome to {user}", flush=True)


@app.task(acks_late=True)
def onboard(user: str, *, tenant_id: str) -> None:
    """Each step runs once, also after a crash."""
    print(f"onboard {user} of {tenant_id}", flush=True)
    customer = step.run("customer", create_customer, user, step.key("customer"))
    step.run("seats", assign_seats, customer["id"], 3)
    if CRASH.exists():
        CRASH.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    step.run("mail", send_welcome, user)
