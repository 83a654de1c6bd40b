"""A record that is lost or cannot be read stops no queue, and no job that is left is lost."""

from __future__ import annotations

import math
import struct

import pytest

from fairqueue import Limits, Pause
from fairqueue.audit import audit
from fairqueue.errors import ConfigurationError
from tests.contract.world import Worker, World, ids


def aside(world: World) -> set[str]:
    """What is set aside, counters apart."""
    found: list[bytes] = world.command("HKEYS", "set_aside")
    return {name.decode() for name in found if not name.startswith(b"#")}


def sound(world: World) -> bool:
    """Whether the auditor finds nothing but what was set aside."""
    found = audit(world.store.engine, now=world.clock())
    assert [one for one in found if one.invariant != "I13"] == []
    return True


@pytest.mark.parametrize("damage", ["missing", "unreadable", "foreign element"])
def test_a_job_without_a_record_is_passed(world: World, damage: str) -> None:
    """A claim passes it, those behind it run, and what could not be read is kept and told."""
    names = world.publish_many(4)
    other = world.publish("b")
    if damage == "missing":
        world.command("HDEL", ("jobs", "q"), f"a/q/{names[0]}")
    elif damage == "unreadable":
        world.command("HSET", ("jobs", "q"), f"a/q/{names[0]}", "{'json': 1}")
    else:
        world.command("LPUSH", ("lane", "a", "q", "0"), "not ours")
    left = names if damage == "foreign element" else names[1:]
    assert sorted(world.drain()) == sorted([*left, other])
    name = "not ours" if damage == "foreign element" else f"a/q/{names[0]}"
    assert aside(world) == {f"job {name}"}
    assert sound(world)
    kept = world.command("HGETALL", "set_aside")
    assert ("json" in str(kept)) == (damage == "unreadable")


def test_a_record_that_goes_while_its_job_runs_frees_the_slot(world: World) -> None:
    """The lease expires, its slot is free, and the other jobs of the workspace run."""
    world.limit("a", concurrency=1)
    gone, then = world.publish_many(2)
    world.worker().take_one()
    world.command("HDEL", ("jobs", "q"), f"a/q/{gone}")
    world.pass_time(60)
    assert world.drain() == [then]
    assert sound(world)


@pytest.mark.parametrize("record", [None, "not a lease", "q 1"])
def test_a_lease_without_a_record_expires_as_any_other(world: World, record: str | None) -> None:
    """Its job is found by its fence and redelivered, its slots are free, and reaping goes on."""
    world.limit("a", concurrency=2)
    names = world.publish_many(4)
    first, _ = world.worker().take(2)
    if record is None:
        world.command("HDEL", "leases", str(first.fence))
    else:
        world.command("HSET", "leases", str(first.fence), record)
    assert world.worker("w2").renew(first) == {first.fence}
    world.pass_time(60)
    assert sorted(world.drain()) == names
    assert aside(world) == {f"lease {first.fence}"}
    assert sound(world)


@pytest.mark.parametrize("kind", ["lane", "returned"])
def test_a_lane_that_is_gone_stops_no_other(world: World, worker: Worker, kind: str) -> None:
    """Its flow names it and it is not there: the other workspaces run, and new jobs of this one."""
    world.publish_many(2)
    worker.release(worker.take_one())
    world.command("DEL", (kind, "a", "q", "0"))
    other = world.publish("b")
    assert other in world.drain()
    again = world.publish()
    assert world.drain("w10") == [again]


@pytest.mark.parametrize("record", [None, "", "{}", "1|2|3", "1 0 0 0 - -"])
def test_a_workspace_without_a_record_is_found_again(world: World, record: str | None) -> None:
    """Its lanes, schedule and timer are found by their keys; no job is lost, nor its order."""
    names = [*world.publish_many(3), world.publish(priority=9)]
    worker = world.worker()
    worker.release(worker.take_one())
    late = world.publish(delay_seconds=5)
    other = world.publish("b")
    if record is None:
        world.command("HDEL", "workspaces", "a")
    else:
        world.command("HSET", "workspaces", "a", record)
    done = world.drain()
    assert [name for name in done if name != other] == [*names, late]
    assert other in done
    assert aside(world) == (set() if record is None else {"workspace a"})
    assert sound(world)


def idle(world: World, seconds: float = 900) -> None:
    """Let time pass with claims of another queue, which find nothing: so the rebuild goes round."""
    worker = world.worker("idle")
    for _ in range(30):
        world.clock.advance(seconds / 30)
        worker.take(1, "other")


def forget(world: World) -> None:
    """Remove all that leads to the jobs of a workspace."""
    world.command("HDEL", "workspaces", "a")
    for entry in list(world.store.engine.dump()):
        if b":ready:" in entry.key:
            world.store.engine.command("DEL", entry.key)


def test_a_workspace_that_nothing_leads_to_is_found_by_the_rebuild(world: World) -> None:
    """It looks at each job, whatever its priority and lane."""
    world.limit_task("limited", concurrency=5)
    names = [world.publish(), world.publish(priority=99), world.publish(task="limited")]
    worker = world.worker()
    worker.release(worker.take_one())
    forget(world)
    idle(world)
    assert sorted(world.drain()) == names


