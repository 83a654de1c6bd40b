"""An app's limit provider: when it is called, in which process, and the effect of an error."""

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
from fairqueue import _limit_provider as provider

SOURCE = "limits_of_the_app:ask"


class App:
    """The app's function, with its answers and the calls to it."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def ask(self, workspace: str) -> Mapping[str, Any] | None:
        """The provider."""
        self.asked.append(workspace)
        self.may_answer.wait(5)
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
    monkeypatch.setattr(provider, "FLEET_CHECK_SECONDS", 0.02)
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


def _refuse(*_: Any, **__: Any) -> bool:
    raise ConfigurationError("not with these shards")


def test_limits_that_the_store_refuses_are_the_providers_error(
    open_queue: Callable[..., FairQueue], app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is published under the last known limits, and other workspaces are asked for."""
    queue = open_queue(limit_provider=SOURCE)
    for name in ("a", "b"):
        app.answers[name] = {"concurrency": 1}
    put = queue.store.put_provider_limits

    def put_unless_a(workspace: str, *args: Any, **options: Any) -> bool:
        return (_refuse if workspace == "a" else put)(workspace, *args, **options)

    queue.store.put_provider_limits = put_unless_a  # type: ignore[method-assign]
    for name in ("a", "a", "b"):
        queue.publish(b"", queue="q", workspace=name)
    assert app.asked == ["a", "b"]
    assert (limit(queue, "a"), limit(queue, "b")) == (None, 1)
    assert queue.provider_errors == 1
    assert "failed for workspace 'a'" in caplog.text
    assert "not with these shards" in caplog.text


def age(queue: FairQueue, seconds: float) -> None:
    """Pretend that this process called the provider earlier."""
    asked = queue._provider._asked_at  # type: ignore[union-attr]
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
    found = queue.admin.limits(workspace).get("concurrency")
    return None if found is None else found.value


def test_limits_apply_to_the_first_job(open_queue: Callable[..., FairQueue], app: App) -> None:
    """The answer is stored before the publish and kept for a minute."""
    app.answers["a"] = {"concurrency": 1, "rate": None}
    queue = open_queue(limit_provider=SOURCE)
    for _ in range(5):
        queue.publish(b"", queue="q", workspace="a")
    assert app.asked == ["a"]
    assert len(queue.claim(["q"], 5).leases) == 1


def test_a_refresh_does_not_delay_a_publish(open_queue: Callable[..., FairQueue], app: App) -> None:
    """After a minute a thread calls the provider; the publish uses the stored limits."""
    app.answers["a"] = {"concurrency": 1}
    queue = open_queue(limit_provider=SOURCE)
    queue.publish(b"", queue="q", workspace="a")
    app.answers["a"] = {"concurrency": 2}
    app.may_answer.clear()
    age(queue, 61)
    queue.publish(b"", queue="q", workspace="a")
    assert limit(queue) == 1
    app.may_answer.set()
    until(lambda: limit(queue) == 2)


