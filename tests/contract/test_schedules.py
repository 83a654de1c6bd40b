"""Schedules: each tick is at most one job, and none is lost, whatever happens between."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from fairqueue import (
    ConfigurationError,
    FairQueue,
    JobContext,
    NewJob,
    Schedule,
    Scope,
    Settings,
    UnknownTask,
)
from fairqueue.adapters import Runner, Ticker, new_job_id, run_context
from fairqueue.audit import audit
from fairqueue.rows import ScheduleRow
from fairqueue.schedules._ticker import TOGETHER_SECONDS, _due
from tests.contract.world import World

JOB = NewJob(b"x", queue="q", task="t")
BEGIN = 1_795_737_600  # midnight of a day


class Declaring(Runner):
    """A runner of an app that declares schedules of its own."""

    kind = "test"

    def __init__(
        self, queue: FairQueue, names: tuple[str, ...], app: str = "shop", **when: Any
    ) -> None:
        super().__init__(queue.schedules.core, app)
        self.when = when
        call = self.call_of(replace(JOB, workspace="a"))
        self.wanted = [self.placed(name, *call) for name in names]

    def declared(self) -> Any:
        """Declare them."""
        return [(one, Schedule(**self.when)) for one in self.wanted]


class Play:
    """A queue with a ticker that a test moves."""

    def __init__(self, world: World) -> None:
        self.clock, self.store = world.clock, world.store
        self.queue = FairQueue(settings=Settings(), store=world.store)
        self.ticker = self.another()
        self.clock.advance(BEGIN - self.clock())

    def another(self, *runners: Runner) -> Ticker:
        """Return the ticker of another process."""
        return Ticker(self.queue.schedules.core, *runners)

    def put(self, name: str = "n", workspace: str = "a", **when: Any) -> bool:
        """Put a schedule of one job."""
        return self.queue.schedules.put(name, JOB, workspace=workspace, **when)

    def row(self, name: str = "n", workspace: str = "a") -> ScheduleRow:
        """Return a schedule that is there."""
        row = self.queue.schedules.get(name, workspace=workspace)
        assert row is not None
        return row

    def look(self, ticker: Ticker | None = None) -> None:
        """Publish what is due, until nothing is."""
        ticker = ticker or self.ticker
        ticker._declared_at = float("-inf")  # which goes by a clock of its own
        for _ in range(200):
            if ticker.look() > TOGETHER_SECONDS:
                return
        raise AssertionError("there is always something due")

    def pass_seconds(self, seconds: int) -> None:
        """Let time go on, and look each second."""
        for _ in range(seconds):
            self.clock.advance(1)
            self.look()

    def jobs(self) -> list[tuple[str, float]]:
        """Run what was published; return names of schedules, and ticks as seconds from BEGIN."""
        found = []
        while leases := self.queue.claim(["q"], 50).leases:
            for lease in leases:
                _, at, name, _ = lease.job.id.split(",")
                found.append((name, int(at) / 1000 - BEGIN))
                self.queue.ack(lease, seconds=0.01)
        assert audit(self.store.engine, now=self.clock()) == []
        return sorted(found)

    def ticks(self) -> list[float]:
        """The same of one schedule."""
        return [at for _, at in self.jobs()]


@pytest.fixture
def play(world: World) -> Play:
    """A queue and its ticker."""
    return Play(world)


def test_each_tick_is_one_job(play: Play) -> None:
    """Whichever of two processes looks, and however often."""
    assert play.put(every=10)
    other = play.another()
    for _ in range(35):
        play.clock.advance(1)
        play.look()
        play.look(other)
    assert play.ticks() == [10, 20, 30]
    row = play.row()
    assert (row.next, row.last, row.outcome) == (BEGIN + 40, BEGIN + 30, "published")
    assert (row.schedule, row.task, row.runner, row.owner) == ("every 10 s", "t", "core", "")


def test_two_that_publish_the_same_tick(play: Play) -> None:
    """A process that was stopped in the middle wakes up after another one: nothing is stored."""
    play.put(every=10)
    play.clock.advance(10)
    _, _, (row,) = play.store.due_schedules(("core",), 1)
    play.look()  # it is held for the process that has just taken it
    assert play.queue.depth("q") == 0
    play.clock.advance(4)
    play.look()
    late = _due(row, BEGIN + 10, "store")
    play.queue.publish_many([NewJob(b"x", queue="q", workspace="a", tick=late.tick)])
    assert not play.store.change_schedule("a", "n", "advance", late.tick)
    assert play.ticks() == [10]
    play.pass_seconds(6)
    assert play.ticks() == [20]


LATE = [  # catch_up, seconds of grace, by how much it is late -> ticks, the next one, missed
    ("none", 60, 45, [60], 120, 0),
    ("none", 60, 190, [240], 300, 3),
    ("none", 0, 190, [], 300, 4),
    ("none", 0, 4, [60], 120, 0),
    ("once", 60, 45, [60], 120, 0),
    ("once", 60, 190, [240], 300, 3),
    ("once", 60, 90_000, [90_060], 90_120, 1000),
    ("all", 60, 190, [60, 120, 180, 240], 300, 0),
    ("all", 60, 90_000, [60 * n for n in range(1402, 1502)], 90_120, 901),
]


@pytest.mark.parametrize("cron", [True, False])
@pytest.mark.parametrize(("catch_up", "grace", "late", "ticks", "following", "missed"), LATE)
def test_ticks_that_are_late(
    play: Play,
    catch_up: str,
    grace: int,
    late: int,
    ticks: list[float],
    following: int,
    missed: int,
    *,
    cron: bool,
) -> None:
    """No worker lived for a while: none of the ticks is published, the latest, or all."""
    when = {"cron": "* * * * *"} if cron else {"every": 60.0}
    play.put(catch_up=catch_up, grace=grace, **when)
    play.clock.advance(60 + late)
    play.look()
    assert play.ticks() == ticks
    row = play.row()
    assert row.next == BEGIN + following
    of_all = missed if cron or missed < 900 else 90_060 // 60 - len(ticks)
    if catch_up != "all":
        assert row.missed == of_all


def test_overlapping_ticks(play: Play) -> None:
    """With ``skip`` there is no tick while the job of an earlier one waits or runs."""
    play.put(every=10, overlap="skip")
    play.pass_seconds(25)
    (lease,) = play.queue.claim(["q"], 5).leases
    play.pass_seconds(10)
    assert play.queue.depth("q") == 0
    assert (play.row().outcome, play.row().last) == ("skipped", BEGIN + 30)
    play.queue.ack(lease, seconds=1)
    play.pass_seconds(10)
    assert play.ticks() == [40]
    totals = play.queue.views.totals()
    assert totals.ticks == {"published": 2, "skipped": 2}


def test_a_full_capacity(play: Play) -> None:
    """A tick that is refused is tried again, until the following one is due: then it is missed."""
    play.queue.limits.set(Scope.workspace("a"), capacity=1)
    play.put(every=20)
    play.queue.publish(b"", queue="q", workspace="a", job_id="a,1000,b,c")
    play.pass_seconds(22)
    assert (play.row().outcome, play.row().next) == ("full", BEGIN + 20)
    play.pass_seconds(20)
    assert (play.row().outcome, play.row().next) == ("full", BEGIN + 20)
    play.jobs()
    play.pass_seconds(6)
    assert play.ticks() == [40]
    assert (play.row().outcome, play.row().missed) == ("published", 1)
    assert play.queue.views.totals().ticks["missed"] == 1


def test_pause_resume_trigger_remove(play: Play) -> None:
    """A pause is not caught up; a trigger is a job beside the ticks, and moves none of them."""
    schedules = play.queue.schedules
    play.put(every=10)
    assert schedules.pause("n", workspace="a")
    play.pass_seconds(35)
    assert play.ticks() == []
    assert schedules.trigger("n", workspace="a")
    play.pass_seconds(1)
    assert play.ticks() == [35]
    assert play.row().paused
    assert schedules.resume("n", workspace="a")
    play.pass_seconds(12)
    assert play.ticks() == [47]
    schedules.trigger("n", workspace="a")
    play.look()
    assert play.row().next == BEGIN + 57
    assert play.ticks() == [48]
    assert schedules.remove("n", workspace="a")
    assert not schedules.remove("n", workspace="a")
    assert not schedules.trigger("n", workspace="a")
    play.pass_seconds(20)
    assert play.ticks() == []
    assert schedules.list() == []


def test_a_trigger_beside_the_last_tick(play: Play) -> None:
    """It comes while a worker publishes that: both are published, then the schedule is over."""
    play.put(every=10, until=BEGIN + 10)
    play.clock.advance(10)
    due = play.store.due_schedules

    def triggered(*args: Any, **how: Any) -> Any:
        found = due(*args, **how)
        if not play.queue.schedules.list()[0].last:
            play.queue.schedules.trigger("n", workspace="a")
        return found

    play.store.due_schedules = triggered  # type: ignore[method-assign]
    play.ticker.look()
    del play.store.due_schedules
    play.clock.advance(1)
    play.look()
    assert play.ticks() == [10, 10]
    assert play.queue.schedules.list() == []


def test_put_again(play: Play) -> None:
    """The same schedule changes nothing; one that is due at other times begins from now."""
    assert play.put(every=10)
    play.clock.advance(5)
    assert not play.put(every=10)
    assert play.row().next == BEGIN + 10
    for task, seconds in (("other", 0), ("third", 5)):  # when it is due, too
        play.clock.advance(seconds)
        job = NewJob(b"x", queue="q", task=task)
        assert play.queue.schedules.put("n", job, workspace="a", every=10)
        assert play.row().next == BEGIN + 10
    play.look()
    assert play.ticks() == [10]
    assert play.put(every=10)
    assert play.row().next == BEGIN + 20
    assert play.put(every=20)
    assert play.row().next == BEGIN + 30
    assert play.put(cron="0 2 * * *", tz="Europe/Berlin", until=BEGIN + 30 * 3600)
    assert play.row().next == BEGIN + 3600
    play.clock.advance(3600)
    play.look()
    assert play.ticks() == [3600]
    play.clock.advance(24 * 3600)
    play.look()
    assert play.ticks() == [25 * 3600]
    assert play.queue.schedules.list() == []  # the last one has passed


def test_a_schedule_that_is_resumed_within_a_new_spread(play: Play) -> None:
    """The tick that was published without it is not due again, though its time for that is."""
    play.put(cron="0 * * * *")
    play.clock.advance(3600)
    play.look()
    play.put(cron="0 * * * *", spread=3000)
    play.queue.schedules.pause("n", workspace="a")
    play.queue.schedules.resume("n", workspace="a")
    play.look()
    play.clock.advance(3600)
    play.look()
    assert play.ticks() == [3600]
    assert play.row().next == BEGIN + 7200


def test_spread(play: Play) -> None:
    """Ticks of different workspaces come within that many seconds, each always at the same time."""
    for n in range(30):
        play.put(workspace=f"w{n}", every=100, spread=50)
    play.pass_seconds(99)
    assert play.ticks() == []
    seen = []
    for _ in range(51):
        play.pass_seconds(1)
        seen.append(len(play.ticks()))
    assert sum(seen) == 30
    assert max(seen) < 6


def test_a_clock_that_jumps(play: Play) -> None:
    """What it jumps ahead has passed; where it goes back, time goes on from where it was."""
    play.put(every=3600)
    play.clock.advance(25 * 3600)
    play.look()
    assert play.ticks() == [25 * 3600]
    play.clock.set_back(25 * 3600)
    play.look()
    assert play.ticks() == []
    play.clock.advance(3800)  # the time is a twentieth slower until the clock has caught up
    play.look()
    assert play.ticks() == [26 * 3600]


def test_a_day_after_a_clock_has_jumped_a_schedule_is_due_at_its_hour(play: Play) -> None:
    """The shard's time has come back to that of Redis."""
    hour, day = 3600, 24 * 3600
    play.put(cron="0 1 * * *")
    play.clock.advance(hour)
    play.look()
    assert play.ticks() == [hour]
    play.clock.set_back(hour)
    for _ in range(24):
        play.look()
        play.clock.advance(hour)
    play.look()
    assert play.ticks() == []
    play.clock.advance(hour)
    play.look()
    assert play.ticks() == [day + hour]