def test_a_job_that_stands_nowhere_is_placed_by_the_rebuild(world: World) -> None:
    """Its record is left, and its lane or its entry in the schedule is not."""
    names = [world.publish(), world.publish("b", delay_seconds=5), world.publish("c")]
    world.command("DEL", ("scheduled", "b"))
    world.command("DEL", ("lane", "c", "q", "0"))
    done = world.drain("before")
    idle(world)
    assert sorted(done + world.drain()) == names
    assert sound(world)


def test_the_rebuild_leaves_every_job_where_it_stands(world: World, worker: Worker) -> None:
    """In a lane, before it, running, scheduled, blocked or behind holes."""
    world.limit_task("t", concurrency=5)
    names = [*world.publish_many(4), world.publish(delay_seconds=2000)]
    world.limit_task("t")
    world.store.set_limits("task", "t", None)
    names += world.publish_many(3)
    world.jobs.cancel(names.pop(1))
    lease = worker.take_one()
    worker.release(worker.take_one(), delay_seconds=2000)
    before = {entry.key: entry.value for entry in world.store.engine.dump()}
    for _ in range(30):
        world.clock.advance(9)
        assert worker.renew(lease) == frozenset()
        world.reap()
    after = {entry.key: entry.value for entry in world.store.engine.dump()}
    for kind in ("lane:", "returned:", "scheduled:", "jobs:", "holes:", "workspaces"):
        prefix = (world.store.engine.keys.prefix + kind).encode()
        found = [{k: v for k, v in of.items() if k.startswith(prefix)} for of in (before, after)]
        assert found[0] == found[1]
    assert sound(world)


def test_a_workspace_without_a_record_frees_the_slots_of_its_group(world: World) -> None:
    """It is found again in its group, whose other workspaces go on."""
    world.group("org", "a", "b", jobs=1, concurrency=1)
    worker = world.worker()
    first = worker.take_one()
    world.command("HDEL", "workspaces", first.job.workspace)
    assert worker.finish(first)
    assert len(world.drain()) == 1


@pytest.mark.parametrize("publishes", [False, True])
def test_a_workspace_that_is_paused_is_found_again(world: World, *, publishes: bool) -> None:
    """To resume it finds its lanes, and so does a publish before that."""
    world.store.pause("workspace", "a", Pause.PAUSED)
    names = world.publish_many(3)
    world.command("HDEL", "workspaces", "a")
    if publishes:
        names.append(world.publish(priority=7))
    world.store.pause("workspace", "a", None)
    assert world.drain() == names
    assert sound(world)


STRAYS: dict[str, tuple[str, tuple[str, ...], str, set[str]]] = {
    "an end of no lease": ("expiry", (), "77", set()),
    "a timer of no workspace": ("timer", (), "ghost", set()),
    "a timer of no task": ("timer", (), "@ghost", set()),
    "an entry that is no job": ("scheduled", ("a",), "not ours", {"schedule a"}),
}


@pytest.mark.parametrize("stray", STRAYS)
def test_what_names_nothing_is_forgotten(world: World, stray: str) -> None:
    """It keeps no job from its lane: what is due behind it comes in time."""
    names = [*world.publish_many(2), world.publish(delay_seconds=5)]
    kind, of, member, told = STRAYS[stray]
    for n in range(40 if not told else 1):
        world.command("ZADD", (kind, *of), 1.0, f"{member}{n or ''}")
    world.pass_time(60)
    assert sorted(world.drain()) == names
    assert aside(world) == told
    assert sound(world)


@pytest.mark.parametrize("record", [b"{}", b"x" * 60, struct.pack("<7d", *[math.nan] * 7)])
def test_a_queue_whose_record_cannot_be_read_goes_on(world: World, record: bytes) -> None:
    """Its virtual time starts again."""
    names = world.publish_many(3)
    world.command("HSET", "shard", "queue:q", record)
    assert world.drain() == names
    assert aside(world) == {"queue q"}


@pytest.mark.parametrize("mark", ["x.y", '3."1', "three"])
def test_a_number_of_shards_that_cannot_be_read_stops_nothing(world: World, mark: str) -> None:
    """The limits of this shard hold as they are stored."""
    world.store.set_limits("total", "", Limits(concurrency=1))
    names = world.publish_many(2)
    world.command("HSET", "shard", "shards", mark)
    world.command("HDEL", "shard", "settings")
    worker = world.worker()
    (lease,) = worker.take(2)
    assert worker.finish(lease)
    assert [lease.job.id, worker.take_one().job.id] == names


@pytest.mark.parametrize("record", [b"", b"x" * 40, struct.pack("<2d", math.nan, math.nan)])
def test_an_owner_whose_last_reply_cannot_be_read_goes_on(world: World, record: bytes) -> None:
    """Its next call is a new one."""
    names = world.publish_many(2)
    worker = world.worker("w")
    first = worker.take_one()
    world.command("HSET", "shard", "owner:w", record)
    assert [first.job.id, worker.take_one().job.id] == names


