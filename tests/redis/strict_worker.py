"""One worker process of the strictness test, which may be killed at any moment.

Each ledger line is one append: the event, the fence, and the time by this machine's monotonic
clock. A lease is live at least from its start line to its end line: the start line is written
after the claim was answered, and the end line before the store is called.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import Any

from fairqueue import FairQueue, Lease, LeaseLost
from fairqueue.adapters import Ending, Finish, LeaseKeeper

ENDINGS = {"ack": 60, "with the next claim": 25, "early": 8, "release": 8, "delay": 4, "abandon": 1}


class Ledger:
    """A file to which every process appends whole lines."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, event: str, fence: int, **more: Any) -> None:
        line = {"event": event, "fence": fence, "at": time.monotonic(), "pid": os.getpid(), **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")


class Worker:
    """Claims two jobs at a time, runs each for a moment, and ends it in a random way."""

    def __init__(self, queue: FairQueue, ledger: Ledger, seed: int) -> None:
        self.queue, self.ledger, self.rnd = queue, ledger, random.Random(seed)
        self.keeper = LeaseKeeper(queue)
        self.finishes: list[Finish] = []
        self.stopped = False

    def run(self, queues: list[str]) -> None:
        while not self.stopped:
            finishes, self.finishes = self.finishes, []
            claimed = self.queue.claim(queues, 2, wait_seconds=0.2, finishes=finishes)
            for finish in finishes:
                if finish.fence in claimed.lost:
                    self.write_lost(finish.fence)
                else:
                    self.ledger.write("done", finish.fence)
                self.keeper.forget(finish.fence)
            for lease in claimed.leases:
                self.keeper.hold(lease, on_lost=self.lose)
                self.start(lease)
            for lease in claimed.leases:
                self.work(lease)
        self.queue.finish(self.finishes)

    def lose(self, lease: Lease) -> None:
        self.write_lost(lease.fence)

    def write_lost(self, fence: int) -> None:
        self.ledger.write("lost", fence, until=self.keeper.deadline(fence))

    def start(self, lease: Lease) -> None:
        job, until = lease.job, lease.received_monotonic + lease.lease_seconds
        self.ledger.write(
            "start", lease.fence, job=job.id, workspace=job.workspace, queue=job.queue, until=until
        )

    def work(self, lease: Lease) -> None:
        self.keeper.started(lease.fence)
        long = self.rnd.random() < 0.02
        time.sleep(self.rnd.uniform(0.8, 1.5) if long else self.rnd.uniform(0, 0.03))
        ending = self.rnd.choices(list(ENDINGS), list(ENDINGS.values()))[0]
        try:
            self.end(lease, ending)
        except LeaseLost:
            self.write_lost(lease.fence)

    def end(self, lease: Lease, ending: str) -> None:
        seconds = self.keeper.seconds(lease.fence)
        if ending == "early":
            self.queue.ack_early(lease)
            self.keeper.no_redelivery(lease.fence)
            self.ledger.write("early", lease.fence)
            time.sleep(self.rnd.uniform(0, 0.02))
        if ending == "abandon":
            self.keeper.forget(lease.fence)
            self.ledger.write("abandoned", lease.fence)
            return
        self.ledger.write("end", lease.fence)
        if ending == "with the next claim":
            self.finishes.append(Finish(lease.fence, Ending.ACK, seconds))
            return
        if ending in {"release", "delay"}:
            delay = 0.3 if ending == "delay" else 0.0
            self.queue.release(lease, delay_seconds=delay, seconds=seconds)
            self.ledger.write("released", lease.fence)
        else:
            self.queue.ack(lease, seconds=seconds)
            self.ledger.write("done", lease.fence)
        self.keeper.forget(lease.fence)


def main() -> None:
    """Work until SIGTERM."""
    options = json.loads(sys.argv[1])
    queue = FairQueue(options["url"], **options["settings"])
    worker = Worker(queue, Ledger(options["ledger"]), options["seed"])

    def stop(*_: object) -> None:
        worker.stopped = True

    signal.signal(signal.SIGTERM, stop)
    worker.run(options["queues"])


if __name__ == "__main__":
    main()
