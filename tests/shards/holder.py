"""A process that runs jobs under limits over all shards, and notes each that begins and ends."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Sequence

import redis

from fairqueue import FairQueue, Lease
from fairqueue._keeper import LeaseKeeper
from fairqueue.adapters import Finish

SHARDS, LIMIT, LEASE_SECONDS, SLOTS = 8, 3, 4.0, 2


def open_queue(url: str) -> FairQueue:
    """Open the queue as each of them does."""
    return FairQueue(url, shards=SHARDS, total_concurrency=LIMIT, lease_seconds=LEASE_SECONDS)


def main(url: str) -> None:
    """Run jobs until killed."""
    queue, notes = open_queue(url), redis.Redis.from_url(url)
    keeper, finishes = LeaseKeeper(queue), tuple[Finish, ...]()
    while True:
        seconds = 0.0 if finishes else 1.0
        leases = queue.claim(["q"], SLOTS, wait_seconds=seconds, finishes=finishes).leases
        finishes = run(leases, keeper, notes)


def run(leases: Sequence[Lease], keeper: LeaseKeeper, notes: redis.Redis) -> tuple[Finish, ...]:
    """Run some jobs at once; one whose lease is lost does not begin, or is over."""
    running = []
    for lease in leases:
        keeper.hold(lease)
        if keeper.may_begin(lease.fence):
            running.append(lease)
            with notes.pipeline() as both:
                both.sadd("running", f"{os.getpid()} {lease.fence}")
                both.scard("running")
                if both.execute()[1] > LIMIT:
                    notes.incr("above")
    until = time.monotonic() + random.uniform(0.02, 0.1)
    while time.monotonic() < until and not any(keeper.is_lost(each.fence) for each in running):
        time.sleep(0.01)
    for lease in running:
        notes.srem("running", f"{os.getpid()} {lease.fence}")
        notes.sadd("done", lease.job.id)
    finishes = tuple(Finish(lease.fence) for lease in running)
    for lease in leases:
        keeper.forget(lease.fence)
    return finishes


if __name__ == "__main__":
    main(sys.argv[1])
