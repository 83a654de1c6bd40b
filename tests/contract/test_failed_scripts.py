"""A script that fails at any of its commands loses no job, and its queue goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from fairqueue import Job, Lease, Limits
from fairqueue._keys import decode_job
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.values import CommandError
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Ending, Finish
from fairqueue.audit import audit
from fairqueue.audit.keyspace import Keyspace
from fairqueue.testing import ManualClock
from tests.contract.world import Worker, World, ids
from tests.failing_commands import FailingDatabase

MOST_COMMANDS = 400


class Scene:
    """A world with something of everything, on an engine that can fail."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.database = FailingDatabase(self.clock)
        engine = MemoryEngine(self.database, namespace="failing")
        self.world = world = World(Store(engine, clock=self.clock), self.clock)
        world.limit("full", concurrency=1)
        world.limit("eu", parent="org")
        world.limit("org", concurrency=3)
        world.limit_task("report", concurrency=1)
        self.worker: Worker = world.worker()
        for workspace in ("a", "full", "eu"):
            world.publish_many(3, workspace)
        world.publish("a", priority=3)
        world.publish("a", task="report")
        world.publish("eu", task="report")
        self.leases: list[Lease] = self.worker.take(4)
        self.worker.release(self.leases.pop())
        world.publish("a", delay_seconds=5, expires_seconds=900)
        world.publish("eu", "mortal", expires_seconds=9)
        self.before = self.jobs()

    def jobs(self) -> set[str]:
        """Ids of the jobs that have a record."""
        space = Keyspace(self.world.store.engine)
        return {decode_job(job) for _, records in space.all("jobs") for job in records}

    def drain(self) -> set[str]:
        """Wait until every lease has ended, and run everything."""
        self.world.pass_time(70)
        worker, done, until = self.world.worker("drain"), set[str](), self.clock() + 120
        while self.jobs() and self.clock() < until:
            leases = worker.take(4)
            done |= set(ids(leases))
            for lease in leases:
                worker.finish(lease, 0.1)
            self.world.pass_time(2)
        return done


def _publish_many(scene: Scene) -> object:
    pairs = [
        (Job(f"new{n}", "abc"[n % 3], "q", "t", b"", delay_seconds=float(n == 4)), Admission())
        for n in range(8)
    ]
    return scene.world.store.publish_many(pairs)


def _claim_late(scene: Scene) -> object:
    scene.clock.advance(7)
    return scene.worker.take(3)


def _finish_and_claim(scene: Scene) -> object:
    return scene.worker.claim(2, finishes=[Finish(x.fence, Ending.ACK, 0.1) for x in scene.leases])


def _reap(scene: Scene) -> object:
    scene.world.store.engine.command("ZADD", "{failing:0}:expiry", 1.0, str(scene.leases[0].fence))
    scene.clock.advance(7)
    return scene.world.reap()


MOVES: dict[str, Callable[[Scene], object]] = {
    "publish": lambda scene: scene.world.publish("a", "new"),
    "publish_first": lambda scene: scene.world.publish("b", "new", priority=2),
    "publish_late": lambda scene: scene.world.publish(
        "a", "new", delay_seconds=3, expires_seconds=99
    ),
    "publish_many": _publish_many,
    "claim": lambda scene: scene.worker.take(3),
    "claim_late": _claim_late,
    "finish_and_claim": _finish_and_claim,
    "release": lambda scene: scene.worker.release(scene.leases[0]),
    "release_late": lambda scene: scene.worker.release(
        scene.leases[0], delay_seconds=5, counted=True
    ),
    "reject": lambda scene: scene.worker.reject(scene.leases[0]),
    "renew": lambda scene: scene.worker.renew(*scene.leases, seconds=1.0),
    "reap": _reap,
    "cancel": lambda scene: scene.world.jobs.cancel("mortal"),
    "limit": lambda scene: scene.world.limit("a", weight=2, parent="org"),
    "regroup": lambda scene: scene.world.limit("eu", parent="other"),
}
PROMISED = {"I2", "I3", "I4", "I5", "I6", "I7", "I9", "I12"}
"""Invariants that hold whatever has failed; the records of nodes may keep traces until they go."""
ENDED = {"reject": 1, "finish_and_claim": 3, "cancel": 1}
"""How many of the jobs that were there a move may have ended."""


def _commands_of(move: Callable[[Scene], object]) -> int:
    scene = Scene()
    with scene.database.failing(lambda _n, _name: False):
        move(scene)
        return scene.database.count


