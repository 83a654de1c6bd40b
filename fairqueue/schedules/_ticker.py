"""What a schedule publishes, and how each worker process publishes its ticks."""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from time import monotonic
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from fairqueue._background import BackgroundLoop
from fairqueue._connection import Connection
from fairqueue._context import tick_of, ticking
from fairqueue._keys import decode, encode
from fairqueue._publish.missing_workspace import MissingWorkspace
from fairqueue._publish.new_job import NewJob, checked
from fairqueue._settings import Settings
from fairqueue._stores.schedules import StoredSchedule
from fairqueue._stores.sharded.asking import taken
from fairqueue._stores.store import Store, StoreBase
from fairqueue._types import Tick
from fairqueue.errors import (
    CapacityExceeded,
    ConfigurationError,
    FairQueueError,
    StoreUnavailable,
)
from fairqueue.operate.registry import Registry
from fairqueue.plain import tick_prefix
from fairqueue.schedules._timing import ALL_MOST, COUNTED_MOST, Schedule

log = logging.getLogger("fairqueue.schedules")

AT_ONCE = 25  # ticks, of one publish of many: its script holds others up for some ms
LOOK_EVERY_SECONDS = 1.0
TOGETHER_SECONDS = 0.1  # ticks that follow each other sooner are published together
DECLARE_EVERY_SECONDS = 10.0
LEAST_GRACE_SECONDS = 5.0  # a worker may die with a tick in its hands; another one needs 3 s
KEPT = ("queue", "task", "priority", "expires_seconds")
"""What a definition keeps of a job, beside its payload."""
ASKED = {*KEPT, "payload", "workspace"}
STORED, WANTED, TOO_MANY, OF_ANOTHER = 1, 2, -1, -2
MOST = 10_000  # as in lua/api/put_schedule.lua
MOST_BYTES = 65_536  # it is read with each tick
PUT_BY_CALL = "-"


class Core(NamedTuple):
    """What schedules need of a queue."""

    connection: Connection
    settings: Settings
    publish_many: Callable[..., object]
    registry: Registry


class Placed(NamedTuple):
    """A schedule at its place, and what each of its ticks publishes."""

    runner: str
    """Which workers publish them."""
    workspace: str
    name: str
    task: str
    """For people."""
    call: Mapping[str, Any]
    """What the runner publishes, as JSON."""

    def put(self, store: StoreBase, when: Schedule, boot: str) -> tuple[int, str]:
        """Store it; return a status, and the time by the store's clock.

        ``boot``: when this process began by that clock, empty in its first call, or PUT_BY_CALL.
        """
        delay = f"{when.delay(self.workspace, self.name):.3f}"
        fields = {"runner": self.runner, "delay": delay, "definition": self._definition(when)}
        where = self.workspace, self.name
        status, now = told = store.put_schedule(*where, **fields, next="", boot=boot)
        if status == WANTED:
            first = when.after(float(now))
            if first is None:
                raise ConfigurationError(f"schedule {self.name!r} is never due: until is over")
            told = store.put_schedule(*where, **fields, next=f"{first:.3f}", boot=boot or now)
        status, other = told
        if status == OF_ANOTHER:
            raise ConfigurationError(
                f"the workers of {decode(other)!r} declare schedule {self.name!r} of workspace "
                f"{self.workspace!r}, too: rename one of the two, or give each app a namespace"
            )
        if status == TOO_MANY:
            raise ConfigurationError(
                f"schedule {self.name!r}: workspace {self.workspace!r} has {MOST:,}, which is the "
                "most: remove some"
            )
        return status, now

    def _definition(self, when: Schedule) -> str:
        read = {"when": when.stored(), "task": self.task, "call": self.call}
        try:
            text = json.dumps(read, sort_keys=True, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"schedule {self.name!r}: what it publishes must be JSON, and {error}"
            ) from None
        if len(text) > MOST_BYTES:
            raise ConfigurationError(
                f"schedule {self.name!r}: what it publishes has {len(text):,} bytes, at most "
                f"{MOST_BYTES:,} are allowed: store it elsewhere, and publish its key"
            )
        return text


