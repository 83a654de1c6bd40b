"""What operators ask of a store of three shards: limits, pauses, cancelling, dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fairqueue import Cancelled, Job, Limits
from fairqueue._stores import replies
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import StoreBase
from fairqueue._types import StoredLimits
from fairqueue.audit import audit
from fairqueue.errors import ConfigurationError, StoreUnavailable
from tests.contract.world import LEASE_SECONDS, World
from tests.operators import operators_of
from tests.shards.conftest import HOMES, Both, put_away


@dataclass
class Shards:
    """A sharded store, and each of its shards with producers and workers of its own."""

    store: ShardedStore
    worlds: list[World]

    def publish(self, **job: Any) -> list[str]:
        """Publish one job for a workspace of each shard; return their ids."""
        return [w.publish(name, **job) for w, name in zip(self.worlds, HOMES, strict=True)]

    def kill(self) -> None:
        """Start a job of each shard, and let its worker disappear for good."""
        for world in self.worlds:
            world.max_deliveries = 1
            world.worker("lost").take_one()
        for _ in range(12):
            self.worlds[0].clock.advance(5.0)
            self.store.reap(max_deliveries=1)

    def counts(self, *, running: bool = False) -> list[int]:
        """Count the jobs of each shard."""
        return [shard.depth("q", running=running) for shard in self.store.shards]

    def away(self, number: int, *, is_away: bool = True) -> None:
        """Let a shard answer no more, or again."""
        put_away(self.store.shards[number], is_away=is_away)


@pytest.fixture
def shards(both: Both) -> Iterator[Shards]:
    """Three shards on each engine in turn; at the end the auditor finds nothing there."""
    yield Shards(both.sharded, both.worlds[1:])
    for store in both.sharded.shards:
        put_away(store, is_away=False)
        assert audit(store.engine, now=both.clock()) == []


@pytest.mark.usefixtures("servers_apart")
def test_a_shard_that_is_away_does_not_keep_the_others_from_being_reaped(shards: Shards) -> None:
    """The error is raised when all were asked."""
    shards.publish(delay_seconds=10.0)
    shards.worlds[0].clock.advance(11.0)
    shards.away(0)
    with pytest.raises(StoreUnavailable):
        shards.store.reap(max_deliveries=5)
    shards.away(0, is_away=False)
    assert shards.store.reap(max_deliveries=5) == 1


@pytest.mark.usefixtures("servers_apart")
def test_a_search_needs_only_the_shard_that_has_the_job(shards: Shards) -> None:
    """Another that is away is an error only where the job may be there."""
    _, _, third = shards.publish()
    shards.away(0)
    with pytest.raises(StoreUnavailable):
        operators_of(shards.store).jobs.cancel("unknown")
    with pytest.raises(StoreUnavailable):
        operators_of(shards.store).jobs.withdraw("unknown", queue="q")
    assert operators_of(shards.store).jobs.cancel(third, workspace=HOMES[2]) is Cancelled.REMOVED


def test_failure_notices_come_from_all_shards_and_are_dropped_on_theirs(shards: Shards) -> None:
    """Each is taken by one caller and reported once."""
    jobs = shards.publish()
    shards.kill()
    found = shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0)
    assert {letter.job.id for letter in found} == set(jobs)
    assert shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0) == []
    assert shards.store.drop_failure_notices(found) == 3
    assert shards.store.drop_failure_notices(found) == 0
    shards.worlds[0].clock.advance(31.0)
    assert shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0) == []


def test_a_few_notices_come_from_another_shard_each_time(shards: Shards) -> None:
    """A shard with many of them does not keep those of the others back."""
    for _ in range(3):
        shards.publish()
    sum(shards.store.purge("q", cancelled=True))
    taken = [shards.store.take_failure_notices(["q"], n=1, hold_seconds=30.0) for _ in range(3)]
    assert {letter.job.workspace for some in taken for letter in some} == set(HOMES)


def test_a_message_is_imported_once_it_is_out_of_its_list(shards: Shards) -> None:
    """No step has both a list and the shard; a repeat under the same id does nothing."""
    job = Job("j", HOMES[1], "q", "t", b"x")
    with pytest.raises(ConfigurationError, match=r"'celery'.* 3 shards.* take it from there first"):
        shards.store.import_message("celery", job)
    for _ in range(2):
        assert shards.store.import_message("", job)
    assert [shard.depth("q") for shard in shards.store.shards] == [0, 1, 0]


def test_a_configuration_is_stored_on_every_shard(shards: Shards) -> None:
    """A workspace's limit holds on its shard, the default on all."""
    stored = StoredLimits(default=Limits(concurrency=1), workspaces={HOMES[1]: Limits(2)})
    assert not any(shard.has_limits() for shard in shards.store.shards)
    assert shards.store.configure(stored, authoritative=True)
    assert all(shard.has_limits() for shard in shards.store.shards)
    for _ in range(4):
        shards.publish()
    assert [len(world.worker().take(9)) for world in shards.worlds] == [1, 2, 1]
    assert not shards.store.configure(StoredLimits(default=Limits(3)), authoritative=False)


