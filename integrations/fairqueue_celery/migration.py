"""Moves everything from a broker of kombu's own Redis transport into the core, and back again.

Either way may be interrupted and repeated at any point: each step moves one message, or a few,
from one place to one other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import redis
from celery import Celery

from fairqueue import ConfigurationError, FairQueue, mask_password, split_settings
from fairqueue_celery.adopting import UNREAD, Adopted, Adoption
from fairqueue_celery.carrying import Carrier
from fairqueue_celery.stocklists import Layout, StockLists

LEAVING_SECONDS = 3600.0
"""For so long after moving back workers on fairqueue:// leave the old lists alone."""

Progress = Callable[[int], Any]


@dataclass
class Moved:
    """What a migration has done, or would do, and what is left."""

    queues: dict[str, int] = field(default_factory=dict)
    """Messages per queue."""
    scheduled: int = 0
    """Of these, how many wait for their time."""
    held: int = 0
    """Of these, how many workers of the old broker held unacknowledged."""
    unread: int = 0
    """Of these, how many went to the default workspace since they could not be read."""
    left_held: int = 0
    """Left, since live workers of the old broker hold them."""
    left_unknown: int = 0
    """Left unacknowledged, since nothing tells their queue."""
    running: int = 0
    """Left to finish where they run."""
    holders: list[str] = field(default_factory=list)
    """The live workers that hold what is left."""

    @property
    def complete(self) -> bool:
        """Nothing is left."""
        return not (self.left_held or self.left_unknown or self.running)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "moved": sum(self.queues.values()), "complete": self.complete}


def open_lists(url: str, layout: Layout) -> StockLists:
    """The lists of the Redis at a ``redis://``, ``rediss://`` or ``unix://`` URL."""
    try:
        return StockLists(redis.Redis.from_url(split_settings(url)[0]), layout)
    except ValueError:  # its text may quote a password
        raise ConfigurationError(
            f"{mask_password(url)!r} is no URL of a Redis: write redis://host:6379/0, rediss://… "
            "or redis+socket:///path; in a password '/', '?', '#' and '@' are percent-encoded"
        ) from None


def are_one(one: StockLists, other: StockLists) -> bool:
    """Whether both are the same database of the same server."""
    return _place(one) == _place(other)


def _place(lists: StockLists) -> tuple[Any, Any]:
    options = lists.client.connection_pool.connection_kwargs
    return lists.client.info("server")["run_id"], int(options.get("db") or 0)


def live_workers(url: str, layout: Layout) -> list[str]:
    """Workers on kombu's own transport that answer there."""
    app = Celery("fairqueue-migrate", broker=_kombu_url(url), set_as_current=False)
    app.conf.broker_transport_options = {"global_keyprefix": layout.prefix}
    try:
        answers = app.control.inspect(timeout=1.0).stats() or {}
    finally:
        app.close()
    brokers = {name: stats.get("broker") or {} for name, stats in answers.items()}
    return sorted(n for n, broker in brokers.items() if "fairqueue" not in _scheme(broker))


def _scheme(broker: Mapping[str, Any]) -> str:
    return str(broker.get("transport") or "")


def _kombu_url(url: str) -> str:
    return url.replace("unix://", "redis+socket://", 1)


class MoveIn:
    """From kombu's lists at ``source`` into a core; ``near`` are the lists beside that core."""

    def __init__(self, source: StockLists, near: StockLists, core: FairQueue) -> None:
        self._source, self._near, self._core = source, near, core
        self._one_place = are_one(source, near)

    def survey(self, holders: Sequence[str], queues: Sequence[str]) -> Moved:
        """What it would do."""
        held = list(self._source.held())
        found = Moved(holders=list(holders) if held else [])
        names = queues or sorted({*self._source.queues(), *self._near.queues()})
        found.queues = {queue: self._waiting(queue) for queue in names}
        known = [one for one in held if one.queue and (not queues or one.queue in queues)]
        found.left_unknown = sum(one.queue is None for one in held)
        if holders:
            found.left_held = len(known)
            return found
        found.held = len(known)
        for one in known:
            found.queues[one.queue or ""] = found.queues.get(one.queue or "", 0) + 1
        return found

    def _waiting(self, queue: str) -> int:
        near = 0 if self._one_place else self._near.waiting(queue)
        return self._source.waiting(queue) + near

    def run(self, holders: Sequence[str], queues: Sequence[str], progress: Progress) -> Moved:
        """Do it. What ``holders``, live workers, hold unacknowledged is left to them."""
        moved = Moved(holders=list(holders))
        self._core.leave(0)
        self._restore(moved, queues)
        names = list(queues) or sorted({*self._source.queues(), *self._near.queues()})
        if not self._one_place:
            with Carrier(self._source, self._near) as carrier:
                carrier.finish_earlier()
                carrier.carry(names, lambda _: None)
            names = list(queues) or sorted({*names, *self._near.queues()})
        for queue in names:
            self._adopt(queue, moved, progress)
        return moved

    def _restore(self, moved: Moved, queues: Sequence[str]) -> None:
        for held in list(self._source.held()):
            if held.queue is None:
                moved.left_unknown += 1
            elif queues and held.queue not in queues:
                continue
            elif moved.holders:
                moved.left_held += 1
            elif self._source.restore(held):
                moved.held += 1

    def _adopt(self, queue: str, moved: Moved, progress: Progress) -> None:
        def note(job: Adopted) -> None:
            moved.queues[queue] = moved.queues.get(queue, 0) + 1
            moved.scheduled += job.delay_seconds > 0
            moved.unread += job.kind == UNREAD
            progress(1)

        adoption = Adoption(self._core, self._near)
        while adoption.adopt(queue, most=10_000, progress=note):
            continue


class MoveBack:
    """From a core into kombu's lists at ``target``; ``near`` are the lists beside that core."""

    def __init__(self, core: FairQueue, near: StockLists, target: StockLists) -> None:
        self._core, self._near, self._target = core, near, target

    def survey(self, queues: Sequence[str]) -> Moved:
        """What it would do."""
        stats = self._core.stats()
        names = queues or sorted(stats.queues)
        found = Moved(queues={queue: self._core.depth(queue) for queue in names})
        found.queues = {queue: count for queue, count in found.queues.items() if count}
        found.scheduled = sum(row.scheduled for row in stats.workspaces) if not queues else 0
        found.running = self._running(names)
        return found

    def _running(self, queues: Sequence[str]) -> int:
        core = self._core
        return sum(core.depth(queue, running=True) - core.depth(queue) for queue in queues)

    def run(self, queues: Sequence[str], progress: Progress) -> Moved:
        """Do it. What runs is left to finish."""
        moved = self.survey(queues)
        names, moved.queues = list(queues) or sorted(self._core.stats().queues), {}
        self._core.leave(LEAVING_SECONDS)
        for queue in names:
            for some in self._core.hand_over(queue, self._near.layout.lists(queue)):
                if some:
                    moved.queues[queue] = moved.queues.get(queue, 0) + some
                    progress(some)
        if not are_one(self._near, self._target):
            with Carrier(self._near, self._target) as carrier:
                carrier.finish_earlier()
                carrier.carry(names, lambda _: None)
        moved.running = self._running(names)
        return moved
