"""A queue with an hour behind it, in moved time: shares, waits, limits, pauses, dead letters."""

from __future__ import annotations

import time
from random import Random

from fairqueue import FairQueue, Lease, Scope
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.store import Store
from fairqueue.testing import ManualClock

STEP_SECONDS = 10.0
SLOTS = 24
LOADS = {
    "acme": 0.9,
    "globex": 0.55,
    "initech": 0.4,
    "umbrella": 0.22,
    "hooli": 0.3,
    "stark-industries": 0.2,
    "wayne-enterprises": 0.12,
    "wonka": 0.08,
    "tyrell": 0.06,
    "soylent": 0.05,
    "cyberdyne": 0.03,
}
TASKS = ("render", "send_mail", "sync_crm", "report")


def busy_queue(namespace: str = "shop", *, hour: float = 3600.0) -> FairQueue:
    """Play an hour of work; return the queue as it stands at its end, which is now."""
    clock = ManualClock()
    clock.advance(time.time() - hour - clock())
    queue = FairQueue(store=Store(MemoryEngine(namespace=namespace), clock=clock))
    queue.presence.describe("celery@worker-1", software="celery/5.5.0")
    queue.limits.set(Scope.workspace("acme"), concurrency=10, weight=2.0, capacity=5000)
    queue.limits.set(Scope.workspace("umbrella"), concurrency=2)
    queue.limits.set(Scope.workspace("hooli"), rate="6/m", burst=2)
    _play(queue, clock, hour)
    return queue


def _play(queue: FairQueue, clock: ManualClock, hour: float) -> None:
    random, running = Random(7), list[Lease]()
    for step in range(int(hour / STEP_SECONDS)):
        at = step * STEP_SECONDS / hour
        for name, load in LOADS.items():
            flood = 5.0 if name == "acme" and 0.3 < at < 0.42 else 1.0
            flood = 0.0 if name == "globex" and at < 0.2 else flood
            for _ in range(int(load * flood * 1.35 + random.random())):
                task, queue_name = random.choice(TASKS), random.choice(("default", "mail"))
                queue.publish(b'{"page": 3}', queue=queue_name, workspace=name, task=task)
        ended = [lease for lease in running if random.random() < 0.11]
        running = [lease for lease in running if lease not in ended]
        for lease in ended:
            if random.random() < 0.004:
                queue.reject(lease, reason="ValueError: no such page")
            else:
                queue.ack(lease, seconds=STEP_SECONDS)
        if running:
            queue.renew([(lease.fence, 1.0) for lease in running])
        running += queue.claim(["default", "mail"], SLOTS - len(running)).leases
        queue.tally.send_activity(queue.store.add_activity, now=True)
        if step == int(0.93 * hour / STEP_SECONDS):
            queue.pauses.pause(Scope.workspace("initech"))
        clock.advance(STEP_SECONDS)
    queue.publish(b"", queue="mail", workspace="wonka", task="report", delay_seconds=900)