def test_replaced_limits_are_told_of_once(shards: Shards) -> None:
    """Not once for each shard."""
    told: list[tuple[list[str], int]] = []

    def tell(changes: Any, n: int) -> None:
        told.append((list(changes), n))

    for concurrency in (1, 1, 2):
        stored = StoredLimits(default=Limits(concurrency=concurrency))
        shards.store.configure(stored, authoritative=True, on_replaced=tell)
    ((changes, n),) = told
    assert n == 1
    assert "concurrency 1 → 2" in changes[0]


def test_a_default_parent_is_refused(shards: Shards) -> None:
    """Configured or live, with the reason and what to do; nothing is stored."""
    limits, told = Limits(parent="org"), r"^default_parent='org': all .* 3 shards.* use shards=1$"
    with pytest.raises(ConfigurationError, match=told):
        shards.store.configure(StoredLimits(default=limits), authoritative=True)
    with pytest.raises(ConfigurationError, match=told):
        shards.store.set_limits("default", "", limits)
    assert not any(shard.has_limits() for shard in shards.store.shards)
    assert not any(shard.get_limits("default", "") for shard in shards.store.shards)
    alone = ShardedStore(shards.store.shards[:1])
    assert alone.configure(StoredLimits(default=limits), authoritative=True)


def tickets(*names: str, owner: str = "p1") -> list[str]:
    """Name one request of each workspace."""
    return [replies.ticket(owner, name, i) for i, name in enumerate(names)]


def admit(store: StoreBase, ticket: str) -> str:
    """Ask for a place; return what came of it."""
    reply = store.admit_request(ticket, lease_seconds=LEASE_SECONDS, waiting_most=5)
    return reply.state


@pytest.mark.parametrize("lose", [False, True])
def test_requests_are_renewed_on_every_shard(shards: Shards, lose: bool) -> None:
    """They live on; those that a shard has lost count again."""
    held = tickets(*HOMES)
    for ticket in held:
        admit(shards.store, ticket)
    if lose:
        shards.store.end_request(held[1])
    for _ in range(4):
        shards.worlds[0].clock.advance(LEASE_SECONDS / 2)
        shards.store.renew_requests(held, lease_seconds=LEASE_SECONDS)
    assert [shards.store.count_requests(name) for name in HOMES] == [(3, 1, 0)] * 3


@pytest.mark.usefixtures("servers_apart")
def test_requests_of_other_shards_are_renewed_while_one_is_away(shards: Shards) -> None:
    """The error is raised when all were asked."""
    held = tickets(*HOMES)
    for ticket in held:
        admit(shards.store, ticket)
    shards.away(0)
    for _ in range(4):
        shards.worlds[0].clock.advance(LEASE_SECONDS / 2)
        with pytest.raises(StoreUnavailable):
            shards.store.renew_requests(held, lease_seconds=LEASE_SECONDS)
        new = tickets(HOMES[1], owner="p2")[0]
        reply = shards.store.admit_request(new, lease_seconds=LEASE_SECONDS, waiting_most=0)
        assert reply.state == "in_flight"
        assert shards.store.end_request(new)
    assert [shards.store.shards[i].count_requests(HOMES[i])[1] for i in (1, 2)] == [1, 1]