def test_what_is_set_aside_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The worker's log names it, from time to time."""
    names = world.publish_many(2)
    world.command("HDEL", ("jobs", "q"), f"a/q/{names[0]}")
    world.worker().take(1)
    assert [text for text in caplog.messages if f"job a/q/{names[0]}" in text]


def test_what_is_set_aside_is_counted_until_it_is_dropped(world: World) -> None:
    """Statistics count it by kind, the auditor names it, and an operator removes it."""
    for name in world.publish_many(3)[:2]:
        world.command("HDEL", ("jobs", "q"), f"a/q/{name}")
    assert len(world.drain()) == 1
    assert world.stats().set_aside == {"job": 2}
    found = audit(world.store.engine, now=world.clock())
    assert {one.invariant for one in found} == {"I13"}
    assert world.store.drop_set_aside() == 2
    assert world.stats().set_aside == {}
    assert audit(world.store.engine, now=world.clock()) == []


def test_what_is_kept_is_bounded(world: World) -> None:
    """A thousand are kept; a record beyond that stays where it is."""
    for n in range(1000):
        world.command("HSET", "set_aside", f"job a/q/{n}", "1 ")
    name = world.publish()
    world.command("HSET", ("jobs", "q"), f"a/q/{name}", "{}")
    assert world.drain() == []
    assert world.command("HGET", ("jobs", "q"), f"a/q/{name}") == b"{}"
    assert world.command("HLEN", "set_aside") == 1001
    assert world.stats().set_aside == {"job": 1}


def test_keys_of_a_newer_format_are_refused(world: World) -> None:
    """The error names both formats and the remedy, and nothing is changed."""
    world.publish()
    world.worker().take(1)
    newer = world.command("HGET", "shard", "record").replace(b"format=2", b"more format=3")
    world.command("HSET", "shard", "record", newer)
    before = {entry.key: entry.value for entry in world.store.engine.dump()}
    for act in (world.publish, world.worker("w2").take, world.reap, world.store.snapshot):
        with pytest.raises(ConfigurationError, match=r"have format 3, .* knows format 2: upgrade"):
            act()
    assert {entry.key: entry.value for entry in world.store.engine.dump()} == before


def test_a_clock_that_seems_set_back_is_right_with_the_next_call(world: World) -> None:
    """The shard adds nothing to its clock that is less than nothing."""
    world.publish()
    record = world.command("HGET", "shard", "record")
    world.command("HSET", "shard", "record", record[:8] + struct.pack("<d", -5.0) + record[16:])
    world.clock.advance(1)
    world.reap()
    assert sound(world)


@pytest.mark.parametrize(
    "text", ["", "{}", "1 2 3", "0 0 0 - - 0 - 0 0 format=", "no number", None]
)
def test_a_shard_whose_record_cannot_be_read_goes_on(world: World, text: str | None) -> None:
    """It starts again: fences still grow, and leases that are held stay so."""
    names = world.publish_many(3)
    world.publish(delay_seconds=5)
    worker = world.worker()
    lease = worker.take_one()
    if text is None:
        world.command("HDEL", "shard", "record")
    elif text == "no number":
        record = world.command("HGET", "shard", "record")
        fence = struct.pack("<d", math.nan)
        world.command("HSET", "shard", "record", record[:24] + fence + record[32:])
    else:
        world.command("HSET", "shard", "record", text)
    world.clock.advance(0.001)
    again = worker.take_one()
    assert (again.job.id, again.fence > lease.fence) == (names[1], True)
    assert worker.finish(lease)
    assert worker.finish(again)
    world.pass_time(20)
    assert len(world.drain()) == 2
    assert aside(world) == (set() if text is None else {"shard -"})
    assert sound(world)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("lane", ("a", "q", "0")),
        ("slots", ("a",)),
        ("scheduled", ("a",)),
        ("expiring", ("a",)),
    ],
)
def test_a_foreign_key_stops_one_workspace(world: World, kind: str, names: tuple[str, ...]) -> None:
    """A key of another type stands in the way of one workspace: all others go on.

    When it has gone, the jobs that are left run, too.
    """
    world.limit("a", concurrency=5)
    world.publish("a", "first", priority=1)
    world.publish("a", "late", delay_seconds=5, expires_seconds=900)
    before = world.command("EXISTS", (kind, *names))
    world.command("DEL", (kind, *names))
    world.command("SET", (kind, *names), "foreign")
    world.publish("b", "other")
    for n in range(5):
        world.publish(f"c{n}", f"more{n}")
    worker, done = world.worker(), set[str]()
    for _ in range(12):
        done |= set(_take_what_comes(worker))
        world.clock.advance(1)
    assert done >= {"other", *(f"more{n}" for n in range(5))}
    world.command("DEL", (kind, *names))
    if kind == "lane" or not before:
        world.pass_time(20)
        assert set(world.drain()) | done >= {"first"}


def _take_what_comes(worker: object) -> list[str]:
    try:
        leases = worker.take(3)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - each engine has its own
        return []
    for lease in leases:
        worker.finish(lease)  # type: ignore[attr-defined]
    return ids(leases)
