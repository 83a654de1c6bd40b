"""Any text can be a name: it cannot break a key or collide with another name."""

from __future__ import annotations

import pytest

from fairqueue import Limits
from tests.contract.world import Worker, World, ids

NAMES = {
    "space": "acme corp",
    "colon": "a:b",
    "another colon": "a%3Ab",
    "star": "acme*",
    "braces": "{acme}:0",
    "newline": "a\nb\r\n\t",
    "emoji": "🦊 ünïcödé 漢字",
    "200 bytes": "ü" * 100,
    "percent": "100%",
    "pipe": "a|b;c=d,e",
    "minus": "-",
    "dot": ".",
    "quote": 'it\'s "quoted"\\',
    "null": "nil\0",
    "digits": "0012",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_workspace_may_have_any_name(world: World, worker: Worker, name: str) -> None:
    """Jobs are published, limited, run, given back, rejected and counted under the name."""
    world.limit(name, concurrency=2)
    world.publish_many(4, name)
    world.publish(name, delay_seconds=60)
    first, second = worker.take(5)
    assert first.job.workspace == name
    assert worker.release(first)
    assert worker.reject(second)
    row = world.row(name)
    assert (row.workspace, row.waiting, row.scheduled, row.dead, row.limit) == (name, 3, 1, 1, 2)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_everything_else_may_have_any_name(world: World, name: str) -> None:
    """Queue, task, job id, owner, group and reason can have any name through a job's life."""
    world.store.set_limits("queue", name, Limits(concurrency=1))
    world.publish("a", name, queue=name, task=name, group=name, payload=name.encode())
    world.publish("a", name + "2", queue=name, task=name, group=name, delay_seconds=1)
    worker = world.worker(name)
    lease = worker.take_one(name)
    assert (lease.job.id, lease.job.queue, lease.job.task) == (name, name, name)
    assert lease.job.payload == name.encode()
    assert worker.renew(lease) == frozenset()
    assert worker.finish(lease, 1.0)
    world.clock.advance(1)
    late = worker.take_one(name)
    assert late.job.id == name + "2"
    assert worker.reject(late, reason=name)
    assert world.stats().queues == {name: 0}


def test_similar_names_do_not_collide(world: World) -> None:
    """Workspaces and queues whose names look alike are separate."""
    names = [*NAMES.values(), "a", "b", "a b", "A", "acme", "0", "12"]
    for name in names:
        world.publish(name, name, queue=name)
    for name in names:
        assert world.store.depth(name) == 1
        assert ids(world.worker(name).take(2, name)) == [name]
    assert len(world.stats().workspaces) == len(set(names))


def test_a_name_may_look_like_a_part_of_a_key(world: World) -> None:
    """Workspace ``a`` on queue ``b:0`` is not workspace ``a:b`` on queue ``0``."""
    world.publish("a", "x", queue="b:0")
    world.publish("a:b", "y", queue="0")
    assert ids(world.worker("w1").take(2, "0")) == ["y"]
    assert ids(world.worker("w2").take(2, "b:0")) == ["x"]


def test_a_payload_may_look_like_a_record(world: World, worker: Worker) -> None:
    """The store never reads a payload."""
    payload = b"a 1 0 0 0 1700000000.0\n[] {} \x00\xff\n\n"
    world.publish(payload=payload)
    worker.release(worker.take_one())
    assert worker.take_one().job.payload == payload


def forget_everything(world: World) -> None:
    """Let the store lose all its data, as FLUSHALL does; the process knows what it knew."""
    for entry in list(world.store.engine.dump()):
        world.store.engine.command("DEL", entry.key)


def test_a_task_never_goes_by_the_name_of_another(world: World, worker: Worker) -> None:
    """A process that remembers tasks from before the store lost its data names new ones rightly."""
    for task in ("charge_card", "refund"):
        world.publish(task=task)
    assert [lease.job.task for lease in worker.take(2)] == ["charge_card", "refund"]

    forget_everything(world)
    world.clock.advance(0.001)

    for task in ("send_mail", "refund", "charge_card"):
        world.publish(task=task)
    assert [lease.job.task for lease in worker.take(3)] == ["send_mail", "refund", "charge_card"]