def _fail_at(name: str, k: int) -> None:
    """Fail at one command: every job that has a record still runs, once."""
    scene = Scene()
    with scene.database.failing(lambda n, _name: n == k), suppress(CommandError):
        MOVES[name](scene)
    left = scene.jobs()
    missing = scene.before - left
    assert len(missing) <= ENDED.get(name, 0), (k, missing)
    done = scene.drain()
    dead = {letter.job.id for letter in scene.world.dead("eu")}
    assert left - done <= dead & {"mortal"}, (k, left - done)
    assert scene.jobs() == set(), k
    found = audit(scene.world.store.engine, now=scene.clock())
    assert [one for one in found if one.invariant in PROMISED] == [], k


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", MOVES)
def test_a_script_that_fails_loses_no_job(name: str, step: int) -> None:
    """An error at every tenth of its commands; at length, at each of them."""
    total = _commands_of(MOVES[name])
    assert 0 < total < MOST_COMMANDS
    for k in range(1 + total % step, total + 1, step):
        _fail_at(name, k)


@pytest.mark.parametrize("name", ["limit", "regroup"])
def test_nodes_count_their_members_wherever_a_change_of_group_fails(name: str) -> None:
    """One that counted too few would be forgotten under them; at once, and without a repair."""
    for k in range(1, _commands_of(MOVES[name]) + 1):
        scene = Scene()
        with scene.database.failing(partial(_is_nth, k)), suppress(CommandError):
            MOVES[name](scene)
        found = audit(scene.world.store.engine, now=scene.clock())
        assert [one for one in found if one.invariant in {"I1", "I3", "I5"}] == [], k


def _expire(scene: Scene) -> object:
    engine = scene.world.store.engine
    engine.command("ZADD", "{failing:0}:expiry", 1.0, str(scene.leases[0].fence))
    return scene.worker.claim(0)


def _acked_early(scene: Scene) -> None:
    scene.worker.claim(0, finishes=[Finish(scene.leases[0].fence, Ending.ACK_EARLY, 0.1)])


def _cancelled(scene: Scene) -> None:
    job = scene.leases[0].job
    scene.world.jobs.cancel(job.id, workspace=job.workspace)


ENDS: dict[str, tuple[Callable[[Scene], None], Callable[[Scene], object]]] = {
    "acked early, then expired": (_acked_early, _expire),
    "acked early, then ended": (_acked_early, _finish_and_claim),
    "cancelled, then expired": (_cancelled, _expire),
    "cancelled, then released": (_cancelled, MOVES["release"]),
    "cancelled, then released for later": (_cancelled, MOVES["release_late"]),
    "cancelled, then rejected": (_cancelled, MOVES["reject"]),
}
"""What has become of a job while it ran, and how its lease ends."""


@pytest.mark.parametrize("how", ENDS)
def test_a_job_that_must_not_run_again_does_not(how: str) -> None:
    """Whichever command fails as its lease ends: it would run without its mark."""
    mark, end = ENDS[how]
    k = count = 0
    while count >= k:
        scene, k = Scene(), k + 1
        mark(scene)
        with scene.database.failing(partial(_is_nth, k)):
            with suppress(CommandError):
                end(scene)
            count = scene.database.count
        assert scene.leases[0].job.id not in scene.drain(), k


def test_a_count_that_fails_keeps_no_lease() -> None:
    """Of a job that was acked early, and is lost: its lease would be tried again for ever."""
    scene = Scene()
    lease, command = scene.leases[0], scene.world.store.engine.command
    scene.worker.claim(0, finishes=[Finish(lease.fence, Ending.ACK_EARLY, 0.1)])
    command("DEL", "{failing:0}:counts")
    command("SET", "{failing:0}:counts", "spoiled")
    for _ in range(10):
        scene.world.pass_time(9)
        scene.world.reap()
    assert not command("HEXISTS", "{failing:0}:leases", str(lease.fence))


@pytest.mark.parametrize("denied", ["ZADD", "ZREM", "HSET", "LPOP", "SADD", "RPUSH", "HDEL"])
def test_a_command_that_is_denied_for_a_while_loses_no_job(denied: str) -> None:
    """Whatever is tried meanwhile fails or is undone; when it is allowed again, all jobs run."""
    scene = Scene()
    with scene.database.failing(lambda _n, name: name == denied):
        for move in MOVES.values():
            for _ in range(2):
                with suppress(CommandError):
                    move(scene)
    left = scene.jobs()
    done = scene.drain()
    letters = scene.world.dead("eu") + scene.world.dead("a") + scene.world.dead("full")
    dead = {letter.job.id for letter in letters}
    assert left - done - dead == set()


