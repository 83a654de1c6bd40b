"""Every kind of limit and pause in a Dramatiq app on a real Redis."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from fairqueue import FairQueue, adapters
from fairqueue_dramatiq import FairQueueMiddleware
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for


class Diary:
    """Records the runs in order, and the largest number at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.order: list[tuple[str, str | None]] = []
        self.at: list[float] = []
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def run(self, actor: str, seconds: float) -> None:
        """One run of an actor."""
        workspace = adapters.current_workspace()
        names = (actor, f"{actor} of {workspace}", "all")
        with self.lock:
            self.order.append((actor, workspace))
            self.at.append(time.monotonic())
            self.now.update(names)
            self.most.update({name: max(0, self.now[name] - self.most[name]) for name in names})
        time.sleep(seconds)
        with self.lock:
            self.now.subtract(names)

    def workspaces(self) -> list[str | None]:
        """Return the workspaces of the runs in order."""
        return [workspace for _, workspace in self.order]


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def broker(
    request: pytest.FixtureRequest, redis_url: str, namespace: str, diary: Diary
) -> Iterator[StubBroker]:
    """A broker with two actors; an indirect parameter gives its settings."""
    settings = getattr(request, "param", {})
    for broker in brokers(FairQueueMiddleware(url=redis_url, namespace=namespace, **settings)):

        @dramatiq.actor(actor_name="report")
        def report(seconds: float = 0.0) -> None:
            diary.run("report", seconds)

        @dramatiq.actor(actor_name="mail", queue_name="mails")
        def mail(seconds: float = 0.0) -> None:
            diary.run("mail", seconds)

        yield broker


@pytest.fixture
def core(redis_url: str, namespace: str) -> Iterator[FairQueue]:
    """An operator's queue."""
    with FairQueue(redis_url, namespace=namespace, brings_limits=False) as core:
        yield core


def send(
    broker: StubBroker,
    workspace: str,
    count: int = 1,
    *,
    actor: str = "report",
    seconds: float = 0.0,
) -> None:
    for _ in range(count):
        options = {"workspace": workspace}
        broker.actors[actor].send_with_options(args=(seconds,), **options)


def join(broker: StubBroker) -> None:
    for queue in ("default", "mails"):
        broker.join(queue, timeout=60_000)


@pytest.mark.parametrize(
    "broker",
    [{"tasks": {"report": {"concurrency": 2, "workspace_concurrency": 1}}}],
    indirect=True,
)
def test_limits_of_an_actor(broker: StubBroker, start: Start, diary: Diary) -> None:
    """They hold in total and for each workspace; other actors of the workspace continue."""
    for workspace in ("ada", "bea", "cleo"):
        send(broker, workspace, 4, seconds=0.05)
        send(broker, workspace, 4, actor="mail", seconds=0.05)
    start(broker, threads=8)
    join(broker)
    assert diary.most["report"] == 2
    assert {diary.most[f"report of {name}"] for name in ("ada", "bea", "cleo")} == {1}
    assert diary.most["mail"] > 2


@pytest.mark.parametrize(
    "broker",
    [{"total_concurrency": 3, "queues": {"mails": {"concurrency": 1}}}],
    indirect=True,
)
def test_limits_of_a_queue_and_in_total(broker: StubBroker, start: Start, diary: Diary) -> None:
    """One mail runs at a time, and three jobs in total."""
    for workspace in ("ada", "bea"):
        send(broker, workspace, 6, seconds=0.02)
        send(broker, workspace, 4, actor="mail", seconds=0.02)
    start(broker, threads=8)
    join(broker)
    assert (diary.most["mail"], diary.most["all"]) == (1, 3)


def test_pauses(broker: StubBroker, start: Start, diary: Diary, core: FairQueue) -> None:
    """No job of a paused workspace or queue starts until it is resumed."""
    core.admin.pause(workspace="ada")
    core.admin.pause(queue="mails")
    send(broker, "ada", 2)
    send(broker, "bea", 2)
    send(broker, "bea", 2, actor="mail")
    start(broker)
    wait_for(lambda: len(diary.order) == 2)
    time.sleep(0.1)
    assert diary.order == [("report", "bea")] * 2
    core.admin.resume(workspace="ada")
    core.admin.resume(queue="mails")
    join(broker)
    assert len(diary.order) == 6
