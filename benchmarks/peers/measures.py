"""What is measured of a peer: one turn of it, and the recovery from kill -9."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from peers.catalogue import SLOTS, Peer
from peers.fleet import Fleet, Job

NOISY, LIGHT = "workspace-0", tuple(f"workspace-{n}" for n in range(1, 10))
Figures = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """How many jobs, and how long; the defaults are those of the page."""

    noisy: int = 2000
    beside: int = 1000
    """Its jobs where the light workspaces publish meanwhile."""
    light: int = 50
    """Jobs of each of the nine light workspaces."""
    seconds: float = 0.02
    """How long a job of the noisy and of the light workspaces takes."""
    paced_seconds: float = 3.0
    """The time in which the light workspaces publish, where their waits are measured."""
    backlog: int = 600
    lone: int = 20
    patience: float = 12.0
    """How long a phase is watched."""
    drain_seconds: float = 8.0
    killed_seconds: float = 8.0
    """How long the jobs of the killed worker take; 0: none is killed."""
    kill_after: float = 1.0
    recovery_patience: float = 45.0


SMALL = Sizes(noisy=60, beside=60, light=4, paced_seconds=0.4, backlog=40, lone=3, killed_seconds=0)


def turn(peer: Peer, sizes: Sizes) -> Figures:
    """Play a peer once, with a server, a worker and a producer of its own."""
    fleet = Fleet(peer)
    try:
        fleet.start()
        memory = {"worker MB": fleet.worker_bytes() / 1e6}
        return {
            **memory,
            **_latency(fleet, sizes),
            **_backlog(fleet, sizes),
            **_isolation(fleet, sizes),
        }
    finally:
        fleet.close()


def _latency(fleet: Fleet, sizes: Sizes) -> Figures:
    """Lone jobs on an idle worker, from the publish to the start."""
    numbers = fleet.publish([(LIGHT[0], 0.0, 0.05 * n) for n in range(sizes.lone)])
    fleet.wait_for(lambda jobs: all(jobs[n].ends for n in numbers), sizes.patience)
    jobs = fleet.jobs()
    waits = [_within(jobs[n].wait, sizes) for n in numbers]
    return {"start ms": 1e3 * median(waits)}


def _backlog(fleet: Fleet, sizes: Sizes) -> Figures:
    """Jobs without duration that pile up before a stopped worker, then are worked off."""
    with _held_idle(fleet, sizes):
        began = time.monotonic()
        workspaces = (NOISY, *LIGHT)
        of = [(workspaces[n % len(workspaces)], 0.0, 0.0) for n in range(sizes.backlog)]
        numbers = fleet.publish(of)
        published = time.monotonic() - began
    fleet.wait_for(lambda jobs: all(jobs[n].starts for n in numbers), sizes.patience)
    jobs = fleet.jobs()
    starts = sorted(jobs[n].starts[0] for n in numbers if jobs[n].starts)
    return {
        "published /s": sizes.backlog / published,
        "jobs /s": (len(starts) - 1) / (starts[-1] - starts[0]),
    }


def _isolation(fleet: Fleet, sizes: Sizes) -> Figures:
    """The light workspaces alone; behind a flood at once; and beside a flood, paced."""
    alone = _paced(fleet, sizes)
    with _held_idle(fleet, sizes):
        fleet.publish([(NOISY, sizes.seconds, 0.0)] * sizes.beside)
    beside = _paced(fleet, sizes)
    burst = _flood(fleet, sizes)
    return {
        "alone p99 ms": 1e3 * alone,
        "beside p99 ms": 1e3 * beside,
        "isolation": beside / alone,
        **burst,
    }


@contextmanager
def _held_idle(fleet: Fleet, sizes: Sizes) -> Iterator[None]:
    """Stop the worker when it is idle: else jobs that are stopped take long, and count as long."""
    fleet.wait_for(lambda jobs: all(job.ends for job in jobs.values()), sizes.drain_seconds)
    with fleet.held():
        yield


def _paced(fleet: Fleet, sizes: Sizes) -> float:
    """The p99 of the waits of light jobs that are published one after the other."""
    count = sizes.light * len(LIGHT)
    apart = sizes.paced_seconds / count
    of = [(LIGHT[n % len(LIGHT)], sizes.seconds, apart * n) for n in range(count)]
    numbers = fleet.publish(of)
    fleet.wait_for(lambda jobs: all(jobs[n].starts for n in numbers), sizes.patience)
    jobs = fleet.jobs()
    waits = sorted(_within(jobs[n].wait, sizes) for n in numbers)
    return waits[min(len(waits) - 1, int(0.99 * len(waits)))]


def _flood(fleet: Fleet, sizes: Sizes) -> Figures:
    """One workspace floods, nine follow at once: their waits, shares, and the slots in use."""
    with _held_idle(fleet, sizes):
        before = fleet.server.used_bytes()
        noisy = fleet.publish([(NOISY, sizes.seconds, 0.0)] * sizes.noisy)
        taken = fleet.server.used_bytes() - before
        light = fleet.publish(
            [(name, sizes.seconds, 0.0) for _ in range(sizes.light) for name in LIGHT]
        )
        since = time.monotonic()
    begun = fleet.wait_for(lambda jobs: all(jobs[n].starts for n in light), sizes.patience)
    jobs = fleet.jobs()
    done = max(jobs[n].starts[0] for n in light) if begun else since + sizes.patience
    return {
        "bytes per job": taken / sizes.noisy,
        "flood s": done - since,
        "jain": jain(first_starts([jobs[n] for n in noisy + light], sizes)),
        "slots in use": _busy(jobs, since, done) / max(1e-9, SLOTS * (done - since)),
    }


def first_starts(jobs: Sequence[Job], sizes: Sizes) -> list[int]:
    """How many of the first starts of these jobs each workspace has.

    Few enough that all workspaces still have jobs: nine tenths of what the light ones have.
    """
    shown = int(0.9 * sizes.light) * (len(LIGHT) + 1)
    starts = sorted((at, job.workspace) for job in jobs for at in job.starts[:1])
    counted = [workspace for _, workspace in starts[:shown]]
    return [counted.count(name) for name in (NOISY, *LIGHT)]


def jain(shares: list[int]) -> float:
    """Jain's index: 1 where all are served alike, 1/n where one has everything.

    All workspaces have jobs, no limit is below an equal part, and all jobs take equally long:
    the max-min share of each is an equal part, and the index of starts is that of shares.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def _busy(jobs: dict[int, Job], since: float, until: float) -> float:
    """Worker-seconds in a span."""
    spans = (
        (max(start, since), min(end, until))
        for job in jobs.values()
        for start, end in zip(job.starts, job.ends or [until], strict=False)
    )
    return sum(end - start for start, end in spans if end > start)