def test_a_window_of_figures_that_cannot_expire_goes() -> None:
    """No other call may come that gives it a time to live: it would stay for ever."""
    scene = Scene()
    with scene.database.failing(lambda _n, name: name == "EXPIRE"), suppress(CommandError):
        scene.world.store.add_activity(60, [(("a", "q", "t"), [1, *[0] * 14])])
    found = audit(scene.world.store.engine, now=scene.clock())
    assert [one for one in found if one.invariant == "I9"] == []


def test_a_lease_that_failed_waits_for_no_clock_that_goes_back() -> None:
    """The script that fails notes the time from which the lease waits."""
    scene = Scene()
    scene.clock.advance(3600)
    with scene.database.failing(lambda _n, name: name == "HDEL"), suppress(CommandError):
        scene.worker.release(scene.leases[0])
    scene.clock.set_back(3600)
    assert scene.leases[0].job.id in scene.drain()


def test_a_publish_that_cannot_take_its_record_back_is_whole() -> None:
    """Its lane has gone with the job that runs."""
    clock = ManualClock()
    database = FailingDatabase(clock)
    world = World(Store(MemoryEngine(database), clock=clock), clock)
    worker = world.worker()
    world.publish("a", "first")
    (lease,) = worker.take(1)
    with database.failing(lambda _n, name: name == "HDEL"):
        world.publish("a", "second")
    worker.finish(lease)
    assert ids(worker.take(2)) == ["second"]
    assert audit(world.store.engine, now=clock()) == []


def _is_nth(k: int, n: int, _name: str) -> bool:
    return n == k


class PlainScene:
    """A world whose claims finish and start n jobs at once."""

    def __init__(self, n: int, most: int | None) -> None:
        self.n, self.clock = n, ManualClock()
        self.database = FailingDatabase(self.clock)
        engine = MemoryEngine(self.database)
        self.world = World(Store(engine, clock=self.clock), self.clock)
        self.worker = self.world.worker()
        if most:
            self.world.store.set_limits("default", "", Limits(concurrency=most))
        for workspace in "abc" * 5:
            self.world.publish(workspace)
        for _ in range(6):  # the second job of each stands in the order without a cost, too
            self.worker.finish(self.worker.take_one(), 0.01)
        self.leases = self.worker.take(n)
        self.clock.advance(0.01)

    def move(self) -> object:
        """Finish and claim."""
        finishes = [Finish(lease.fence, seconds=0.004) for lease in self.leases]
        return self.worker.claim(self.n, finishes=finishes)


@pytest.mark.parametrize(("n", "most"), [(1, None), (1, 1), (3, None), (3, 2)])
def test_a_claim_of_several_that_fails_anywhere_loses_no_job(n: int, most: int | None) -> None:
    """What several jobs share is written once, and what was not written goes back."""
    scene, names = PlainScene(n, most), list[str]()

    def note(_n: int, name: str) -> bool:
        names.append(name)
        return False

    with scene.database.failing(note):
        scene.move()
        total = scene.database.count
    assert "LPOP" in names
    for k in range(1, total + 1):
        scene = PlainScene(n, most)
        space = Keyspace(scene.world.store.engine)
        before = {decode_job(job) for _, records in space.all("jobs") for job in records}
        with scene.database.failing(partial(_is_nth, k)), suppress(CommandError):
            scene.move()
        scene.world.pass_time(70)
        done = set(scene.world.drain(seconds=2))
        assert before - done <= {lease.job.id for lease in scene.leases}, k
        assert not list(Keyspace(scene.world.store.engine).all("jobs")), k
        found = audit(scene.world.store.engine, now=scene.clock())
        assert [one for one in found if one.invariant in PROMISED] == [], (k, found)


def test_a_timer_that_no_record_names_is_not_put_off() -> None:
    """A record is lost with a job that is due before long, and a publish brings a later one."""
    scene = Scene()
    scene.world.publish("b", "soon", delay_seconds=10)
    scene.world.store.engine.command("HDEL", "{failing:0}:workspaces", "b")
    scene.world.publish("b", "late", delay_seconds=9000)
    assert "soon" in scene.drain()
