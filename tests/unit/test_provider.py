"""The limit provider of an app: when it is asked, by whom, and what an error does."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

from fairqueue import ConfigurationError, FairQueue
from fairqueue import _provider as provider

SOURCE = "limits_of_the_app:ask"


class App:
    """What the app's own function answers, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def ask(self, workspace: str) -> Mapping[str, Any] | None:
        """The provider."""
        self.asked.append(workspace)
        self.gate.wait(5)
        answer = self.answers.get(workspace)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    """A module that can be imported, whose function is the provider."""
    module = ModuleType("limits_of_the_app")
    app = App()
    module.ask = app.ask  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(provider, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(provider, "LOOK_EVERY_SECONDS", 0.02)
    return app


@pytest.fixture(params=["memory", "redis"])
def open_queue(
    request: pytest.FixtureRequest, namespace: str
) -> Iterator[Callable[..., FairQueue]]:
    """Processes of one app."""
    url = f"memory://{namespace}" if request.param == "memory" else None
    url = url or request.getfixturevalue("redis_url")
    opened: list[FairQueue] = []

    def open_one(**options: Any) -> FairQueue:
        opened.append(FairQueue(url, namespace=namespace, **options))
        return opened[-1]

    yield open_one
    for queue in opened:
        queue.close()


def age(queue: FairQueue, seconds: float) -> None:
    """So much time has passed since this process asked."""
    asked = queue._provider._asked  # type: ignore[union-attr]
    for workspace in asked:
        asked[workspace] -= seconds


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it."""
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def limit(queue: FairQueue, workspace: str = "a") -> float | str | None:
    """The concurrency that is in force."""
    found = queue.limits(workspace).get("concurrency")
    return None if found is None else found.value


def test_the_first_job_is_limited_already(open_queue: Callable[..., FairQueue], app: App) -> None:
    """The answer is stored before the publish, and is not asked for again within a minute."""
    app.answers["a"] = {"concurrency": 1, "rate": None}
    queue = open_queue(limit_provider=SOURCE)
    for _ in range(5):
        queue.publish(b"", queue="q", workspace="a")
    assert app.asked == ["a"]
    assert len(queue.claim(["q"], 5).leases) == 1


def test_later_a_publish_does_not_wait(open_queue: Callable[..., FairQueue], app: App) -> None:
    """After a minute the thread asks; the publish goes on with what is stored."""
    app.answers["a"] = {"concurrency": 1}
    queue = open_queue(limit_provider=SOURCE)
    queue.publish(b"", queue="q", workspace="a")
    app.answers["a"] = {"concurrency": 2}
    app.gate.clear()
    age(queue, 61)
    queue.publish(b"", queue="q", workspace="a")
    assert limit(queue) == 1
    app.gate.set()
    until(lambda: limit(queue) == 2)


def test_one_question_at_a_time(open_queue: Callable[..., FairQueue], app: App) -> None:
    """Who comes meanwhile waits for its answer."""
    app.answers["a"] = {"concurrency": 1}
    queue = open_queue(limit_provider=SOURCE)
    app.gate.clear()
    threads = [
        threading.Thread(target=queue.publish, args=(b"",), kwargs={"queue": "q", "workspace": "a"})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    until(lambda: app.asked == ["a"])
    app.gate.set()
    for thread in threads:
        thread.join(10)
    assert app.asked == ["a"]
    assert queue.depth("q") == 4


@pytest.mark.parametrize(
    "answer", [RuntimeError("the database is away"), {"speed": 2}, "4", [4], {1: 2}]
)
def test_an_error_keeps_what_is_known(
    open_queue: Callable[..., FairQueue],
    app: App,
    caplog: pytest.LogCaptureFixture,
    answer: Any,
) -> None:
    """It is counted and logged, but not each time, and no publish fails of it."""
    app.answers["a"] = {"concurrency": 1}
    queue = open_queue(limit_provider=SOURCE)
    queue.publish(b"", queue="q", workspace="a")
    app.answers["a"] = answer
    with caplog.at_level(logging.ERROR, "fairqueue.limits"):
        for _ in range(3):
            age(queue, 1000)
            queue.publish(b"", queue="q", workspace="a")
    assert limit(queue) == 1
    assert queue.provider_errors == 3
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_provider_may_publish(
    open_queue: Callable[..., FairQueue], app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for its own answer."""
    queue = open_queue(limit_provider=SOURCE)

    def ask(workspace: str) -> dict[str, Any]:
        queue.publish(b"", queue="asked", workspace=workspace)
        return {"concurrency": 1}

    monkeypatch.setattr(sys.modules["limits_of_the_app"], "ask", ask)
    queue.publish(b"", queue="q", workspace="a")
    assert (queue.depth("asked"), limit(queue)) == (1, 1)


def test_a_worker_asks_for_whom_it_claims(open_queue: Callable[..., FairQueue], app: App) -> None:
    """Where producers have no provider."""
    app.answers["a"] = {"concurrency": 1}
    open_queue().publish(b"", queue="q", workspace="a")
    worker = open_queue(limit_provider=SOURCE, authoritative=True)
    worker.claim(["q"], 1)
    until(lambda: limit(worker) == 1)


def test_a_worker_asks_again_for_who_is_parked(
    open_queue: Callable[..., FairQueue], app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nobody publishes for it and nothing of it can be claimed."""
    app.answers["a"] = {"concurrency": 0}
    queue = open_queue(limit_provider=SOURCE)
    queue.publish(b"", queue="q", workspace="a")
    assert queue.claim(["q"], 1).leases == ()
    app.answers["a"] = {"concurrency": 1}
    monkeypatch.setattr(provider, "FRESH_SECONDS", 0.05)
    assert len(queue.claim(["q"], 1, wait_seconds=10).leases) == 1


def test_an_answer_may_be_called_old(open_queue: Callable[..., FairQueue], app: App) -> None:
    """It counts when the call returns; elsewhere a worker asks."""
    app.answers["a"] = {"concurrency": 1}
    queue = open_queue(limit_provider=SOURCE)
    queue.publish(b"", queue="q", workspace="a")
    app.answers["a"] = {"concurrency": 2}
    queue.invalidate_limits("a")
    assert limit(queue) == 2
    queue.claim(["q"], 1)
    app.answers["a"] = {"concurrency": 3}
    open_queue().invalidate_limits("a")
    until(lambda: limit(queue) == 3)


def test_a_tool_asks_nobody(open_queue: Callable[..., FairQueue], app: App) -> None:
    """Who operates on others' queues brings no limits."""
    queue = open_queue(limit_provider=SOURCE, brings_limits=False)
    queue.publish(b"", queue="q", workspace="a")
    assert app.asked == []


@pytest.mark.parametrize("source", ["no_such_module:f", "math:no_such_name", "math:pi"])
def test_a_function_that_is_none_is_told_at_the_start(source: str) -> None:
    """Before anything is published."""
    with pytest.raises(ConfigurationError, match="limit_provider"):
        FairQueue("memory://none", limit_provider=source).connect()


@pytest.mark.parametrize("source", ["ask", "a b:c", 7, "http://h/x"])
def test_a_source_that_cannot_be_is_refused(source: Any) -> None:
    """With the name of the setting."""
    with pytest.raises(ConfigurationError, match="limit_provider"):
        FairQueue("memory://none", limit_provider=source)


def test_no_answer_ends_the_asking(open_queue: Callable[..., FairQueue], app: App) -> None:
    """What is no ordinary error, such as a time-out of gevent's, is one here."""
    app.answers["a"] = SystemExit(3)
    app.answers["b"] = {"concurrency": 1}
    producer, worker = open_queue(), open_queue(limit_provider=SOURCE, authoritative=True)
    producer.publish(b"", queue="q", workspace="a")
    worker.claim(["q"], 1)
    until(lambda: worker.provider_errors > 0)
    producer.publish(b"", queue="q", workspace="b")
    worker.claim(["q"], 1)
    until(lambda: worker.limits("b").get("concurrency") is not None)