def test_declared_by_two_versions(play: Play) -> None:
    """The newest process that has begun counts; what none declares for 30 s goes."""
    old = play.another(Declaring(play.queue, ("x", "gone"), every=10.0))
    play.look(old)
    assert play.row("x").owner == "shop"
    play.clock.advance(1)
    new = play.another(Declaring(play.queue, ("x",), every=20.0))
    play.look(new)
    assert play.row("x").schedule == "every 20 s"
    for ticker in (new, old):
        play.look(ticker)
    assert play.row("x").schedule == "every 20 s"
    again = play.another(Declaring(play.queue, ("x",), every=10.0))
    play.clock.advance(1)
    play.look(again)
    assert play.row("x").schedule == "every 10 s"
    for _ in range(7):
        play.clock.advance(5)
        play.look(again)
    assert [row.name for row in play.queue.schedules.list()] == ["x"]
    assert [at for name, at in play.jobs() if name == "x"] == [12, 22, 32]


def test_declared_beside_a_call(play: Play) -> None:
    """What a call has put stays."""
    put = {"next": str(BEGIN + 5), "delay": "0", "boot": "-", "definition": "{}"}
    play.store.put_schedule("a", "x", runner="test/shop", **put)
    play.look(play.another(Declaring(play.queue, ("x",), every=20.0)))
    assert play.row("x").next == BEGIN + 5


