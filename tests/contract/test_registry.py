"""What living workers can run: declared by digest, and looked up for a publish."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import ConfigurationError, Job, Settings, UnknownTask
from fairqueue._claim.presence import Presence
from fairqueue.adapters import Admission
from fairqueue.explained import Why, explain_wait
from fairqueue.operate import Operators, Registry
from tests.contract.world import World, sound

Tell = Callable[..., Presence]


@pytest.fixture
def tell(world: World) -> Tell:
    """A worker that has introduced itself, with these tasks."""

    def told(owner: str, *tasks: str, queue: str = "q", app: str = "shop") -> Presence:
        worker = Presence(Settings(app=app))
        worker.describe(owner, queues=lambda: [queue], tasks=lambda: tasks)
        worker.before_claim([queue], [world.store], owner)
        return worker

    return told


def registry(world: World, policy: str = "reject") -> Registry:
    """That of a process which publishes for the first time."""
    return Registry(lambda: world.store, Settings.load({"on_unknown_task": policy}))


def refusal(world: World, task: str, queue: str = "q", *, exempt: bool = False) -> str:
    """What a publish of this task is told; empty: nothing."""
    try:
        registry(world).refuse(Job("j", "a", queue, task, b""), Admission(exempt))
    except UnknownTask as error:
        return str(error)
    return ""


def apps(world: World) -> list[bytes]:
    """What apps have declared."""
    key, command = world.store.engine.keys.key("workers"), world.store.engine.command
    return [command("HGET", key, name) for name in command("HKEYS", key) if name[:1] == b"#"]


def test_a_task_that_no_worker_knows_is_refused(world: World, tell: Tell) -> None:
    """Where each living worker of its queue tells its tasks, and none has this one."""
    assert refusal(world, "shop.rendr") == ""
    tell("w1", "shop.render", "shop.mail")
    assert "of queue 'q' knows task 'shop.rendr'; 'shop.render' is known" in refusal(
        world, "shop.rendr"
    )
    assert refusal(world, "shop.render") == refusal(world, "shop.rendr", "other") == ""
    assert refusal(world, "shop.rendr").endswith("because of on_unknown_task='reject'")
    tell("w2", "shop.rendr", queue="other")
    assert refusal(world, "shop.rendr") != ""
    assert "similar" not in refusal(world, "quite different")
    assert sound(world)


@pytest.mark.parametrize("text", ["", "1.0", "what ever it is", "1700000000.0 - {bad", "1 - []"])
@pytest.mark.parametrize("of", ["another", "app"])
def test_what_a_worker_tells_and_cannot_be_read_refuses_nothing(
    world: World, tell: Tell, of: str, text: str
) -> None:
    """The other workers are seen, and one whose app cannot be read may know any task."""
    tell("w1", "shop.mail")
    (digest,) = (each for each in world.command("HKEYS", "workers") if each[:1] == b"#")
    world.command("HSET", "workers", digest if of == "app" else of, text)
    assert list(world.store.workers()) == ["w1"]
    assert ("knows task" in refusal(world, "shop.rendr")) == (of == "another")


def test_what_a_newer_release_tells_besides_is_passed(world: World, tell: Tell) -> None:
    """Its workers are seen beside those of this release."""
    tell("w1", "shop.mail")
    told = world.command("HGET", "workers", "w1")
    world.command("HSET", "workers", "w1", told.replace(b'"slots"', b'"more": 1, "slots"'))
    assert "'shop.mail' is known" in refusal(world, "shop.mial")


def test_a_silent_worker_may_know_any_task(world: World, tell: Tell) -> None:
    """One of an earlier release, or with too many tasks, as long as it lives."""
    tell("w1", "shop.render")
    for about in ({"queues": ["q"]}, {"queues": None}):
        world.store.heartbeat("old", "", "", **about)
        assert refusal(world, "shop.rendr") == ""
        world.store.heartbeat("old", "", "", lease_seconds=0.0)
        assert refusal(world, "shop.rendr") != ""
    tell("large", *(f"shop.task_with_a_long_name_{n}" for n in range(3000)))
    assert refusal(world, "shop.rendr") == ""


def test_a_deploy_is_seen_either_way(world: World, tell: Tell) -> None:
    """Workers first: its task is known at once. Producers first: it is not, until one has it."""
    old = tell("w1", "v1")
    assert refusal(world, "v2") != ""
    tell("w2", "v1", "v2")
    assert refusal(world, "v2") == ""
    old.end([world.store], "w1")
    world.clock.advance(90)
    tell("w3", "v2")
    assert refusal(world, "v1") != ""


def test_a_process_asks_once(world: World, tell: Tell, caplog: pytest.LogCaptureFixture) -> None:
    """It warns once of each task, and asks for none that is known again."""
    tell("w1", "shop.render")
    asked = registry(world, "warn")
    jobs = [Job("j", "a", "q", task, b"") for task in ("shop.render", "shop.rendr", "")]
    with caplog.at_level(logging.WARNING, "fairqueue.publish"):
        for _ in range(3):
            asked.warn(*jobs)
    (record,) = caplog.records
    assert "'shop.render' is known" in record.getMessage()
    asked._connected = None  # type: ignore[assignment]
    asked.warn(*jobs)
    registry(world, "ignore").warn(*jobs)
    assert len(caplog.records) == 1


def test_retries_are_never_refused(world: World, tell: Tell) -> None:
    """A framework would lose them."""
    tell("w1", "shop.render")
    assert refusal(world, "shop.rendr") != ""
    assert refusal(world, "shop.rendr", exempt=True) == ""


def test_names_come_back_after_all_was_lost(world: World, tell: Tell) -> None:
    """With the next introduction; before, no one is refused."""
    worker = tell("w1", "shop.render")
    world.store.engine.command("DEL", world.store.engine.keys.key("workers"))
    assert refusal(world, "shop.rendr") == ""
    worker.restart()
    worker.before_claim(["q"], [world.store], "w1")
    assert refusal(world, "shop.rendr") != ""


def test_many_workers_tell_names_once(world: World, tell: Tell) -> None:
    """200 workers with 300 tasks store the names of one, and a repeated introduction sends none."""
    tasks = [f"shop.task_{n}" for n in range(300)]
    sent: list[int] = []
    call = world.store.engine.call

    def counted(operation: str, /, **arguments: Any) -> Any:
        sent.append(sum(len(str(value)) for value in arguments.values()))
        return call(operation, **arguments)

    world.store.engine.call = counted  # type: ignore[method-assign]
    for n in range(200):
        tell(f"w{n}", *tasks)
    assert [size > 1000 for size in sent].count(True) == 1
    assert len(apps(world)) == 1
    world.store.engine.call = call  # type: ignore[method-assign]
    assert sound(world)


def test_what_no_worker_tells_any_more_goes(world: World, tell: Tell) -> None:
    """A day after the last of them, with the rebuild."""
    tell("w1", "v1")
    world.clock.advance(100_000)
    tell("w2", "v2")
    world.pass_time(1800)
    assert [b"v2" in app for app in apps(world)] == [True]


def test_operators_see_it(world: World, tell: Tell) -> None:
    """In the lists of workers and tasks, in ``why``, and among the doctor's remarks."""
    views = Operators(lambda: world.store, Settings()).views
    job = world.publish(task="shop.rendr")
    world.publish(task="shop.mail")
    assert [row.workers for row in views.tasks()] == [None, None]
    assert views.unknown_tasks() == {}
    tell("w1", "shop.render", "shop.mail")
    tell("w2", "shop.render")
    assert [(row.app, row.tasks) for row in views.workers()] == [
        ("shop", ("shop.mail", "shop.render")),
        ("shop", ("shop.render",)),
    ]
    assert [
        (row.task, row.workers, row.all_workers, row.unknown_jobs) for row in views.tasks()
    ] == [
        ("shop.mail", 1, 2, None),
        ("shop.rendr", 0, 2, 1),
    ]
    assert views.unknown_tasks() == {"shop.rendr": 1}
    assert views.why(job).unknown_task == "'shop.rendr'; 'shop.render' is known"


