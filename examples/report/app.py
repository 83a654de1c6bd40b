"""A report of several parts. It holds no slot and no process while its parts are made."""

import os

from celery import Celery

from fairqueue import step

BROKER = os.environ.get("BROKER", "fairqueue://")
BACKEND = os.environ.get("RESULT_BACKEND", "cache+memory://")
LIMITS = "workspace_from=kwarg:tenant_id&workspace_concurrency=1"

app = Celery("app", broker=f"{BROKER}?{LIMITS}", backend=BACKEND)


@app.task
def count_orders(shop: str, *, tenant_id: str) -> int:
    """One part: an ordinary task."""
    print(f"count the orders of {shop} of {tenant_id}", flush=True)
    return len(shop)


@app.task
def send_mail(text: str, *, tenant_id: str) -> None:
    """Nothing waits for this one."""
    print(f"mail to {tenant_id}: {text}", flush=True)


@app.task(acks_late=True)
def report(shops: list[str], *, tenant_id: str) -> int:
    """It runs again from the top behind each part that it waits for; each part runs once."""
    for shop in shops:
        step.send(f"count {shop}", count_orders, shop, tenant_id=tenant_id)
    total = sum(step.result(f"count {shop}") for shop in shops)
    step.send("mail", send_mail, f"{total} orders", tenant_id=tenant_id)
    return total