def test_declared_by_two_apps(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """The first one keeps it while its workers live; the other's say so."""
    shop = play.another(Declaring(play.queue, ("x",), every=10.0))
    blog = play.another(Declaring(play.queue, ("x",), "blog", every=20.0))
    for _ in range(4):
        for ticker in (shop, blog):
            play.look(ticker)
        play.clock.advance(5)
    assert (play.row("x").owner, play.row("x").schedule) == ("shop", "every 10 s")
    assert "the workers of 'test/shop' declare schedule 'x' of workspace 'a', too" in caplog.text
    play.jobs()
    for _ in range(10):
        play.clock.advance(5)
        play.look(blog)
    assert (play.row("x").owner, play.row("x").schedule) == ("blog", "every 20 s")


def test_a_process_that_stood_still(play: Play) -> None:
    """What it has declared waits for a moment, until it says so again: no tick is lost."""
    ticker = play.another(Declaring(play.queue, ("x",), every=3600.0))
    play.look(ticker)
    ticker._declared_at = float("inf")  # it stops just behind its declaration
    play.clock.advance(3600)
    assert ticker.look() > TOGETHER_SECONDS
    assert play.ticks() == []
    play.look(ticker)
    assert play.ticks() == [3600]


def test_a_publish_that_goes_elsewhere(play: Play) -> None:
    """Where a task has a queue without fairqueue, the schedule goes on all the same."""
    play.put(every=10)
    seen: list[Any] = []
    play.ticker._runners[0].publish = seen.append  # type: ignore[method-assign, assignment]
    play.pass_seconds(25)
    assert [due.tick.at - BEGIN for due in seen] == [10, 20]
    assert (play.row().next, play.row().outcome) == (BEGIN + 30, "published")


def test_all_data_is_lost(play: Play) -> None:
    """What processes declare is there again; no tick comes a second time."""
    ticker = play.another(Declaring(play.queue, ("x",), cron="* * * * *"))
    play.look(ticker)
    play.put(every=60)
    play.clock.advance(60)
    play.look(ticker)
    assert [at for _, at in play.jobs()] == [60, 60]
    for entry in list(play.store.engine.dump(payloads=False)):
        play.store.engine.command("DEL", entry.key)
    play.look(ticker)
    assert [row.name for row in play.queue.schedules.list()] == ["x"]
    play.clock.advance(60)
    play.look(ticker)
    assert play.jobs() == [("x", 120)]


def test_a_tick_whose_publish_is_lost_comes_again_under_its_id(play: Play) -> None:
    """As in a failover: its job has the same id, and its steps the same keys."""
    engine, ids = play.store.engine, set[str]()
    for name in ("n", "m"):
        play.put(name, every=10)
    records = {
        name: engine.command("HGET", engine.keys.key("schedules", "a"), name) for name in "nm"
    }
    play.clock.advance(10)
    for _ in range(2):
        play.look()
        ids |= {lease.job.id for lease in play.queue.claim(["q"], 9).leases}
        for entry in list(engine.dump(payloads=False)):
            engine.command("DEL", entry.key)
        for name, record in records.items():
            engine.command("HSET", engine.keys.key("schedules", "a"), name, record)
            engine.command("ZADD", engine.keys.key("schedule_times"), 1, f"core a {name}")
    assert len(ids) == 2


def test_a_record_that_cannot_be_read(play: Play) -> None:
    """It is set aside and named; others go on. A time that is lost is set again."""
    for name in ("n", "m", "o"):
        play.put(name, every=10)
    engine = play.store.engine
    engine.command("HSET", engine.keys.key("schedules", "a"), "n", "?")
    engine.command("ZREM", engine.keys.key("schedule_times"), "core a m")
    engine.command("ZADD", engine.keys.key("schedule_times"), "inf", "core a o")
    engine.command("ZADD", engine.keys.key("schedule_times"), 1, "core a stray")
    found = {finding.where[0] for finding in audit(engine, now=play.clock())}
    assert found == {"schedule", "entry"}
    assert play.queue.doctor.rebuild().repairs
    assert [finding.invariant for finding in audit(engine, now=play.clock())] == ["I13"]
    play.queue.doctor.drop_set_aside()
    play.clock.advance(10)
    play.look()
    assert play.jobs() == [("m", 10), ("o", 10)]


def test_a_definition_that_no_worker_can_compute(play: Play) -> None:
    """Its time zone is unknown here, say: the others go on, and the doctor names it."""
    play.put("n", every=10)
    play.put("m", every=10)
    engine = play.store.engine
    key = engine.keys.key("schedules", "a")
    text = engine.command("HGET", key, "n").replace(b'"every":10.0', b'"cron":"* * * * *"')
    engine.command("HSET", key, "n", text.replace(b'"UTC"', b'"Mars"'))
    play.clock.advance(100)
    play.look()
    assert {name for name, _ in play.jobs()} == {"m"}
    assert play.row("n").outcome == "failed"
    for found in (play.queue.doctor.checkup(), play.queue.doctor.status()):
        about = [one.text for one in found.remarks if one.about == "schedules"]
        assert len(about) == 1
        assert "schedule 'n' of workspace 'a'" in about[0]


def test_a_tick_that_is_refused_holds_up_no_other(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of other workspaces that are due with it, again and again, go on."""
    large = NewJob(b"x" * 2000, queue="q", task="t")
    play.queue.schedules.put("n", large, workspace="b", every=10)
    play.put("m", every=10)
    play.put("o", every=10)
    queue = FairQueue(settings=Settings(max_payload_bytes=1000), store=play.store)
    play.ticker = Ticker(queue.schedules.core)
    with caplog.at_level("ERROR", "fairqueue.schedules"):
        play.pass_seconds(20)
    assert play.jobs() == [("m", 10), ("m", 20), ("o", 10), ("o", 20)]
    assert [play.row("n", "b").outcome, play.row("m").outcome] == ["failed", "published"]
    assert "schedule 'n' of workspace 'b' has a tick that cannot be published" in caplog.text


def test_one_of_another_kind_of_worker(play: Play) -> None:
    """However many are due of another, they neither run here nor keep others from it."""
    play.put(every=10)
    put = {"next": str(BEGIN + 1), "delay": "0", "boot": "-", "definition": "{}"}
    for n in range(2100):
        play.store.put_schedule("a", f"other {n}", runner="celery", **put)
    play.clock.advance(10)
    _, _, rows = play.store.due_schedules(("core",), 200)
    assert [row.name for row in rows] == ["n"]
    play.clock.advance(4)
    play.look()
    assert play.jobs() == [("n", 10)]


def test_the_retry_of_a_tick_knows_its_time(play: Play) -> None:
    """``current().tick`` is the time that a run is for."""
    play.put(every=10)
    play.pass_seconds(10)
    (lease,) = play.queue.claim(["q"]).leases
    job = JobContext(lease.job.id, "a", lease.fence, 1, "store")
    assert job.tick == datetime.fromtimestamp(BEGIN + 10, timezone.utc)
    with run_context(job):
        retry = NewJob(b"x", queue="q", workspace="a", exempt=True, retry_of=lease.fence)
        retry.job_id = f"{new_job_id()}~{lease.job.id}"  # as adapters do
        id_of_retry = play.queue.publish_job(retry)
        other = play.queue.publish(b"x", queue="q")
    assert JobContext(id_of_retry, "a", 1, 1, "store").tick == job.tick
    assert JobContext(other, "a", 1, 1, "store").tick is None


def test_bad_input(play: Play) -> None:
    """Nothing is stored of what is wrong."""
    put = play.queue.schedules.put
    for what, how, text in (
        (JOB, {}, "give a schedule"),
        (JOB, {"every": 5, "schedule": Schedule(every=5)}, "give a schedule"),
        (b"x", {"every": 5}, "publishes a NewJob"),
        (JOB, {"every": 5, "until": BEGIN - 1}, "never due"),
        (JOB, {"cron": "61 * * * *"}, "Bad minute"),
        (NewJob(b"x" * 60_000, queue="q"), {"every": 5}, "at most 65,536"),
        (NewJob("x", queue="q"), {"every": 5}, "payload must be bytes"),  # type: ignore[arg-type]
        (NewJob(b"x", queue="q", priority=-1), {"every": 5}, "priority must be"),
        (NewJob(b"x", queue=""), {"every": 5}, "queue name must not be empty"),
        (NewJob(b"x", queue="q", unique_key="k"), {"every": 5}, "cannot have unique_key"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            put("n", what, workspace="a", **how)
    with pytest.raises(ConfigurationError, match="schedule name"):
        put("", JOB, workspace="a", every=5)
    assert play.queue.schedules.list() == []


def test_a_task_that_no_worker_knows(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """A warning with the name that is known, once; with the policy "reject" nothing is stored."""
    job = NewJob(b"x", queue="q", task="rendr")
    text = "no living worker knows task 'rendr'; 'render' is known"
    with caplog.at_level("WARNING", "fairqueue.publish"):
        play.queue.schedules.put("n", job, workspace="a", every=5)
        assert caplog.records == []
        play.queue.registry._answers.clear()
        play.queue.registry._looked_until = 0.0
        play.queue.presence.describe("w", queues=lambda: ["other"], tasks=lambda: ["render"])
        play.queue.claim(["other"])
        for name in "nmo":
            play.queue.schedules.put(name, job, workspace="a", every=5)
        play.queue.schedules.put("p", NewJob(b"x", queue="q"), workspace="a", every=5)
    (record,) = caplog.records
    assert text in record.getMessage()
    queue = FairQueue(settings=Settings(on_unknown_task="reject"), store=play.store)
    with pytest.raises(UnknownTask, match=text):
        queue.schedules.put("x", job, workspace="b", every=5)
    assert queue.schedules.list("b") == []


def test_too_many(play: Play) -> None:
    """A workspace has at most 10,000."""
    key = play.store.engine.keys.key("schedules", "a")
    for n in range(0, 10_000, 100):
        pairs = [word for i in range(n, n + 100) for word in (f"x{i}", "?")]
        play.store.engine.command("HSET", key, *pairs)
    with pytest.raises(ConfigurationError, match="has 10,000"):
        play.put(every=5)