class Due(NamedTuple):
    """A tick that is to be published."""

    workspace: str
    name: str
    call: Any
    """As :class:`Placed` has it."""
    tick: Tick
    unique_key: str | None
    """With ``overlap="skip"``."""
    message_id: str
    """The id of its message in its framework."""


class Runner:
    """Knows what schedules of one kind publish, and publishes it; here that of the core alone.

    An adapter has one of its own, which may also declare schedules, those of an ``owner``.
    """

    kind = "core"

    def __init__(self, core: Core, owner: str = "") -> None:
        self._core = core
        self.names = (self.kind, f"{self.kind}/{owner}") if owner else (self.kind,)
        """The runners of schedules that it publishes."""
        self._jobs: list[NewJob] = []

    def call_of(self, what: Any) -> tuple[str, dict[str, Any], Any]:
        """Return the task that ticks publish, its call as JSON, and its workspace if it names one.

        Here of a NewJob. Raises ConfigurationError for what cannot be kept.
        """
        if not isinstance(what, NewJob):
            raise ConfigurationError(f"a schedule publishes a NewJob, not {type(what).__name__}")
        given = {each.name for each in fields(what) if getattr(what, each.name) != each.default}
        if others := ", ".join(sorted(given - ASKED)):
            raise ConfigurationError(f"the job of a schedule cannot have {others}: leave it out")
        settings = self._core.settings
        place = settings.default_workspace if what.workspace is None else what.workspace
        checked(replace(what, workspace=place), settings, MissingWorkspace(settings))
        kept = {name: getattr(what, name) for name in KEPT}
        kept["payload"] = b64encode(what.payload).decode()
        return what.task, kept, what.workspace

    @contextmanager
    def together(self) -> Iterator[None]:
        """Publish at the end of the block what is published inside."""
        self._jobs = []
        yield
        if self._jobs:
            self._core.publish_many(self._jobs, block_seconds=0)

    def publish(self, due: Due) -> None:
        """Publish one tick."""
        call = {**due.call, "payload": b64decode(due.call["payload"])}
        call |= {"workspace": due.workspace, "job_id": due.message_id}
        tick, key = tick_of(due.message_id), due.unique_key
        self._jobs.append(NewJob(**call, unique_key=key, tick=tick))

    def declared(self) -> Iterable[tuple[Placed, Schedule]]:
        """Give the schedules that this process declares."""
        return ()

    def placed(self, name: str, task: str, call: dict[str, Any], workspace: Any) -> Placed:
        """Return the place of a schedule that this process declares."""
        workspace = workspace or self._core.settings.default_workspace
        return Placed(self.names[-1], workspace, name, task, call)