def test_the_provider_is_called_once_at_a_time(
    open_queue: Callable[..., FairQueue], app: App
) -> None:
    """Other publishes wait for the answer to the current call."""
    app.answers["a"] = {"concurrency": 1}
    queue = open_queue(limit_provider=SOURCE)
    app.may_answer.clear()
    threads = [
        threading.Thread(target=queue.publish, args=(b"",), kwargs={"queue": "q", "workspace": "a"})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    until(lambda: app.asked == ["a"])
    app.may_answer.set()
    for thread in threads:
        thread.join(10)
    assert app.asked == ["a"]
    assert queue.depth("q") == 4


@pytest.mark.parametrize(
    "answer", [RuntimeError("the database is away"), {"speed": 2}, "4", [4], {1: 2}]
)
def test_an_error_keeps_the_last_limits(
    open_queue: Callable[..., FairQueue],
    app: App,
    caplog: pytest.LogCaptureFixture,
    answer: Any,
) -> None:
    """Errors are counted and logged at a limited rate, and do not fail a publish."""
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
    """A publish inside the provider does not wait for the provider's answer."""
    queue = open_queue(limit_provider=SOURCE)

    def ask(workspace: str) -> dict[str, Any]:
        queue.publish(b"", queue="asked", workspace=workspace)
        return {"concurrency": 1}

    monkeypatch.setattr(sys.modules["limits_of_the_app"], "ask", ask)
    queue.publish(b"", queue="q", workspace="a")
    assert (queue.depth("asked"), limit(queue)) == (1, 1)


def test_a_worker_refreshes_claimed_workspaces(
    open_queue: Callable[..., FairQueue], app: App
) -> None:
    """It does so even if producers have no provider."""
    app.answers["a"] = {"concurrency": 1}
    open_queue().publish(b"", queue="q", workspace="a")
    worker = open_queue(limit_provider=SOURCE, authoritative=True)
    worker.claim(["q"], 1)
    until(lambda: limit(worker) == 1)


def test_a_worker_refreshes_a_workspace_at_its_limit(
    open_queue: Callable[..., FairQueue], app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so even if none of its jobs is published or can be claimed."""
    app.answers["a"] = {"concurrency": 0}
    queue = open_queue(limit_provider=SOURCE)
    queue.publish(b"", queue="q", workspace="a")
    assert queue.claim(["q"], 1).leases == ()
    app.answers["a"] = {"concurrency": 1}
    monkeypatch.setattr(provider, "FRESH_SECONDS", 0.05)
    assert len(queue.claim(["q"], 1, wait_seconds=10).leases) == 1


def test_a_workspace_without_an_answer_holds_up_no_other(
    open_queue: Callable[..., FairQueue], app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function hangs for some, again and again; the others' limits go on to change."""
    hangs, asked = threading.Event(), []

    def ask(workspace: str) -> Mapping[str, Any]:
        asked.append(workspace)
        if workspace.startswith("hangs"):
            hangs.wait(60)
        return {"concurrency": asked.count(workspace)}

    monkeypatch.setattr(sys.modules["limits_of_the_app"], "ask", ask)
    monkeypatch.setattr(provider, "FRESH_SECONDS", 0.05)
    names = [*(f"hangs {n}" for n in range(5)), "a", "b"]
    producer, worker = open_queue(), open_queue(limit_provider=SOURCE, authoritative=True)
    for name in names:
        producer.publish(b"", queue="q", workspace=name)
    worker.claim(["q"], len(names))
    until(lambda: asked.count("a") > 3 and asked.count("b") > 3)
    assert {name: asked.count(name) for name in names[:5]} == dict.fromkeys(names[:5], 1)
    assert limit(worker, "b") not in {None, 1}
    hangs.set()


def test_limits_can_be_invalidated(open_queue: Callable[..., FairQueue], app: App) -> None:
    """The new limits are in force when the call returns; without one a worker fetches them."""
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


def test_a_tool_does_not_call_the_provider(open_queue: Callable[..., FairQueue], app: App) -> None:
    """With brings_limits=False it is never called."""
    queue = open_queue(limit_provider=SOURCE, brings_limits=False)
    queue.publish(b"", queue="q", workspace="a")
    assert app.asked == []


@pytest.mark.parametrize("source", ["no_such_module:f", "math:no_such_name", "math:pi"])
def test_a_missing_function_is_reported_at_start_up(source: str) -> None:
    """It is an error of connect(), before anything is published."""
    with pytest.raises(ConfigurationError, match="limit_provider"):
        FairQueue("memory://none", limit_provider=source).connect()


@pytest.mark.parametrize("source", ["ask", "a b:c", 7, "http://h/x"])
def test_a_malformed_source_is_rejected(source: Any) -> None:
    """The error names the setting."""
    with pytest.raises(ConfigurationError, match="limit_provider"):
        FairQueue("memory://none", limit_provider=source)


def test_the_background_thread_survives_any_error(
    open_queue: Callable[..., FairQueue], app: App
) -> None:
    """It also survives SystemExit and the like, such as gevent's Timeout."""
    app.answers["a"] = SystemExit(3)
    app.answers["b"] = {"concurrency": 1}
    producer, worker = open_queue(), open_queue(limit_provider=SOURCE, authoritative=True)
    producer.publish(b"", queue="q", workspace="a")
    worker.claim(["q"], 1)
    until(lambda: worker.provider_errors > 0)
    producer.publish(b"", queue="q", workspace="b")
    worker.claim(["q"], 1)
    until(lambda: worker.admin.limits("b").get("concurrency") is not None)
