"""Plays endings with real workers, and reads from the ledger what happened."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.system.celery.endings.endings import ENDINGS, Ending
from tests.system.celery.endings.slotwatch import SlotWatch

QUIET_SECONDS = 0.5
LONGEST_SECONDS = 30.0
PROCESSES = {"prefork": 5, "threads": 8, "solo": 1, "gevent": 16, "eventlet": 16}


@dataclass(frozen=True)
class Seen:
    """What the ledger, the result backend and the store show of one cell."""

    pool: str
    ending: str
    variant: str
    starts: int
    ends: int
    state: str
    redelivered: int
    recovery: float | None
    """Seconds from the last sign of the run that ended until its slot was free."""
    following: float | None
    """Seconds from then to the next start in its workspace, which may wait for a process."""
    most_slots: int = 0
    """Slots held at once in its workspace, whose limit is 1."""
    lost: int = 0
    dead: int = 0
    sizes: tuple[int, ...] = ()
    """Processes of its pool under load and idle, where that changes."""

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Trial:
    """One victim in its own workspace."""

    ending: str
    variant: str
    workspace: str = field(default_factory=lambda: f"w-{secrets.token_hex(4)}")
    id: str = ""
    result: Any = None
    over: float | None = None
    """When it ended, if only the bench knows."""


class Bench:
    """One or two workers, and the victims of one ending at a time."""

    def __init__(self, shop: Any, pool: str) -> None:
        self.shop, self.pool = shop, pool
        shop.app_name = "ending_tasks"
        self.trials: list[Trial] = []
        self.sizes: list[int] = []
        self.worker: Any = None
        self._successor: Any = None
        self._publisher: Any = None
        self._watch: SlotWatch | None = None

    @property
    def control(self) -> Any:
        return self._publisher.app.control

    def note_size(self, is_right: Callable[[int], bool]) -> None:
        """Ask for the number of processes or greenlets until it is right or the time is up."""

        def ask() -> bool:
            for stats in (self.control.inspect(timeout=10, limit=1).stats() or {}).values():
                processes = stats["pool"].get("processes")
                asked.append(len(processes) if processes else stats["autoscaler"]["current"])
            return is_right(asked[-1])

        asked = [-1]
        self.wait(ask)
        self.sizes.append(asked[-1])

    def play(self, names: Sequence[str], variants: Sequence[str]) -> Iterator[Seen]:
        """Every ending in turn, its variants at the same time if the pool can do that."""
        for name in names:
            alone = self.pool == "solo" or self.pool in ENDINGS[name].alone_in
            for group in [[variant] for variant in variants] if alone else [variants]:
                yield from self._wave(name, group)

    def _wave(self, name: str, variants: Sequence[str]) -> list[Seen]:
        ending = ENDINGS[name]
        self._man(ending)
        self.trials = [Trial(name, variant) for variant in variants]
        self.sizes = []
        tenants = [trial.workspace for trial in self.trials]
        client = self.shop._server.client()
        with SlotWatch(client, self.shop.namespace, tenants) as self._watch:
            self._run_through(ending)
        return [self._seen(trial) for trial in self.trials]

    def _run_through(self, ending: Ending) -> None:
        for trial in self.trials:
            self._publish(ending, trial)
        if ending.starts:
            self.wait(lambda: all(self._rows(t, "start", job="victim") for t in self.trials))
        if ending.needs_successor(self.pool):
            self._let_successor_work()
        ending.provoke(self)
        self.wait(self._is_over)
        time.sleep(QUIET_SECONDS)
        ending.afterwards(self)

    # Workers

    def _man(self, ending: Ending) -> None:
        """Have a worker that fits the ending: the previous one, or a new one."""
        fits = self.worker is not None and self.worker.process.poll() is None
        if fits and not ending.needs_worker(self.pool):
            return
        for worker in self.shop.workers:
            if worker.process.poll() is None:
                worker.kill()
        config = {"worker_enable_remote_control": True, **ending.config}
        common = {"result_backend": self._backend(), "worker_send_task_events": False}
        self._publisher = self.shop.publisher(self._url(ending), backend=self._backend())
        self.shop.config = {**config, **common}
        self._publisher.app.conf.update(common)
        self.worker = self._boot(ending)
        if ending.needs_successor(self.pool):
            self._successor = self._boot(ending, "-Q", "nothing")
            self._hears(self._successor)
        self._hears(self.worker)

    def _hears(self, worker: Any) -> None:
        self.shop.control(self._publisher, worker.ready())

    def _let_successor_work(self) -> None:
        """Only now, so that no victim has started there."""
        names = [self._successor.name]
        self.control.add_consumer("celery", destination=names, reply=True, timeout=30, limit=1)

    def _url(self, ending: Ending) -> str:
        return str(self.shop.url(workspace_concurrency=1, lease_seconds=ending.lease_seconds))

    def _backend(self) -> str:
        return f"redis+socket://{self.shop._server.socket_path}"

    def _boot(self, ending: Ending, *more: str) -> Any:
        options = (*(ending.worker or ("-c", str(PROCESSES[self.pool]))), *more)
        environment = dict(ending.environment)
        return self.shop.worker("-P", self.pool, *options, url=self._url(ending), **environment)

    # Jobs

    def _publish(self, ending: Ending, trial: Trial) -> None:
        send = self._publisher.send
        if ending.first is not None:
            kwargs = {"job": "first", **ending.first}
            send("ending_tasks.follow", kwargs=kwargs, workspace=trial.workspace)
            self.wait(lambda: self._rows(trial, "start", job="first"))
        task = f"ending_tasks.{ending.prefix}{trial.variant}"
        if ending.prefix:
            self._use_up_rate(task, trial)
        kwargs = {"seconds": ending.seconds}
        trial.result = send(
            task, ending.how, kwargs=kwargs, workspace=trial.workspace, **ending.options
        )
        trial.id = trial.result.id
        if not ending.starts and ending.first is None:
            trial.over = time.monotonic()
        send("ending_tasks.follow", workspace=trial.workspace)

    def _use_up_rate(self, task: str, trial: Trial) -> None:
        """Jobs it runs at once, which after idling is two before kombu 5.7, on any broker."""
        for n in range(2):
            self._publisher.send(
                task, "run_on", kwargs={"seconds": 0}, workspace=f"{trial.workspace}-{n}"
            )

    def _rows(self, trial: Trial, what: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.shop.ledger.lines(
            what, workspace=trial.workspace, **fields
        )
        return rows

    @staticmethod
    def wait(condition: Callable[[], Any], *, seconds: float = LONGEST_SECONDS) -> bool:
        """Whether it became true; what did not shows in the row of the cell."""
        until = time.monotonic() + seconds
        while not (done := bool(condition())) and time.monotonic() < until:
            time.sleep(0.05)
        return done

    # What was seen

    def _is_over(self) -> bool:
        return all(self._is_quiet(trial) for trial in self.trials)

    def _is_quiet(self, trial: Trial) -> bool:
        """Wait until nothing of it is left, neither in the store nor in a process."""
        rows = self._rows(trial)
        if rows and time.monotonic() - max(row["at"] for row in rows) < QUIET_SECONDS:
            return False
        if not self._rows(trial, "end", job="next"):
            return False
        row = self.shop.row(trial.workspace)
        return row is None or not (row.running or row.waiting or row.scheduled)

    def _seen(self, trial: Trial) -> Seen:
        starts = self._rows(trial, "start", job="victim")
        row = self.shop.row(trial.workspace)
        return Seen(
            pool=self.pool,
            ending=trial.ending,
            variant=trial.variant,
            starts=len(starts),
            ends=len(self._rows(trial, "end", job="victim")),
            state=trial.result.state,
            redelivered=sum(start["redelivered"] for start in starts),
            recovery=self._recovery(trial),
            following=self._following(trial),
            most_slots=self._watch.most[trial.workspace] if self._watch else 0,
            lost=row.lost if row else 0,
            dead=row.dead if row else 0,
            sizes=tuple(self.sizes),
        )

    def _over(self, trial: Trial) -> float | None:
        """The last sign of the first run in its workspace, or when the bench ended it."""
        rows = sorted(self._rows(trial), key=lambda row: row["at"])
        ended = [row for row in rows if row["job"] != "next"]
        mine = [row["at"] for row in ended if row["run"] == ended[0]["run"]]
        return trial.over or max(mine, default=None)

    def _recovery(self, trial: Trial) -> float | None:
        """Negative if the slot was free before the run had ended."""
        if ENDINGS[trial.ending].prefix:
            return self._following(trial)  # it holds none while it waits for its turn
        over, freed = self._over(trial), self._watch and self._watch.first_freed(trial.workspace)
        if not self._rows(trial, "start", job="victim") and not self._rows(trial, job="first"):
            return None  # it took no slot
        return None if over is None or not freed else round(freed - over, 2)

    def _following(self, trial: Trial) -> float | None:
        over = self._over(trial)
        starts = [row["at"] for row in self._rows(trial, "start") if over and row["at"] > over]
        return round(min(starts) - over, 2) if over and starts else None


@contextmanager
def bench(shop: Any, pool: str) -> Iterator[Bench]:
    """A bench whose workers end with the block."""
    try:
        yield Bench(shop, pool)
    finally:
        shop.close()
