"""Moves all jobs from a broker of kombu's own Redis transport into the core, and back again.

Either way may be interrupted at any point and repeated: each step moves one message, or a few,
atomically.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from celery import Celery

from fairqueue import ConfigurationError, FairQueue
from fairqueue.adapters import following_client, mask_password, split_settings
from fairqueue_celery._kombu_lists.adopt import (
    Adopted,
    Adoption,
    SpreadAdoption,
    as_job,
)
from fairqueue_celery._kombu_lists.lists import KombuLists, Layout, parse
from fairqueue_celery._kombu_lists.transfer import Transfer

SUSPEND_SECONDS = 3600.0
"""For this long after moving back, workers on fairqueue:// leave the old lists alone."""

Progress = Callable[[int], Any]


@dataclass
class Moved:
    """What a migration did, or would do, and what is left."""

    queues: dict[str, int] = field(default_factory=dict)
    """Messages per queue."""
    scheduled: int = 0
    """How many of them wait for their time."""
    held: int = 0
    """How many of them workers of the old broker held unacknowledged."""
    unread: int = 0
    """How many of them went to the default workspace, since they could not be read."""
    without_workspace: int = 0
    """How many of them went to the default workspace, since they named none."""
    left_held: int = 0
    """Left because live workers of the old broker hold them."""
    left_unknown: int = 0
    """Left unacknowledged because their queue is not known."""
    running: int = 0
    """Left to finish because they run."""
    holders: list[str] = field(default_factory=list)
    """The live workers that hold what is left."""

    def note(self, job: Adopted) -> None:
        """Count one message as what it became, or would become."""
        self.scheduled += job.delay_seconds > 0
        self.unread += not job.was_read
        self.without_workspace += job.was_read and job.workspace is None

    @property
    def complete(self) -> bool:
        """Nothing is left."""
        return not (self.left_held or self.left_unknown or self.running)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "moved": sum(self.queues.values()), "complete": self.complete}


def open_lists(url: str, layout: Layout) -> KombuLists:
    """The lists of the Redis at a ``redis://``, ``rediss://`` or ``unix://`` URL."""
    try:
        return KombuLists(following_client(split_settings(url)[0]), layout)
    except ValueError:  # its text may quote a password
        raise ConfigurationError(
            f"{mask_password(url)!r} is not the URL of a Redis: write redis://host:6379/0, "
            "rediss://… or redis+socket:///path; in a password '/', '?', '#' and '@' are "
            "percent-encoded"
        ) from None


def are_same(one: KombuLists, other: KombuLists) -> bool:
    """Whether both are the same database of the same server."""
    return _database(one) == _database(other)


def _database(lists: KombuLists) -> tuple[Any, Any]:
    options = lists.client.connection_pool.connection_kwargs
    return lists.client.info("server")["run_id"], int(options.get("db") or 0)


def live_workers(url: str, layout: Layout) -> list[str]:
    """Workers on kombu's own transport that answer to remote control there."""
    app = Celery("fairqueue-migrate", broker=_kombu_url(url), set_as_current=False)
    app.conf.broker_transport_options = {"global_keyprefix": layout.prefix}
    try:
        answers = app.control.inspect(timeout=1.0).stats() or {}
    finally:
        app.close()
    brokers = {name: stats.get("broker") or {} for name, stats in answers.items()}
    return sorted(n for n, broker in brokers.items() if "fairqueue" not in _scheme(broker))


def _transfer(source: KombuLists, destination: KombuLists, queues: Sequence[str]) -> None:
    with Transfer(source, destination) as transfer:
        transfer.finish_earlier()
        transfer.run(queues)


def _scheme(broker: Mapping[str, Any]) -> str:
    return str(broker.get("transport") or "")


def _kombu_url(url: str) -> str:
    return url.replace("unix://", "redis+socket://", 1)


def is_spread(core: FairQueue) -> bool:
    """Whether a core has several shards: then no lists are near all of its jobs."""
    return len(core.store.shards) > 1


def exported_lists(core: FairQueue, near: KombuLists) -> list[KombuLists]:
    """The lists to which a core exports: those near it, or with several shards some of each."""
    if not is_spread(core):
        return [near]

    def lists_of(shard: Any) -> KombuLists:
        prefix = shard.engine.keys.exported() + near.layout.prefix
        return KombuLists(shard.engine.client, replace(near.layout, prefix=prefix))

    return [lists_of(shard) for shard in core.store.shards]


class MoveIn:
    """From kombu's lists at ``source`` into a core; ``near`` are the lists on that core's Redis."""

    def __init__(self, source: KombuLists, near: KombuLists, core: FairQueue) -> None:
        self._source, self._core = source, core
        is_near = not is_spread(core) and are_same(source, near)
        self._adoption = (Adoption if is_near else SpreadAdoption)(core, source)

    def survey(self, holders: Sequence[str], queues: Sequence[str]) -> Moved:
        """What :meth:`run` would do."""
        source, held = self._source, list(self._source.held())
        found = Moved(holders=list(holders) if held else [])
        for queue in queues or source.queues():
            found.queues[queue] = source.waiting(queue)
            for message in source.messages(queue):
                found.note(as_job(parse(message), self._core))
        known = [one for one in held if one.queue and (not queues or one.queue in queues)]
        found.left_unknown = sum(one.queue is None for one in held)
        if holders:
            found.left_held = len(known)
            return found
        found.held = len(known)
        for one in known:
            found.queues[one.queue or ""] = found.queues.get(one.queue or "", 0) + 1
            found.note(as_job(one.message, self._core))
        return found

    def run(self, holders: Sequence[str], queues: Sequence[str], progress: Progress) -> Moved:
        """Move; what ``holders``, live workers, hold unacknowledged is left to them."""
        moved = Moved(holders=list(holders))
        self._core.jobs.suspend_imports(0)
        self._adoption.finish_earlier(partial(self._note, moved, progress))
        self._restore(moved, queues)
        for queue in queues or self._source.queues():
            note = partial(self._note, moved, progress, queue)
            while self._adoption.adopt(queue, most=10_000, progress=note):
                continue
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

    @staticmethod
    def _note(moved: Moved, progress: Progress, queue: str, job: Adopted) -> None:
        moved.queues[queue] = moved.queues.get(queue, 0) + 1
        moved.note(job)
        progress(1)


class MoveBack:
    """From a core into kombu's lists at ``target``; ``near`` are the lists on that core's Redis."""

    def __init__(self, core: FairQueue, near: KombuLists, target: KombuLists) -> None:
        self._core, self._near, self._target = core, near, target
        self._exported = exported_lists(core, near)

    def survey(self, queues: Sequence[str]) -> Moved:
        """What :meth:`run` would do."""
        stats = self._core.views.stats()
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
        """Move; jobs that run are left to finish."""
        moved = self.survey(queues)
        names, moved.queues = list(queues) or sorted(self._core.views.stats().queues), {}
        self._core.jobs.suspend_imports(SUSPEND_SECONDS)
        for queue in names:
            for moved_now in self._core.jobs.export_jobs(queue, self._near.layout.lists(queue)):
                if moved_now:
                    moved.queues[queue] = moved.queues.get(queue, 0) + moved_now
                    progress(moved_now)
        for lists in self._exported:
            if lists is not self._near:
                _transfer(lists, self._target, list(queues) or lists.queues())
            elif not are_same(lists, self._target):
                _transfer(lists, self._target, names)
        moved.running = self._running(names)
        return moved