def test_why_says_how_often_a_job_was_declined(world: World, tell: Tell) -> None:
    """And when it is tried again, whether or not another worker may know its task."""
    views = Operators(lambda: world.store, Settings()).views
    job, worker = world.publish(task="shop.rendr"), world.worker()
    tell("w1", "shop.render")
    for n in range(3):
        assert worker.release(worker.take_one(), delay_seconds=8, declined=True)
        world.clock.advance(0 if n == 2 else 8)
    said = "declined 3 times, next try in 8.0 s"
    known = "no living worker of its queue knows task 'shop.rendr'; 'shop.render' is known; "
    assert explain_task(views.why(job)) == known + said
    tell("w2", "shop.rendr")
    some = "some workers of its queue do not know task 'shop.rendr'; "
    assert explain_task(views.why(job)) == some + said
    world.pass_time(8)
    assert explain_task(views.why(job)) == some + "declined 3 times"
    lease = worker.take_one()
    assert lease.declined == 3
    assert explain_task(views.why(job)) == ""


def explain_task(found: Why) -> str:
    """The line about workers that know its task."""
    return next((line for line in explain_wait(found) if " task " in line[:60]), "")


@pytest.mark.parametrize("app", ["", "  ", "x" * 101, 3])
def test_a_bad_name_of_an_app_is_refused(app: Any) -> None:
    """At start-up, and the setting is named."""
    with pytest.raises(ConfigurationError, match="app"):
        Settings.load({"app": app})