def _within(wait: float, sizes: Sizes) -> float:
    """A wait of a job that has not begun counts as the patience, and more is not known."""
    return min(wait, sizes.patience)


def recovery(peer: Peer, sizes: Sizes) -> Figures:
    """Kill one of two workers that are full: when all that it ran or held has begun again."""
    fleet = Fleet(peer, recover=peer.recover)
    try:
        fleet.start()
        struck = None if peer.one_worker else fleet.start_second()
        many = SLOTS if peer.one_worker else 2 * SLOTS
        numbers = fleet.publish(
            [(LIGHT[n % len(LIGHT)], sizes.killed_seconds, 0.0) for n in range(many)]
        )
        fleet.wait_for(lambda jobs: any(jobs[n].starts for n in numbers), sizes.patience)
        time.sleep(sizes.kill_after)
        struck = struck and fleet.busier(struck, numbers)
        dead = set(fleet.pids(struck))
        fleet.kill(struck)
        killed_at = time.monotonic()
        if peer.one_worker:
            fleet.start_worker()
        jobs = fleet.jobs()
        waited_for = [n for n in numbers if not jobs[n].starts or set(jobs[n].by) & dead]
        running = {n for n in waited_for if jobs[n].starts}

        def begun(found: dict[int, Job]) -> list[float]:
            firsts = [[at for at in found[n].starts if at > killed_at] for n in waited_for]
            return [first[0] - killed_at for first in firsts if first]

        fleet.wait_for(lambda jobs: len(begun(jobs)) == len(waited_for), sizes.recovery_patience)
        again = begun(fleet.jobs())
    finally:
        fleet.close()
    return {
        "struck": len(running),
        "not again": len(waited_for) - len(again),
        "recovery s": max(again, default=0.0),
    }
