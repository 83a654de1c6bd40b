"""A peer at work: its server, workers, a producer, and the ledger of its jobs; needs /proc."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairqueue.testing import Child
from peers import environments
from peers.catalogue import LIMIT, SLOTS, Peer
from peers.servers import PostgresServer, RedisServer

BOOT_SECONDS = 60.0
Publish = tuple[str, float, float]
"""A job to publish: its workspace, its duration, and when, in seconds from now."""


@dataclass
class Job:
    """What the ledger says of one job."""

    workspace: str
    published: float = 0.0
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    by: list[int] = field(default_factory=list)
    """The processes that started it."""

    @property
    def wait(self) -> float:
        """From its publish to its first start; without a start, for ever."""
        return self.starts[0] - self.published if self.starts else float("inf")


Reached = Callable[[dict[int, Job]], bool]


class Fleet:
    """Started when it is made; :meth:`close` ends every process of it."""

    def __init__(self, peer: Peer, *, recover: int = 0) -> None:
        self.peer = peer
        self._folder = Path(tempfile.mkdtemp(prefix="peers-"))
        self._ledger = self._folder / "ledger"
        self._ledger.touch()
        self.server = PostgresServer() if peer.scheme == "postgresql" else RedisServer()
        query = peer.query + (f"&lease_seconds={recover}" if peer.query and recover else "")
        self._variables = environments.variables(peer.environment) | {
            "PEER_URL": self.server.url(peer.scheme, query),
            "PEER_LEDGER": str(self._ledger),
            "PEER_VARIANT": peer.variant,
            "PEER_SLOTS": str(SLOTS),
            "PEER_LIMIT": str(LIMIT),
            "PEER_RECOVER_SECONDS": str(recover),
        }
        if peer.ours and peer.variant == "fairqueue":
            self._variables["PEER_URL"] = self.server.url("redis", "")
        self._sent = 0
        self._workers: list[Child] = []
        self._worker: Child | None = None
        self._producer: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start a worker, and wait until it has run jobs."""
        self.start_worker()
        warm = self._publish_first([("workspace-0", 0.0, 0.0)] * SLOTS)
        if not self.wait_for(lambda jobs: all(jobs[n].ends for n in warm), BOOT_SECONDS):
            raise RuntimeError(f"{self.peer.name} ran no job:\n{self.logs()}")

    def _publish_first(self, jobs: Sequence[Publish]) -> list[int]:
        """Publish as soon as that succeeds: some workers make the tables that it needs."""
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                return self.publish(jobs)
            except (RuntimeError, BrokenPipeError):
                running = self._worker is not None and self._worker.running
                if not running or time.monotonic() > deadline:
                    raise
                self._end_producer()
                time.sleep(0.5)

    def start_worker(self) -> None:
        """Start a worker; jobs that wait are its own affair."""
        command = environments.command_of(self.peer.environment, self.peer.adapter, "work")
        log = self._folder / "log"
        self._worker = Child(command, env=self._variables, cwd=environments.ADAPTERS, log=log)
        self._workers.append(self._worker)

    def _producing(self) -> subprocess.Popen[str]:
        if self._producer is None:
            command = environments.command_of(self.peer.environment, self.peer.adapter, "produce")
            with (self._folder / "producer").open("wb") as log:
                self._producer = subprocess.Popen(
                    command, env=self._variables, cwd=environments.ADAPTERS, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                )  # fmt: skip
        return self._producer

    def publish(self, jobs: Sequence[Publish]) -> list[int]:
        """Let the producer publish jobs, and return their numbers."""
        producer = self._producing()
        assert producer.stdin is not None
        assert producer.stdout is not None
        numbers = range(self._sent + 1, self._sent + len(jobs) + 1)
        self._sent += len(jobs)
        lines = [[number, *job] for number, job in zip(numbers, jobs, strict=True)]
        producer.stdin.write(json.dumps(lines) + "\n")
        producer.stdin.flush()
        said = producer.stdout.readline()
        while said and said != "published\n":  # what a peer prints itself
            said = producer.stdout.readline()
        if not said:
            raise RuntimeError(f"{self.peer.name}: {self.logs()}")
        return list(numbers)

    def jobs(self) -> dict[int, Job]:
        """Read the ledger."""
        found: dict[int, Job] = {}
        for line in self._ledger.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                what, number, workspace, at, pid = line.split()
                job = found.setdefault(int(number), Job(workspace))
                if what == "publish":
                    job.published = float(at)
                elif what == "start":
                    job.starts.append(float(at))
                    job.by.append(int(pid))
                else:
                    job.ends.append(float(at))
        return found

    def wait_for(self, reached: Reached, seconds: float) -> bool:
        """Look at the ledger until it shows something; False: not within the time."""
        deadline = time.monotonic() + seconds
        while not reached(self.jobs()):
            if self._worker is None or not self._worker.running:
                raise RuntimeError(f"the worker has ended:\n{self.logs()}")
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def pids(self, worker: Child | None = None) -> list[int]:
        """Return a worker's process and all that descend from it, the youngest last."""
        worker = worker or self._worker
        assert worker is not None
        found = [worker.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def signal(self, number: signal.Signals, worker: Child | None = None) -> None:
        """Send a signal to all processes of a worker."""
        for pid in self.pids(worker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Stop the worker inside the block, so that jobs pile up."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def worker_bytes(self) -> int:
        """Return the proportional memory of the worker's processes."""
        found = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                found += 1024 * int(rollup.split("Pss:")[1].split()[0])
        return found

    def _end_producer(self) -> None:
        if self._producer is not None:
            self._producer.kill()
            self._producer.communicate()
            self._producer = None

    def logs(self) -> str:
        """Return the ends of the worker's and the producer's logs."""
        paths = [self._folder / "log", self._folder / "producer"]
        texts = (path.read_text(errors="replace") for path in paths if path.exists())
        return "\n".join(text[-1500:] for text in texts)

    def kill(self, worker: Child | None = None) -> None:
        """Kill all processes of a worker, as the kernel does for want of memory."""
        worker = worker or self._worker
        assert worker is not None
        if worker.running:
            self.signal(signal.SIGKILL, worker)
        worker.end()

    def start_second(self) -> Child:
        """Start a worker beside the first, wait until it runs jobs, and return the first."""
        first = self._worker
        assert first is not None
        self.start_worker()
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            trial = self.publish([("workspace-0", 0.2, 0.0)] * 2 * SLOTS)
            self.wait_for(lambda jobs, trial=trial: all(jobs[n].ends for n in trial), BOOT_SECONDS)
            jobs = self.jobs()
            if {pid for n in trial for pid in jobs[n].by} & set(self.pids()):
                return first
        raise RuntimeError(f"{self.peer.name}: the second worker runs nothing\n{self.logs()}")

    def busier(self, first: Child, numbers: Sequence[int]) -> Child:
        """Of two workers, return that which has begun more of the jobs, and keep the other."""
        assert self._worker is not None
        jobs = self.jobs()
        begun = [
            sum(bool(set(jobs[n].by) & set(self.pids(of))) for n in numbers)
            for of in (first, self._worker)
        ]
        if begun[0] >= begun[1]:
            return first
        self._worker, second = first, self._worker
        return second

    def close(self) -> None:
        """End every process, and remove the folder."""
        for worker in self._workers:
            self.kill(worker)
        self._end_producer()
        self.server.close()
        shutil.rmtree(self._folder, ignore_errors=True)
