"""Jobs move between the store and lists of another system beside it, each atomically."""

from __future__ import annotations

import pytest

from fairqueue import FairQueueError, Job
from fairqueue._stores.engine import Engine
from fairqueue._stores.operators import EXPORT_EACH, EXPORT_PAGE
from fairqueue._stores.store import Store
from tests.contract.world import Worker, World, ids, sound


class Lists:
    """Lists of another system in the same store; the last element is next."""

    def __init__(self, engine: Engine, namespace: str) -> None:
        self.engine, self.prefix = engine, f"{namespace} theirs \x06\x16"

    def name(self, which: str) -> str:
        return self.prefix + which

    def push(self, which: str, *messages: bytes) -> None:
        for message in messages:
            self.engine.command("LPUSH", self.name(which), message)

    def read(self, which: str) -> list[bytes]:
        """Return the elements, the next one first."""
        found: list[bytes] = self.engine.command("LRANGE", self.name(which), 0, -1)
        return found[::-1]


@pytest.fixture
def lists(store: Store, namespace: str) -> Lists:
    return Lists(store.engine, namespace)


def taken_over(
    world: World, lists: Lists, message: bytes, *, delay_seconds: float = 0.0, job_id: str = "j1"
) -> bool:
    job = Job(job_id, "a", "q", "t", message, 3, delay_seconds)
    return world.store.import_message(lists.name("l"), job)


def test_the_next_message_becomes_a_job(world: World, lists: Lists) -> None:
    """It leaves the list and becomes a job in one step; the other messages stay."""
    lists.push("l", b"{1}\n\x00", b"{2}")
    assert taken_over(world, lists, b"{1}\n\x00")

    assert lists.read("l") == [b"{2}"]
    lease = world.worker().take_one()
    assert (lease.job.payload, lease.job.workspace, lease.job.priority) == (b"{1}\n\x00", "a", 3)
    assert not lease.redelivered


def test_only_the_next_message_is_imported(world: World, lists: Lists) -> None:
    """An import of a message that is no longer the next one changes nothing."""
    lists.push("l", b"1", b"2")
    assert not taken_over(world, lists, b"2")
    assert taken_over(world, lists, b"1")
    assert not taken_over(world, lists, b"1", job_id="j2")

    assert lists.read("l") == [b"2"]
    assert world.row().waiting == 1


def test_a_repeated_import_takes_no_equal_message(world: World, lists: Lists) -> None:
    """After a lost reply the client sends the call again: the equal message behind stays."""
    lists.push("l", b"1", b"1")
    assert taken_over(world, lists, b"1")
    assert taken_over(world, lists, b"1")
    assert lists.read("l") == [b"1"]
    assert world.row().waiting == 1

    worker = world.worker()
    worker.finish(worker.take_one())
    assert taken_over(world, lists, b"1")
    assert lists.read("l") == [b"1"]
    assert sound(world)
    assert taken_over(world, lists, b"1", job_id="j2")
    assert ids(worker.take()) == ["j2"]


def test_an_import_ignores_capacity(world: World, lists: Lists) -> None:
    """A full workspace accepts messages that another system has accepted."""
    world.limit("a", capacity=0)
    lists.push("l", b"1")
    assert taken_over(world, lists, b"1")


def test_waiting_jobs_are_exported(world: World, worker: Worker, lists: Lists) -> None:
    """Waiting and scheduled jobs go to the list of their priority, in order; running ones stay."""
    for n, priority in enumerate((0, 5, 2, 9, 0)):
        world.publish("a", f"j{n}", payload=b"%d" % n, priority=priority)
    world.publish("a", "later", payload=b"later", delay_seconds=60)
    world.publish("a", "elsewhere", queue="other")
    running = worker.take_one()
    steps = world.store.export_jobs("q", [(0, lists.name("l")), (3, lists.name("l3"))])

    assert sum(steps) == 5
    assert lists.read("l") == [b"4", b"2", b"later"]
    assert lists.read("l3") == [b"1", b"3"]
    assert world.store.depth("q") == 0
    assert world.store.depth("other") == 1
    assert world.row("a").running == 1
    assert worker.finish(running)


def test_more_workspaces_than_a_page_are_exported(world: World, lists: Lists) -> None:
    """In turns: up to ten jobs of each, then the rest, each workspace's in order; all once."""
    names = [f"w{n}" for n in range(EXPORT_PAGE + 7)]
    for name in names:
        for n in range(EXPORT_EACH + 2):
            world.publish(name, f"{name}-{n}", payload=f"{name} {n}".encode())
        world.publish(name, f"{name}-later", payload=b"later", delay_seconds=60)
    steps = list(world.store.export_jobs("q", [(0, lists.name("l"))]))

    found = [tuple(message.decode().split()) for message in lists.read("l") if message != b"later"]
    for name in names:
        assert [n for one, n in found if one == name] == [str(n) for n in range(EXPORT_EACH + 2)]
    first_turns = {int(n) < EXPORT_EACH for _, n in found[: EXPORT_EACH * len(names)]}
    assert first_turns == {True}
    assert len(lists.read("l")) == sum(steps) == (EXPORT_EACH + 3) * len(names)
    assert world.store.depth("q") == 0
    assert sound(world)


@pytest.mark.parametrize("aside", [0, 1000])
def test_an_export_loses_no_record_that_cannot_be_read(
    world: World, lists: Lists, aside: int
) -> None:
    """It is not moved: it is set aside, or stays where it is once a thousand are kept."""
    for n in range(aside):
        world.command("HSET", "set_aside", f"job a/q/{n}", "1 ")
    bad = world.publish()
    world.publish(payload=b"good")
    world.command("HSET", ("jobs", "q"), f"a/q/{bad}", "{}")
    assert sum(world.store.export_jobs("q", [(0, lists.name("l"))])) == 1
    assert lists.read("l") == [b"good"]
    left = world.command("HGET", ("jobs", "q"), f"a/q/{bad}")
    kept = world.command("HGET", "set_aside", f"job a/q/{bad}") or b""
    assert (left, kept[-2:]) == ((b"{}", b"") if aside else (None, b"{}"))


def test_imports_are_suspended_during_an_export(world: World, lists: Lists) -> None:
    """Otherwise exported jobs would be imported again; this ends on request or after a while."""
    lists.push("l", b"1", b"2")
    world.store.suspend_imports(3600)
    with pytest.raises(FairQueueError, match="suspended"):
        taken_over(world, lists, b"1")
    assert lists.read("l") == [b"1", b"2"]

    world.store.suspend_imports(0)
    assert taken_over(world, lists, b"1")
