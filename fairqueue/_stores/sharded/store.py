"""A store whose workspaces are spread over several shards."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from copy import copy
from functools import partial
from math import inf

from fairqueue._shards.placement import shard_of_fence
from fairqueue._stores import replies
from fairqueue._stores.engine import Engine, WorkspaceMoves
from fairqueue._stores.layout import Layout, Mark, check_layout
from fairqueue._stores.publishes import Outcome
from fairqueue._stores.sharded.asking import Errors, answers
from fairqueue._stores.sharded.limits import ShardedLimits
from fairqueue._stores.sharded.own import OwnMethods
from fairqueue._stores.sharded.shards import OpenShard, cannot_open
from fairqueue._stores.sharded.waiter import ShardedWaiter
from fairqueue._stores.store import Store
from fairqueue._stores.waiter import Waiter
from fairqueue._types import Admission, Job, JobId, Renewed
from fairqueue.errors import (
    LeaseLost,
    PublishInterrupted,
    StoreUnavailable,
)

log = logging.getLogger("fairqueue")
Pair = tuple[Job, Admission]
Parts = dict[tuple[Store, str], list[tuple[int, Pair]]]
"""Jobs with their indexes, by shard and the version of the number of shards."""
Moving = dict[str, None]
"""Workspaces that move, or are not where this process looked, each once."""


class ShardedStore(ShardedLimits, OwnMethods):
    """One method per operation, as in a store of one shard.

    The header of an operation says which shards are asked, see ``router.py``. An owner's numbered
    calls go through a claimer for each shard, see ``fairqueue._claim.claimers``.
    """

    def __init__(
        self,
        shards: Sequence[Store],
        *,
        servers: int = 1,
        open_shard: OpenShard = cannot_open,
        layout: Layout | None = None,
    ) -> None:
        super().__init__(shards, open_shard=open_shard, layout=layout)
        self.servers = servers
        """How many servers the URL names: shard i is on server i modulo this."""
        self._woken: set[int] = set()
        self.refused: set[str] = set()
        """Queues for which an owner in this process waits for permits."""

    def check(self, *, strict: bool = True) -> None:
        """Check each server, and that all agree on the shards.

        The shards of a server that is away are checked before the first call to them. Raises
        StoreUnavailable if all servers are away. For ``strict`` see :meth:`Engine.check`.
        """
        errors, checked, shards = Errors(), set[str](), self.shards

        def check(shard: Store) -> Engine:
            if shard.engine.late:
                shard.engine.catch_up()
            elif shard.engine.server not in checked:
                shard.engine.check(strict=strict)
            checked.add(shard.engine.server)
            return shard.engine

        there = list(answers(shards, check, errors))
        for error in errors.found:
            if not there or not isinstance(error, StoreUnavailable):
                raise error
        if self.layout.looked_at:  # this process connects again: their number may have changed
            self._look([shards[engine.shard] for engine in there])
        check_layout(there, self.layout, servers=self.servers)
        for shard in shards:
            if shard.engine not in there and not shard.engine.late:
                log.warning("shard %d does not answer: %s", shard.engine.shard, errors.found[-1])
                shard.engine.late = [partial(self._check_late, shard, strict=strict)]

    def _check_late(self, shard: Store, *, strict: bool) -> None:
        shard.engine.check(strict=strict)
        check_layout([shard.engine], self.layout, servers=self.servers)
        log.info("shard %d answers again", shard.engine.shard)

    def publish(
        self,
        job: Job,
        admission: Admission,
        *,
        shards: str = "",  # noqa: ARG002 - the arguments are those of a store of one shard
    ) -> JobId:
        """Enqueue a job on the shard of its workspace.

        If its parent job runs on another shard, that lease is checked in a step before. While its
        workspace moves, the publish waits for some 2 s, then raises WorkspaceMoves.
        """
        return self.patiently(lambda: self._publish(job, admission))

    def _publish(self, job: Job, admission: Admission) -> JobId:
        home, shards = self.placed(job.workspace)
        return home.publish(job, self._checked(home, job, admission), shards=shards)

    def _checked(self, home: Store, job: Job, admission: Admission) -> Admission:
        """Check the lease of a parent job on another shard; raise LeaseLost without it."""
        fence = admission.parent_fence
        if fence is None or shard_of_fence(fence) == home.engine.shard:
            return admission
        parent = self.of_fence(fence)
        if parent is None or not parent.is_leased(fence):
            raise LeaseLost(job.id, job.workspace)
        return admission._replace(parent_fence=None)

    def publish_many(
        self,
        jobs: Sequence[Pair],
        *,
        shards: str = "",  # noqa: ARG002
    ) -> list[Outcome]:
        """Publish each job on its shard; jobs of a group are admitted together on each shard.

        Jobs of a workspace that moves are tried again as by :meth:`publish`, and hold up no others.
        """
        outcomes: dict[int, Outcome] = {}

        def publish_left() -> None:
            left = {at: pair for at, pair in enumerate(jobs) if at not in outcomes}
            if moving := self._publish_some(left, outcomes):
                raise WorkspaceMoves(*moving)

        try:
            self.patiently(publish_left)
        except StoreUnavailable as error:
            raise PublishInterrupted(str(error), _beginning(outcomes)) from error
        return [outcomes[at] for at in range(len(jobs))]

    def _publish_some(self, jobs: Mapping[int, Pair], outcomes: dict[int, Outcome]) -> Moving:
        """Publish these jobs; return the workspaces of those that still have no outcome."""
        parts: Parts = defaultdict(list)
        homes: dict[str, tuple[Store, str]] = {}
        moving: Moving = {}
        for at, (job, admission) in jobs.items():
            name = job.workspace
            if name in moving:
                continue
            try:
                if name not in homes:
                    homes[name] = self.placed(name)
                pair = job, self._checked(homes[name][0], job, admission)
            except WorkspaceMoves:
                moving[name] = None
            except LeaseLost as error:
                outcomes[at] = error
            else:
                parts[homes[name]].append((at, pair))
        for (shard, version), part in parts.items():
            places = [at for at, _ in part]
            try:
                done = shard.publish_many([pair for _, pair in part], shards=version)
            except PublishInterrupted as error:
                _keep(outcomes, places, error.outcomes)
                raise
            moving |= _keep(outcomes, places, done)
        return moving

    def renew(
        self, progress: Sequence[tuple[int, float]], *, owner: str, lease_seconds: float
    ) -> Renewed:
        """Renew each lease on its shard; leases of a shard that is away have failed.

        Raises the error if no shard answers.
        """
        parts: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for fence, seconds in progress:
            parts[shard_of_fence(fence)].append((fence, seconds))

        def renew(shard: Store) -> tuple[int, Renewed]:
            number = shard.engine.shard
            found = shard.renew(parts[number], owner=owner, lease_seconds=lease_seconds)
            return number, found

        errors, known = Errors(), [n for n in parts if n < len(self.shards)]
        found = dict(answers([self.shards[n] for n in known], renew, errors))
        if not found:
            errors.raise_first()
        for n, part in parts.items():
            fences = frozenset(fence for fence, _ in part)
            if n not in known:
                found[n] = Renewed(fences)
            elif n not in found:
                found[n] = Renewed(frozenset(), failed=fences)
        away = next(iter(errors.found), None)
        return replies.all_renewed(found.values())._replace(away=away)

    def waiter(
        self,
        queues: Sequence[str],
        refused: Container[str] = (),  # noqa: ARG002 - that is known here
    ) -> Waiter:
        return ShardedWaiter(self, queues, self.refused, self._woken.add)

    def of_these(self, shards: Sequence[Store]) -> ShardedStore:
        """Return a store that lists only some of the shards."""
        part = copy(self)
        part._all = tuple(shards)  # noqa: SLF001 - of its own class
        part.layout = Layout(Mark(len(shards)), looked_at=inf)
        return part

    def take_woken(self) -> frozenset[int]:
        """Return the shards whose tokens woke us: each must be asked, or its token is lost."""
        woken = frozenset(self._woken)
        self._woken -= woken
        return woken

    def clone(self, *, timeout_seconds: float | None = None) -> ShardedStore:
        opened: dict[object, Store] = {}

        def open_shard(number: int) -> Store:
            shard = self.shards[number]
            beside = opened.get(shard.engine.connections)
            clone = shard.clone(timeout_seconds=timeout_seconds, beside=beside)
            opened.setdefault(shard.engine.connections, clone)
            return clone

        clones = [open_shard(n) for n in range(len(self.shards))]
        return ShardedStore(clones, servers=self.servers, open_shard=open_shard, layout=self.layout)

    def close(self) -> None:
        for shard in self.shards:
            shard.close()


def _keep(outcomes: dict[int, Outcome], places: Sequence[int], found: Sequence[Outcome]) -> Moving:
    """Record outcomes; return the workspaces whose jobs are to be published again."""
    moving: Moving = {}
    for at, outcome in zip(places, found, strict=False):
        if isinstance(outcome, WorkspaceMoves):
            moving |= dict.fromkeys(outcome.workspaces)
        else:
            outcomes[at] = outcome
    return moving


def _beginning(outcomes: dict[int, Outcome]) -> list[Outcome]:
    """Return the outcomes of the first jobs, up to the first unknown one."""
    known: list[Outcome] = []
    while len(known) in outcomes:
        known.append(outcomes[len(known)])
    return known
