"""Jobs move between a store and another system's lists beside it, each in one step."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import FairQueueError, Job, Store
from fairqueue._stores.memory import MemoryStore
from fairqueue._stores.redis import RedisStore
from tests.contract.world import World, ids


class Lists:
    """Another system's lists in the same store; the last element is next."""

    def __init__(self, store: Store, namespace: str) -> None:
        self.store, self.prefix = store, f"{namespace} theirs \x06\x16"

    def name(self, which: str) -> str:
        return self.prefix + which

    def push(self, which: str, *messages: bytes) -> None:
        for message in messages:
            if isinstance(self.store, MemoryStore):
                self.store._shared.state.lists.setdefault(self.name(which), []).insert(0, message)
            else:
                assert isinstance(self.store, RedisStore)
                self.store.client.lpush(self.name(which), message)

    def read(self, which: str) -> list[bytes]:
        """From the next one on."""
        if isinstance(self.store, MemoryStore):
            return self.store._shared.state.lists.get(self.name(which), [])[::-1]
        assert isinstance(self.store, RedisStore)
        found: Any = self.store.client.lrange(self.name(which), 0, -1)
        return list(found[::-1])


@pytest.fixture
def lists(store: Store, namespace: str) -> Lists:
    return Lists(store, namespace)


def taken_over(
    world: World, lists: Lists, message: bytes, *, delay_seconds: float = 0.0, job_id: str = "j1"
) -> bool:
    job = Job(job_id, "a", "q", "t", message, 3, delay_seconds)
    return world.store.take_over(lists.name("l"), job, kind="message")


def test_the_next_message_becomes_a_job(world: World, lists: Lists) -> None:
    """It leaves the list and is a job like any other, in one step; the rest stays."""
    lists.push("l", b"{1}\n\x00", b"{2}")
    assert taken_over(world, lists, b"{1}\n\x00")

    assert lists.read("l") == [b"{2}"]
    lease = world.worker().take_one()
    assert (lease.job.payload, lease.job.workspace, lease.job.priority) == (b"{1}\n\x00", "a", 3)
    assert not lease.redelivered
    assert world.store.taken() == {"message": 1}


def test_only_the_next_message_is_taken(world: World, lists: Lists) -> None:
    """Who comes late, with a message that somebody else has taken, changes nothing."""
    lists.push("l", b"1", b"2")
    assert not taken_over(world, lists, b"2")
    assert taken_over(world, lists, b"1")
    assert not taken_over(world, lists, b"1", job_id="j2")

    assert lists.read("l") == [b"2"]
    assert world.row().waiting == 1


def test_a_message_with_a_time_waits_for_it(world: World, lists: Lists) -> None:
    """A delay makes it a scheduled job."""
    lists.push("l", b"1")
    assert taken_over(world, lists, b"1", delay_seconds=5.0)
    assert world.worker().take() == []

    world.clock.advance(5.0)
    assert ids(world.worker("w2").take()) == ["j1"]


def test_no_capacity_refuses_what_was_accepted_elsewhere(world: World, lists: Lists) -> None:
    """A full workspace takes it all the same."""
    world.limit("a", capacity=0)
    lists.push("l", b"1")
    assert taken_over(world, lists, b"1")


def test_what_waits_is_handed_over(world: World, lists: Lists) -> None:
    """Waiting and scheduled jobs go to the list of their priority, in order; what runs stays."""
    for n, priority in enumerate((0, 5, 2, 9, 0)):
        world.publish("a", f"j{n}", payload=b"%d" % n, priority=priority)
    world.publish("a", "later", payload=b"later", delay_seconds=60)
    world.publish("a", "elsewhere", queue="other")
    running = world.worker().take_one()
    steps = world.store.hand_over("q", [(0, lists.name("l")), (3, lists.name("l3"))])

    assert sum(steps) == 5
    assert lists.read("l") == [b"4", b"2", b"later"]
    assert lists.read("l3") == [b"1", b"3"]
    assert world.store.depth("q") == 0
    assert world.store.depth("other") == 1
    assert world.row("a").running == 1
    assert world.worker("w2").finish(running)


def test_workspaces_take_turns_when_much_is_handed_over(world: World, lists: Lists) -> None:
    """Pages and rounds lose nothing, and double nothing."""
    for name in ("a", "b", "c"):
        for n in range(25):
            world.publish(name, f"{name}{n}", payload=f"{name}{n}".encode())
    assert sum(world.store.hand_over("q", [(0, lists.name("l"))])) == 75

    found = [message.decode() for message in lists.read("l")]
    assert sorted(found) == sorted(f"{name}{n}" for name in "abc" for n in range(25))
    for name in ("a", "b", "c"):
        assert [one for one in found if one[0] == name] == [f"{name}{n}" for n in range(25)]


def test_nothing_is_taken_over_while_jobs_are_handed_over(world: World, lists: Lists) -> None:
    """Who leaves does not get back at once what was handed over; it ends by itself, or on word."""
    lists.push("l", b"1", b"2")
    world.store.leave(3600)
    with pytest.raises(FairQueueError, match="handed over"):
        taken_over(world, lists, b"1")
    assert lists.read("l") == [b"1", b"2"]

    world.store.leave(0)
    assert taken_over(world, lists, b"1")
