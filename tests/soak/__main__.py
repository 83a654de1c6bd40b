"""A soak: real workers of each kind under a mixed load, watched for growth: ``make soak-load``.

python -m tests.soak [--minutes 120] [--per-second 40] [--seed N] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.soak import judge, samples
from tests.soak.settings import SETTINGS
from tests.system.ledger import Ledger

if TYPE_CHECKING:
    from tests.soak.load import Load

APPS = Path(__file__).parent / "apps"
BIN = Path(sys.executable).parent
CELERY = [str(BIN / "celery"), "-A", "soak_celery", "worker", "-l", "WARNING", "-c", "4"]
DRAMATIQ = [str(BIN / "dramatiq"), "soak_dramatiq", "-p", "1", "-t", "6"]
WORKERS = {
    "prefork": [*CELERY, "-P", "prefork"],
    "threads": [*CELERY, "-P", "threads"],
    "gevent": [*CELERY, "-P", "gevent"],
    "dramatiq": DRAMATIQ,
    "prefork, replaced": [*CELERY, "-P", "prefork"],
    "dramatiq, replaced": DRAMATIQ,
}
DEPLOY_SECONDS, SAMPLE_SECONDS, DRAIN_SECONDS = 600.0, 60.0, 240.0


class Fleet:
    """The workers; those that are replaced are stopped warm once another one runs."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self.living: dict[str, subprocess.Popen[bytes]] = {}
        for name in WORKERS:
            self.start(name)

    def start(self, name: str) -> None:
        """Start a worker, without waiting for it."""
        self._count += 1
        command = WORKERS[name]
        if command is not DRAMATIQ:
            command = [*command, "-n", f"w{self._count}@soak"]
        with (self._folder / f"{self._count} {name}.log").open("wb") as log:
            self.living[name] = subprocess.Popen(
                command, cwd=APPS, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def replace(self, name: str) -> None:
        """Start another one, then stop the one before."""
        before = self.living[name]
        self.start(name)
        time.sleep(10)
        before.send_signal(signal.SIGTERM)
        before.wait(120)

    def close(self) -> None:
        """Stop all."""
        for process in self.living.values():
            process.send_signal(signal.SIGTERM)
        for process in self.living.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class Watch:
    """Takes a sample each minute, and replaces a worker each ten."""

    def __init__(self, fleet: Fleet, server: EmbeddedServer, queue: FairQueue, file: Path) -> None:
        self._fleet, self._server, self._queue, self._file = fleet, server, queue, file
        self.taken: list[samples.Sample] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._sample, self._deploy)]
        for thread in self._threads:
            thread.start()

    def _sample(self) -> None:
        began = time.monotonic()
        with self._server.client() as client:
            while not self._stopping.wait(SAMPLE_SECONDS):
                roots = {name: worker.pid for name, worker in self._fleet.living.items()}
                rows = self._queue.views.stats().workspaces
                self.taken.append({
                    "minutes": (time.monotonic() - began) / 60,
                    "process": samples.of_processes(roots),
                    "producer": samples.of_process(os.getpid()),
                    "server": samples.of_server(client),
                    "key": samples.of_keys(client),
                    "waiting": sum(row.waiting for row in rows),
                })  # fmt: skip
                with self._file.open("a") as file:
                    file.write(json.dumps(self.taken[-1]) + "\n")

    def _deploy(self) -> None:
        turn = 0
        while not self._stopping.wait(DEPLOY_SECONDS):
            self._fleet.replace([name for name in WORKERS if "replaced" in name][turn % 2])
            turn += 1

    def stop(self) -> None:
        """Take no more."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()


def drain(load: Load, queue: FairQueue) -> tuple[int, int]:
    """Wait until all jobs are done; return how many wait and how many slots are taken even so."""
    until = time.monotonic() + DRAIN_SECONDS
    while True:
        time.sleep(2)
        load.replay()
        rows = queue.views.stats().workspaces
        left = sum(row.waiting + row.scheduled for row in rows), sum(row.running for row in rows)
        if not any(left) or time.monotonic() > until:
            return left


def play(folder: Path, *, minutes: float, per_second: float, seed: int) -> bool:
    """Play a soak and print what was found; return whether the ledger is good."""
    ledger = Ledger(folder / "ledger")
    with embedded_redis(tcp=True) as server, embedded_redis(tcp=True) as told:
        os.environ.update(
            SOAK_LEDGER=str(ledger.path),
            SOAK_URL=f"redis://{server.tcp_address}/0",
            SOAK_RESULTS=f"redis://{told.tcp_address}/0",
            SOAK_SETTINGS=json.dumps(SETTINGS),
        )
        sys.path.insert(0, str(APPS))
        from tests.soak.load import Load  # noqa: PLC0415 (its apps read the variables)

        fleet = Fleet(folder)
        with FairQueue(os.environ["SOAK_URL"], namespace=SETTINGS["namespace"]) as queue:
            try:
                time.sleep(15)
                load = Load(queue, random.Random(seed))
                watch = Watch(fleet, server, queue, folder / "samples")
                until = time.monotonic() + minutes * 60
                while time.monotonic() < until:
                    load.step()
                    time.sleep(load.chance.expovariate(per_second))
                load.finish()
                watch.stop()
                waiting, running = drain(load, queue)
            finally:
                fleet.close()
    found = judge.verdict(load, ledger.lines())
    found |= {"stuck": [waiting][: waiting > 0], "leaked": [running][: running > 0]}
    tell(folder, load, found, watch.taken)
    return not any(found.values())


def tell(
    folder: Path, load: Load, found: dict[str, list[object]], taken: list[samples.Sample]
) -> None:
    """Print how much was played, what was found, and how each number grew."""
    said = [f"{len(load.must)} jobs: {dict(load.counts)}"]
    said += [f"{name}: {len(rows)} {rows[:5] or ''}" for name, rows in found.items()]
    if taken:
        said += [f"{name}: {early:.1f}, {late:.1f}, at most {most:.1f}"
                 for name, early, late, most in samples.growth(taken)]  # fmt: skip
    (folder / "verdict").write_text("\n".join(said) + "\n")
    print(*said, f"all in {folder}", sep="\n")  # noqa: T201


def main(arguments: Sequence[str]) -> int:
    """Play a soak; 1: something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--per-second", type=float, default=40)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all chances")
    parser.add_argument("--keep", type=Path, help="a folder for logs, ledger and samples")
    chosen = parser.parse_args(arguments)
    folder = chosen.keep or Path(tempfile.mkdtemp(prefix="fairqueue-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    how = {"minutes": chosen.minutes, "per_second": chosen.per_second, "seed": chosen.seed}
    return 0 if play(folder, **how) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
