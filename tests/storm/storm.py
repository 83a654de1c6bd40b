"""One storm: jobs are published while faults strike workers, links and the server, from a seed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from celery import Celery
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker

import fairqueue_dramatiq
from fairqueue import FairQueue
from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.redis.proxy import Proxy, kill_clients, proxy_before
from tests.storm import judge, results
from tests.system.ledger import Ledger, wait_for

APPS = Path(__file__).parent / "apps"
LIMIT = 2
WORKSPACES = ("ada", "bea", "cid", "dan", "eve")
WORKERS = 2
DRAIN_SECONDS = 120.0
STOP_SECONDS = 20.0
PACE_SECONDS = 60.0
"""For so long at most a fault waits for its share of the jobs."""

Target = tuple[str, int | None]
"""A worker, "" for all; and one of its processes."""


@dataclass(frozen=True)
class Load:
    """What a producer publishes; the longest jobs take more than a lease of the usual length."""

    per_second: float
    most_unfinished: int
    lengths: Mapping[float, int]
    """How long jobs take, in seconds, and the weight of each of these lengths."""


CALM = Load(14, 120, {0.01: 8, 0.05: 8, 0.2: 6, 0.4: 4, 4.0: 1})
BUSY = Load(400, 400, {0.002: 400, 0.01: 400, 0.02: 177, 0.4: 20, 4.0: 3})


@dataclass(frozen=True)
class Plan:
    """What is played."""

    name: str
    pool: str
    late: bool
    faults: int
    seed: int
    lease_seconds: float = 3.0
    jobs: int = 0
    """At least this many; before the next fault there is its share of them."""

    @property
    def load(self) -> Load:
        """Many jobs are mostly short."""
        return BUSY if self.jobs else CALM

    @property
    def is_celery(self) -> bool:
        """Whether it plays Celery, else Dramatiq."""
        return self.pool != "dramatiq"


CELLS = {
    "prefork-late": ("prefork", True),
    "prefork-early": ("prefork", False),
    "threads-late": ("threads", True),
    "threads-early": ("threads", False),
    "gevent-late": ("gevent", True),
    "gevent-early": ("gevent", False),
    "eventlet-late": ("eventlet", True),
    "eventlet-early": ("eventlet", False),
    "dramatiq": ("dramatiq", True),
}
"""The pool, and whether jobs are acknowledged late."""


def plan_of(cell: str, **how: Any) -> Plan:
    """Return what to play in a cell."""
    pool, late = CELLS[cell]
    return Plan(cell, pool, late, **how)


class Fleet:
    """The worker processes, each in a process group of its own, as in a container."""

    def __init__(
        self, plan: Plan, settings: dict[str, Any], results: str, ledger: Path, folder: Path
    ) -> None:
        self._plan, self.settings, self._ledger = plan, settings, ledger
        self.results, self._folder = results, folder
        self.own_url: str | None = None
        """Of Dramatiq's own broker, if that is not at the core's URL."""
        self._count = 0
        self.living: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start one more worker, without waiting for it."""
        name = f"w{self._count}"
        self._count += 1
        environment = {
            **os.environ,
            "STORM_WORKER": name,
            "STORM_LEDGER": str(self._ledger),
            "STORM_ACKS": "late" if self._plan.late else "early",
            "STORM_SETTINGS": json.dumps(self.settings),
            "STORM_RESULTS": self.results,
            "STORM_OWN": self.own_url or self.settings["url"],
            "CELERY_BROKER_URL": celery_url(self.settings),
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            self.living[name] = subprocess.Popen(
                self._command(name),
                cwd=APPS,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command(self, name: str) -> list[str]:
        if not self._plan.is_celery:
            script = str(Path(sys.executable).parent / "dramatiq")
            return [script, "hail_dramatiq", "--path", str(APPS), "-p", "1", "-t", "4"]
        node = f"{name}@{self.settings['namespace']}"
        command = [sys.executable, "-m", "celery", "-A", "hail_celery", "worker", "-l", "INFO"]
        return [*command, "-n", node, "-P", self._plan.pool, "-c", "4"]

    def signal(self, name: str, number: int) -> None:
        """Send a signal to every process of a worker."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.living[name].pid, number)

    def kill(self, name: str) -> None:
        """Kill every process of a worker."""
        self.signal(name, signal.SIGKILL)
        self.living.pop(name).wait()

    def stop(self, name: str, number: int) -> None:
        """Ask a worker to stop; one that does not in time is killed."""
        process = self.living[name]
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        self.kill(name)

    def replace_exited(self) -> None:
        """Start another worker for each that has ended by itself, as a supervisor does."""
        for name, process in list(self.living.items()):
            if process.poll() is not None:
                self.kill(name)
                self.start()

    def children(self, name: str) -> list[int]:
        """Return the child processes of a worker."""
        pid = self.living[name].pid
        with contextlib.suppress(OSError):
            return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    def close(self) -> None:
        """Kill all."""
        for name in list(self.living):
            self.kill(name)


def celery_url(settings: dict[str, Any]) -> str:
    """Return the broker URL with these settings in its query."""
    query = {name: value for name, value in settings.items() if name != "url"}
    return f"{settings['url'].replace('redis', 'fairqueue', 1)}?{urlencode(query)}"


class Producer:
    """Publishes jobs of all workspaces until it is told to stop."""

    def __init__(
        self,
        plan: Plan,
        settings: dict[str, Any],
        ledger: Ledger,
        chance: random.Random,
        own_url: str | None = None,
    ) -> None:
        self._ledger, self._chance, self._load = ledger.path, chance, plan.load
        self._send = (
            _celery_sender(settings)
            if plan.is_celery
            else _dramatiq_sender(settings, own_url or settings["url"])
        )
        self.accepted: dict[int, str] = {}
        """Jobs whose publish returned, and their ids; of the others none or one was stored."""
        self.tried = 0
        self._ended: set[int] = set()
        self._read = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        most = self._load.most_unfinished
        while not self._stopping.wait(self._chance.expovariate(self._load.per_second)):
            if self.tried % 20 == 0 and len(self.accepted) - len(self.ended()) > most:
                continue
            self._publish()

    def ended(self) -> set[int]:
        """Return the jobs that came to an end; reads what is new in the ledger."""
        with self._ledger.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole + newline)
        rows = map(json.loads, whole.splitlines())
        self._ended.update(row["n"] for row in rows if row["what"] == "end")
        return self._ended

    def _publish(self) -> None:
        n, self.tried = self.tried, self.tried + 1
        lengths = self._load.lengths
        seconds = self._chance.choices([*lengths], [*lengths.values()])[0]
        workspace = self._chance.choice(WORKSPACES)
        with contextlib.suppress(Exception):  # of any kind: whether it was stored is not known
            self.accepted[n] = self._send(n, seconds, workspace)

    def stop(self) -> None:
        """Publish no more."""
        self._stopping.set()
        self._thread.join()


Send = Callable[[int, float, str], str]


def _celery_sender(settings: dict[str, Any]) -> Send:
    app = Celery("producer", broker=celery_url(settings))
    return lambda n, seconds, workspace: str(
        app.send_task("hail_celery.fall", (n,), {"seconds": seconds, "tenant_id": workspace}).id
    )


def _dramatiq_sender(settings: dict[str, Any], own_url: str) -> Send:
    broker = RedisBroker(url=own_url, namespace=f"{settings['namespace']}-own")
    fairqueue_dramatiq.install(broker, **settings)

    def send(n: int, seconds: float, workspace: str) -> str:
        kwargs = {"seconds": seconds, "tenant_id": workspace}
        message: Message[Any] = Message(results.QUEUE, results.ACTOR, (n,), kwargs, {})
        broker.enqueue(message)
        return str(message.message_id)

    return send


class Storm:
    """Strikes with one fault after the other."""

    def __init__(
        self,
        plan: Plan,
        server: EmbeddedServer,
        proxy: Proxy,
        fleet: Fleet,
        chance: random.Random,
        folder: Path,
    ) -> None:
        self._folder = folder
        self._plan, self._server, self._proxy, self._fleet = plan, server, proxy, fleet
        self._chance = chance
        self.faults: list[judge.Fault] = []

    def strike(self) -> None:
        """Let one fault happen, and everything work again for a moment."""
        kinds = [self.kill_worker, self.stop_process, self.deploy, self.cut_links, self.go_silent]
        kinds += [self.restart_server, self.fill_server, self.forget_scripts]
        if self._plan.pool == "prefork":
            kinds.append(self.kill_child)
        kind = self._chance.choice(kinds)
        self._fleet.replace_exited()
        began = time.monotonic()
        worker, pid = kind()
        fault = judge.Fault(kind.__name__, began, time.monotonic(), worker, pid)
        self.faults.append(fault)
        with (self._folder / "faults").open("a") as file:
            file.write(json.dumps(asdict(fault)) + "\n")
        self._rest(0.2, 1.0)

    def wait_for_jobs(self, producer: Producer, count: int) -> None:
        """Wait until this many jobs are published."""
        until = time.monotonic() + PACE_SECONDS
        while len(producer.accepted) < count and time.monotonic() < until:
            self._fleet.replace_exited()
            time.sleep(0.02)

    def _rest(self, least: float, most: float) -> None:
        time.sleep(self._chance.uniform(least, most))

    def _some_worker(self) -> str:
        return self._chance.choice(sorted(self._fleet.living))

    def kill_worker(self) -> Target:
        """Kill all processes of a worker at once, as with its container."""
        name = self._some_worker()
        self._fleet.kill(name)
        self._fleet.start()
        return name, None

    def kill_child(self) -> Target:
        """Kill one process of a prefork pool."""
        name = self._some_worker()
        children = self._fleet.children(name)
        if not children:
            return name, 0
        pid = self._chance.choice(children)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return name, pid

    def stop_process(self) -> Target:
        """Let a worker stand still, for less or more than a lease."""
        name = self._some_worker()
        self._fleet.signal(name, signal.SIGSTOP)
        self._rest(0.1, 2 * self._plan.lease_seconds)
        self._fleet.signal(name, signal.SIGCONT)
        return name, None

    def deploy(self) -> Target:
        """Replace a worker: it stops warm or cold, and another one starts."""
        name = self._some_worker()
        self._fleet.start()
        number = self._chance.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGQUIT])
        if not self._plan.is_celery:
            number = signal.SIGTERM
        self._fleet.stop(name, number)
        return name, None

    def cut_links(self) -> Target:
        """Close all connections."""
        kill_clients(self._server)
        return "", None

    def go_silent(self) -> Target:
        """Leave all connections open and pass nothing on, for less or more than a lease."""
        self._proxy.silent = True
        self._rest(0.1, 2 * self._plan.lease_seconds)
        self._proxy.silent = False
        return "", None

    def restart_server(self) -> Target:
        """Kill the server, which has an append-only file, and start it again."""
        self._server.kill()
        self._rest(0.1, 2 * self._plan.lease_seconds)
        self._server.start()
        return "", None

    def fill_server(self) -> Target:
        """Let the server refuse writes for want of memory."""
        with self._server.client() as client:
            client.config_set("maxmemory", 1)
            self._rest(0.1, self._plan.lease_seconds)
            client.config_set("maxmemory", 0)
        return "", None

    def forget_scripts(self) -> Target:
        """Flush the script cache."""
        with self._server.client() as client:
            client.script_flush()
        return "", None


@contextlib.contextmanager
def _ground(plan: Plan, folder: Path) -> Iterator[tuple[EmbeddedServer, Proxy, Fleet, Ledger]]:
    ledger = Ledger(folder / "ledger")
    with (
        embedded_redis(persistent=True) as server,
        embedded_redis() as told,
        proxy_before(server.socket_path) as proxy,
    ):
        settings = {
            "url": f"redis://127.0.0.1:{proxy.port}",
            "namespace": f"storm-{plan.name}",
            "workspace_from": "kwarg:tenant_id",
            "workspace_concurrency": LIMIT,
            "lease_seconds": plan.lease_seconds,
            "max_deliveries": "none",
        }
        url = told.url.replace("unix://", "redis+socket://") if plan.is_celery else told.url
        fleet = Fleet(plan, settings, url, ledger.path, folder)
        try:
            yield server, proxy, fleet, ledger
        finally:
            fleet.close()


def play(plan: Plan, folder: Path, said: Callable[[str], object]) -> judge.Verdict:
    """Play a storm in this folder, which keeps the logs and the ledger; return what was found."""
    chance = random.Random(plan.seed)
    with _ground(plan, folder) as (server, proxy, fleet, ledger):
        for _ in range(WORKERS):
            fleet.start()
        producer = Producer(plan, fleet.settings, ledger, random.Random(plan.seed))
        wait_for(producer.ended)
        storm = Storm(plan, server, proxy, fleet, chance, folder)
        for n in range(plan.faults):
            storm.strike()
            storm.wait_for_jobs(producer, plan.jobs * (n + 1) // plan.faults)
            said(f"{plan.name}: fault {n + 1} of {plan.faults}")
        producer.stop()
        with FairQueue(server.url, namespace=fleet.settings["namespace"]) as queue:
            left = _drain(queue, fleet)
            died_early = sum(row.lost for row in queue.views.stats().workspaces)
        read = results.told_by_celery if plan.is_celery else results.told_by_dramatiq
        states = read(fleet.results, producer.accepted)
        (folder / "told").write_text(json.dumps(states))
        return _judge(plan, storm.faults, states, ledger, left, died_early)


def _drain(queue: FairQueue, fleet: Fleet) -> tuple[int, int]:
    """Wait until all jobs are done; return how many wait and how many slots are taken even so."""
    until = time.monotonic() + DRAIN_SECONDS
    while True:
        rows = queue.views.stats().workspaces
        waiting, running = sum(row.waiting for row in rows), sum(row.running for row in rows)
        if not waiting + running or time.monotonic() > until:
            return waiting, running
        fleet.replace_exited()
        time.sleep(0.2)


def _judge(
    plan: Plan,
    faults: list[judge.Fault],
    states: dict[int, str],
    ledger: Ledger,
    left: tuple[int, int],
    died_early: int,
) -> judge.Verdict:
    rows = ledger.lines()
    runs = judge.runs_of(rows)
    if plan.late:
        lost = len(states.keys() - {run.n for run in runs if run.end is not None})
    else:  # a job that died with its worker before its first line is counted by the store
        lost = max(0, len(states.keys() - {run.n for run in runs}) - died_early)
    stuck, leaked = left
    lease = plan.lease_seconds
    return judge.Verdict(
        published=len(states),
        faults=len(faults),
        again=len(runs) - len({run.n for run in runs}),
        refused=sum(row["what"] == "refused" for row in rows),
        lost=lost,
        above_limit=judge.above_limit(
            runs, faults, limit=LIMIT, late=plan.late, lease_seconds=lease
        ),
        stale=len(judge.stale(rows)),
        twice=len(list(judge.began_twice(runs, faults, late=plan.late, lease_seconds=lease))),
        untold=len(list(judge.untold(states, runs, faults, late=plan.late))),
        stuck=stuck,
        leaked=leaked,
    )
