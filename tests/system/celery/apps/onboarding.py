"""Tasks with durable steps, whose effects are lines of the ledger. The worker dies when told."""

from __future__ import annotations

import os
import signal

from celery import signals
from shop import app, note  # type: ignore[import-not-found]

import fairqueue
from fairqueue import step

DIES = ("in one", "after one", "before two", "after all")
"""Where each delivery of a job dies, in turn; the next one completes it."""


def deliveries() -> int:
    """How often this job was delivered."""
    job = fairqueue.current()
    assert job is not None
    return job.deliveries


started: list[int] = []
"""The deliveries that have begun here."""


def die(where: str) -> None:
    """Kill this worker, if its delivery is to die here."""
    if DIES[started[-1] - 1 : started[-1]] == (where,):
        os.kill(os.getpid(), signal.SIGKILL)


def effect(name: str) -> int:
    die(f"before {name}")
    note("effect", step=name, key=step.key(name))
    die(f"in {name}")
    return started[-1]


@app.task(name="shop.onboard", acks_late=True)
def onboard(tenant_id: str | None = None) -> None:
    started.append(deliveries())
    values = []
    for name in ("one", "two", "three"):
        values.append(step.run(name, effect, name))
        die(f"after {name}")
    note("end", values=values)


@signals.worker_ready.connect
def _die_before_the_ack(**_: object) -> None:
    def after_all(**_: object) -> None:
        die("after all")

    signals.task_postrun.connect(after_all, weak=False)
