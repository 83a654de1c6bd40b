"""A producer and worker of one release, started beside those of another.

It uses only what both have. Each line of the ledger is one append.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import Any

import fairqueue
from fairqueue import FairQueue, LeaseLost
from fairqueue.adapters import LeaseKeeper

LEDGER, RELEASE = sys.argv[1], sys.argv[2]
OPTIONS: dict[str, Any] = json.loads(sys.argv[3])
WORKSPACES = ("a", "b", "c")


def note(what: str, **more: Any) -> None:
    line = {"what": what, "release": RELEASE, "at": time.monotonic(), "pid": os.getpid(), **more}
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, json.dumps(line).encode() + b"\n")
    os.close(ledger)


def publish(queue: FairQueue, chance: random.Random, n: int) -> None:
    """Publish in the ways that are common, and some that are not."""
    workspace, kind = chance.choice(WORKSPACES), chance.random()
    more: dict[str, Any] = {}
    if kind < 0.1:
        more["delay_seconds"] = 0.2
    elif kind < 0.2:
        more["expires_seconds"] = 600
    elif kind < 0.3:
        more["unique_key"] = f"{RELEASE}-{n}"
    elif kind < 0.4:
        more["priority"] = 3
    job = queue.publish(
        RELEASE.encode(),
        queue=chance.choice(("q", "r")),
        workspace=workspace,
        task=chance.choice(("t", "u")),
        **more,
    )
    note("published", job=str(job), workspace=workspace)


def work(queue: FairQueue, keeper: LeaseKeeper, chance: random.Random) -> None:
    """Run what is there, for a moment each; some give their job back."""
    for lease in queue.claim(["q", "r"], 2, wait_seconds=0.1).leases:
        job = lease.job
        keeper.hold(lease)
        note("started", job=job.id, workspace=job.workspace, task=job.task, fence=lease.fence)
        time.sleep(chance.uniform(0.0, 0.02))
        is_done = chance.random() < 0.9
        note("ended", job=job.id, fence=lease.fence, by=job.payload.decode(), done=is_done)
        try:
            if is_done:
                queue.ack(lease)
            else:
                queue.release(lease, counted=False)
        except LeaseLost:
            note("lost", job=job.id, fence=lease.fence)
        keeper.forget(lease.fence)


def main() -> None:
    """Publish and work until the first SIGTERM, then only work until the next."""
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
    chance = random.Random(RELEASE + str(OPTIONS["seed"]))
    note("began", file=fairqueue.__file__)
    with FairQueue(OPTIONS["url"], authoritative=True, **OPTIONS["settings"]) as queue:
        keeper = LeaseKeeper(queue)
        n = 0
        while len(stops) < 2:
            if not stops:
                n += 1
                publish(queue, chance, n)
            work(queue, keeper, chance)
        keeper.stop()


if __name__ == "__main__":
    main()
