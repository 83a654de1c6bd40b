"""The mixed load of a soak: publishes of every kind, and what operators do beside them."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import dramatiq
import soak_celery as of_celery  # type: ignore[import-not-found]
import soak_dramatiq as of_dramatiq  # type: ignore[import-not-found]
from celery import chord, group

import fairqueue_celery
import fairqueue_dramatiq
from fairqueue import CapacityExceeded, FairQueue, Scope
from fairqueue.rows import DeadFilter
from tests.soak.settings import CHANGED, PAUSED, STEADY

VISITORS = 5
VISIT_SECONDS = 10.0
PAUSE_SECONDS = 5.0

KINDS = {
    "short": 50, "long": 3, "flaky": 3, "later": 6, "unique": 6, "crowded": 5, "urgent": 6,
    "together": 1, "parent": 2, "watched": 3, "dying": 1, "cancelled": 1, "full": 3,
}  # fmt: skip
"""What is published, and how often."""


@dataclass
class Load:
    """Publishes, and keeps what each number must have come to at the end."""

    queue: FairQueue
    chance: random.Random
    must: dict[int, str] = field(default_factory=dict)
    not_before: dict[int, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    limits: dict[str, int] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)
    """When a workspace lost the limit of its own."""
    pauses: list[tuple[float, float]] = field(default_factory=list)
    schedules: dict[tuple[str, str], int] = field(default_factory=dict)
    """Each that was put, and its interval."""

    def __post_init__(self) -> None:
        self._numbers, self._names = count(), count()
        self._visitors: list[tuple[float, str]] = []
        self._acts = [(60.0, self.replay), (97.0, self.pause), (45.0, self.change_limit)]
        self._due = [time.monotonic() + every for every, _ in self._acts]
        self._paused_until = 0.0
        self._kinds, self._weights = zip(*KINDS.items(), strict=True)
        for name in STEADY[:4]:
            self._put_schedule(name, 3)

    def step(self) -> None:
        """Publish once, and do what is due."""
        now = time.monotonic()
        self._welcome(now)
        for n, (every, act) in enumerate(self._acts):
            if now >= self._due[n]:
                self._due[n] = now + every
                act()
        if self._paused_until and now > self._paused_until:
            self._resume()
        kind = self.chance.choices(self._kinds, self._weights)[0]
        self.counts[kind] += 1
        self.publish(kind, celery=self.chance.random() < 0.7)

    def _welcome(self, now: float) -> None:
        while len(self._visitors) < VISITORS:
            self._arrive(now + VISIT_SECONDS * self.chance.uniform(0.5, 1.5))
        for visitor in [*self._visitors]:
            if now > visitor[0]:
                self._visitors.remove(visitor)
                self._leave(visitor[1])

    def _arrive(self, until: float) -> None:
        n = next(self._names)
        name = f"visitor {n}"
        self._visitors.append((until, name))
        self.counts["visitors"] += 1
        if n % 10 == 0:
            self.queue.limits.set(Scope.workspace(name), concurrency=2)
            self.limits[name] = 2
        if n % 5 == 0:
            self._put_schedule(name, 1)

    def _leave(self, name: str) -> None:
        if name in self.limits:
            self.left[name] = time.monotonic()
            self.queue.limits.unset(Scope.workspace(name))
        self._remove_schedule(name)

    def _put_schedule(self, workspace: str, every: int) -> None:
        named: dict[str, Any] = {"workspace": workspace, "every": every, "catch_up": "all"}
        signature = of_celery.tick.s("celery", workspace)
        fairqueue_celery.schedules_of(of_celery.app).put("celery", signature, **named)
        message = of_dramatiq.tick.message("dramatiq", workspace)
        fairqueue_dramatiq.schedules_of(of_dramatiq.broker).put("dramatiq", message, **named)
        self.schedules |= {(workspace, name): every for name in ("celery", "dramatiq")}

    def _remove_schedule(self, workspace: str) -> None:
        for name in ("celery", "dramatiq"):
            if (workspace, name) in self.schedules:
                self.queue.schedules.remove(name, workspace=workspace)

    def replay(self) -> None:
        """Replay what failed; delete what expired."""
        self.counts["replayed"] += self.queue.dead.replay_all(DeadFilter(reason="failed"))
        self.counts["expired"] += self.queue.dead.purge(DeadFilter(reason="expired"))

    def pause(self) -> None:
        """Pause a workspace for a moment."""
        self.queue.pauses.pause(Scope.workspace(PAUSED))
        self._paused_until = time.monotonic() + PAUSE_SECONDS

    def _resume(self) -> None:
        self.pauses.append((self._paused_until - PAUSE_SECONDS, time.monotonic()))
        self.queue.pauses.resume(Scope.workspace(PAUSED))
        self._paused_until = 0.0

    def change_limit(self) -> None:
        """Change a limit, of which the ledger's judge knows the largest value."""
        self.limits[CHANGED] = 4
        concurrency = self.chance.choice([1, 2, 4])
        self.queue.limits.set(Scope.workspace(CHANGED), concurrency=concurrency)

    def finish(self) -> None:
        """Publish no more ticks, let all go on, and replay until nothing is dead."""
        for name in [*STEADY[:4], *(name for _, name in self._visitors)]:
            self._leave(name)
        if self._paused_until:
            self._resume()

    def _number(self, must: str, n: int | None = None) -> int:
        number = next(self._numbers) if n is None else n
        self.must[number] = must
        return number

    def publish(self, kind: str, *, celery: bool) -> None:
        """Publish one of a kind, with either framework."""
        visitors = [name for _, name in self._visitors]
        workspace = self.chance.choice(STEADY if self.chance.random() < 0.5 else visitors)
        if kind == "together":
            self._together(workspace, celery=celery)
        elif kind in {"flaky", "dying", "watched", "parent"}:
            self._send(kind, celery, self._number(kind), workspace)
        else:
            publish: Callable[[str, bool], None] = getattr(self, f"_{kind}")
            publish(workspace, celery)

    def _send(self, task: str, celery: bool, n: int, workspace: str, *args: Any, **how: Any) -> Any:
        if task == "parent":
            for _ in range(2):
                self._number("once")
        app = of_celery if celery else of_dramatiq
        of_task = getattr(app, task)
        kwargs = {"tenant_id": workspace}
        if celery:
            return of_task.apply_async((n, *args), kwargs, **how)
        return of_task.send_with_options(args=(n, *args), kwargs=kwargs, **how)

    def _short(self, workspace: str, celery: bool) -> None:
        seconds = self.chance.uniform(0.0, 0.05)
        self._send("short", celery, self._number("once"), workspace, seconds)

    def _long(self, workspace: str, celery: bool) -> None:
        seconds = self.chance.uniform(0.5, 2.5)
        self._send("long", celery, self._number("once"), workspace, seconds)

    def _later(self, workspace: str, celery: bool) -> None:
        seconds, n = self.chance.uniform(1, 120), self._number("once")
        self.not_before[n] = time.monotonic() + seconds - 0.01
        how = {"countdown": seconds} if celery else {"delay": round(seconds * 1000)}
        self._send("short", celery, n, workspace, 0.01, **how)

    def _unique(self, workspace: str, celery: bool) -> None:
        key, n = f"key {self.chance.randrange(3)}", self._number("once")
        how: dict[str, Any] = {"unique_key": key}
        if self.chance.random() < 0.5:
            how["unique_for"] = 30
        sent = self._send("short", celery, n, workspace, 0.05, **how)
        adapter: Any = fairqueue_celery if celery else fairqueue_dramatiq
        unique = adapter.unique_outcome(sent)
        if unique is None or unique.outcome != "created":
            self._number("never", n)
            self.counts["existing"] += 1

    def _crowded(self, _: str, celery: bool) -> None:
        n = self._number("at most once")
        self._send("short", celery, n, "crowded", self.chance.uniform(0, 0.6), expires=2)

    def _urgent(self, workspace: str, celery: bool) -> None:
        priority = self.chance.randrange(10)
        how = {"priority": priority} if celery else {"broker_priority": priority}
        self._send("short", celery, self._number("once"), workspace, 0.02, **how)

    def _together(self, workspace: str, *, celery: bool) -> None:
        numbers = [self._number("once") for _ in range(4)]
        if celery:
            parts = [of_celery.short.s(n, 0.01, tenant_id=workspace) for n in numbers]
            last = of_celery.total.s(self._number("once"), tenant_id=workspace)
            chord(group(parts))(last)
        else:
            one = of_dramatiq.short.message
            dramatiq.group([one(n, 0.01, tenant_id=workspace) for n in numbers]).run()

    def _cancelled(self, _: str, celery: bool) -> None:
        n, waits = self._number("never"), self.chance.random() < 0.8
        how = {"countdown": 60} if celery else {"delay": 60_000}
        sent = self._send("short", celery, n, "cancelled", 12, **(how if waits else {}))
        job = sent.id if celery else sent.message_id
        outcome = self.queue.jobs.cancel(job, workspace="cancelled")
        if outcome.value != "removed":
            self._number("at most once, cancelled", n)
            self.counts["cancelled while running"] += 1

    def _full(self, _: str, celery: bool) -> None:
        n = self._number("once")
        with contextlib.suppress(CapacityExceeded):
            self._send("short", celery, n, "full", 0.4)
            return
        self._number("never", n)
        self.counts["rejected"] += 1