class Ticker:
    """Looks each second which schedules are due, and publishes their ticks by their runners.

    Any number of processes may do so: the store lets a tick be published only once.
    """

    def __init__(self, core: Core, *runners: Runner) -> None:
        self._core, self._runners = core, (*runners, Runner(core))
        self._names = [name for runner in self._runners for name in runner.names]
        self._boots: dict[str, str] = {}
        """When this process began, by the clock of each workspace's shard."""
        self._declared_at = float("-inf")
        self.loop = BackgroundLoop("schedules", log)

    def _log(self, text: str, error: Exception) -> None:
        self.loop.failed("%s: %s", text, error, trace=error, level=logging.ERROR)

    def look(self) -> float:
        """Publish what is due now; return in how many seconds to look again."""
        store = self._core.connection.connected()
        store.look()
        self._declare(store)
        return min(taken(store.shards, lambda shard, _: [self._look_at(shard)]))

    def _declare(self, store: StoreBase) -> None:
        """Say now and then that the schedules of this process still are declared."""
        now = monotonic()
        if now < self._declared_at + DECLARE_EVERY_SECONDS:
            return
        self._declared_at = now
        for runner in self._runners:
            for placed, when in runner.declared():
                try:
                    boot = self._boots.get(placed.workspace, "")
                    _, began = placed.put(store, when, boot)
                    self._boots.setdefault(placed.workspace, began)
                except StoreUnavailable:  # those of other shards go on; this one soon
                    self._declared_at = now - DECLARE_EVERY_SECONDS + LOOK_EVERY_SECONDS
                except ConfigurationError as error:
                    self._log(f"schedule {placed.name!r} is not declared", error)

    def _look_at(self, shard: Store) -> float:
        now, seconds, rows = shard.due_schedules(self._names, n=AT_ONCE)
        for runner in self._runners:
            mine = [row for row in rows if row.runner in runner.names]
            if mine:
                self._publish(runner, shard, mine, now)
        if len(rows) == AT_ONCE:
            return 0.0
        return TOGETHER_SECONDS if rows else max(2 * TOGETHER_SECONDS, seconds)

    def _publish(
        self, runner: Runner, shard: Store, rows: Sequence[StoredSchedule], now: float
    ) -> None:
        try:
            with runner.together():
                for row in rows:
                    try:
                        due = _due(row, now, shard.store_id)
                        with ticking(due.message_id, due.tick) as published:
                            if due.tick.at is not None:
                                runner.publish(due)
                        if not published:  # no job, or on a queue without fairqueue
                            shard.change_schedule(due.workspace, due.name, "advance", due.tick)
                    except Exception as error:  # noqa: BLE001 - the others go on
                        self._failed(shard, row, error)
        except StoreUnavailable:
            raise
        except CapacityExceeded as error:  # the store has noted that
            log.debug("ticks were refused: %s", error)
        except FairQueueError as error:
            if len(rows) == 1:
                self._failed(shard, rows[0], error)
            for row in rows if len(rows) > 1 else ():  # one of them holds up no other
                self._publish(runner, shard, [row], now)

    def _failed(self, shard: Store, row: StoredSchedule, error: Exception) -> None:
        where = f"schedule {row.name!r} of workspace {row.workspace!r}"
        self._log(f"{where} has a tick that cannot be published", error)
        tick = _tick(row, row.next if row.extra == "-" else row.extra, None, None)
        with suppress(FairQueueError):
            shard.change_schedule(row.workspace, row.name, "fail", tick)


def _due(row: StoredSchedule, now: float, store_id: str) -> Due:
    """Decide what is published of a schedule now."""
    read = json.loads(row.definition)
    when = Schedule(**read["when"])
    if row.extra != "-":
        tick = _tick(row, row.extra, float(row.extra), None)
    elif row.next == "-":
        since = max(now - float(row.delay), float(row.last.strip("-") or 0))
        tick = _tick(row, row.next, None, when.after(since))
    else:
        tick = _next_tick(row, when, now - float(row.delay))
    key = f"schedule {row.name}" if when.overlap == "skip" else None
    begins = "" if tick.at is None else tick_prefix(tick.schedule, tick.at)
    words = [store_id, row.workspace, row.name, row.definition, row.extra, tick.at]
    ends = uuid5(NAMESPACE_URL, json.dumps(words))  # the same, should Redis lose the publish
    return Due(row.workspace, row.name, read["call"], tick, key, f"{begins}{ends}")


def _next_tick(row: StoredSchedule, when: Schedule, now: float) -> Tick:
    """Decide which of the ticks from the next one to now is published."""
    at, catch_up = float(row.next), when.catch_up
    following = when.after(at)
    grace = max(when.grace, LEAST_GRACE_SECONDS)
    is_late = now - at > grace
    if row.outcome == "full" and following is not None and following <= now and not is_late:
        is_late, catch_up = True, "once"  # its capacity was full for all of its time
    if not is_late:
        return _tick(row, row.next, at, following)
    most = {"none": COUNTED_MOST, "once": 1, "all": ALL_MOST}[catch_up]
    found, missed = when.late(at, now, most)
    if catch_up == "none":
        kept = [each for each in found if now - each <= grace]
        missed += len(found) - len(kept)
        if not kept:
            return _tick(row, row.next, None, when.after(found[-1]), missed)
        found = kept
    return _tick(row, row.next, found[0], when.after(found[0]), missed)


def _tick(
    row: StoredSchedule, expected: str, at: float | None, following: float | None, missed: int = 0
) -> Tick:
    return Tick(encode(row.name), expected, at, following, missed)
