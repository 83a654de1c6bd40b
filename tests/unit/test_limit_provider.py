"""An app's limit provider: when it is called, in which process, and the effect of an error."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

from fairqueue import CapacityExceeded, ConfigurationError, FairQueue, Scope, StoreUnavailable
from fairqueue._limits import provider
from tests.out_of_threads import out_of_threads
from tests.system.ledger import wait_for

SOURCE = "limits_of_the_app:ask"


class App:
    """The app's function, with its answers and the calls to it, and the app's processes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.queues: list[FairQueue] = []
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def ask(self, workspace: str) -> Mapping[str, Any] | None:
        """The provider."""
        self.asked.append(workspace)
        self.may_answer.wait(60)
        answer = self.answers.get(workspace)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def open(self, **options: Any) -> FairQueue:
        """Start a process, with the provider unless the options say otherwise."""
        self.queues.append(FairQueue(self._url, **{"limit_provider": SOURCE, **options}))
        return self.queues[-1]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, namespace: str) -> Iterator[App]:
    """A module that can be imported, whose function is the provider."""
    module = ModuleType("limits_of_the_app")
    app = App(f"memory://{namespace}")
    module.ask = app.ask  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    yield app
    for queue in app.queues:
        queue.close()


@pytest.fixture
def queue(app: App) -> FairQueue:
    """A process with the provider; workspace a may run one job."""
    app.answers["a"] = {"concurrency": 1}
    return app.open()


def publish(queue: FairQueue, *workspaces: str) -> None:
    """Publish a job of each."""
    for name in workspaces or "a":
        queue.publish(b"", queue="q", workspace=name)


def _refuse(*_: Any, **__: Any) -> bool:
    raise ConfigurationError("not with these shards")


def test_limits_that_the_store_refuses_are_the_providers_error(
    app: App, queue: FairQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is published under the last known limits, and other workspaces are asked for."""
    for name in ("a", "b"):
        app.answers[name] = {"concurrency": 1}
    put = queue.store.put_provider_limits

    def put_unless_a(workspace: str, *args: Any, **options: Any) -> bool:
        return (_refuse if workspace == "a" else put)(workspace, *args, **options)

    queue.store.put_provider_limits = put_unless_a  # type: ignore[method-assign]
    publish(queue, "a", "a", "b")
    assert app.asked == ["a", "b"]
    assert (limit(queue, "a"), limit(queue, "b")) == (None, 1)
    assert queue.provider_errors == 1
    assert "failed for workspace 'a'" in caplog.text
    assert "not with these shards" in caplog.text


def age(queue: FairQueue, seconds: float) -> None:
    """Pretend that this process called the provider earlier."""
    called = queue._provider._called_at  # type: ignore[union-attr]
    for workspace in called:
        called[workspace] -= seconds


def limit(queue: FairQueue, workspace: str = "a") -> float | str | None:
    """The concurrency that is in force."""
    found = queue.limits.get(Scope.workspace(workspace)).get("concurrency")
    return None if found is None else found.value


def test_limits_apply_to_the_first_job(app: App, queue: FairQueue) -> None:
    """The answer is stored before the publish and kept for a minute."""
    app.answers["a"] = {"concurrency": 1, "rate": None}
    publish(queue, *"aaaaa")
    assert app.asked == ["a"]
    assert len(queue.claim(["q"], 5).leases) == 1


def test_a_refresh_does_not_delay_a_publish(app: App, queue: FairQueue) -> None:
    """After a minute a thread calls the provider; the publish uses the stored limits."""
    publish(queue)
    app.answers["a"] = {"concurrency": 2}
    app.may_answer.clear()
    age(queue, 61)
    publish(queue)
    assert limit(queue) == 1
    app.may_answer.set()
    wait_for(lambda: limit(queue) == 2)


def test_the_provider_is_called_once_at_a_time(app: App, queue: FairQueue) -> None:
    """Other publishes wait for the answer to the current call."""
    app.may_answer.clear()
    threads = [threading.Thread(target=publish, args=(queue,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: app.asked == ["a"])
    app.may_answer.set()
    for thread in threads:
        thread.join(10)
    assert app.asked == ["a"]
    assert queue.depth("q") == 4


@pytest.mark.parametrize(
    "answer", [RuntimeError("it is away"), SystemExit(3), {"speed": 2}, "4", [4], {1: 2}]
)
def test_an_error_keeps_the_last_limits(
    app: App, queue: FairQueue, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    """Errors are counted and logged at a limited rate, and do not fail a publish."""
    publish(queue)
    app.answers["a"] = answer
    with caplog.at_level(logging.ERROR, "fairqueue.limits"):
        for _ in range(3):
            age(queue, 10_000)
            publish(queue)
    assert limit(queue) == 1
    assert queue.provider_errors == 3
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_provider_may_publish(
    app: App, queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publish inside the provider does not wait for the provider's answer."""

    def ask(workspace: str) -> dict[str, Any]:
        queue.publish(b"", queue="asked", workspace=workspace)
        return {"concurrency": 1}

    monkeypatch.setattr(sys.modules["limits_of_the_app"], "ask", ask)
    publish(queue)
    assert (queue.depth("asked"), limit(queue)) == (1, 1)


def test_a_worker_refreshes_claimed_workspaces(app: App) -> None:
    """It does so even if producers have no provider."""
    app.answers["a"] = {"concurrency": 1}
    publish(app.open(limit_provider=None))
    worker = app.open(authoritative=True)
    worker.claim(["q"], 1)
    wait_for(lambda: limit(worker) == 1)


def test_a_raised_limit_reaches_a_blocked_workspace_with_its_next_publish(
    app: App, queue: FairQueue
) -> None:
    """No other call reaches it: none of its jobs can be claimed."""
    app.answers["a"] = {"concurrency": 0}
    publish(queue)
    assert queue.claim(["q"], 1).leases == ()
    app.answers["a"] = {"concurrency": 1}
    age(queue, 61)
    publish(queue)
    assert len(queue.claim(["q"], 1, wait_seconds=10).leases) == 1


def test_a_workspace_without_an_answer_holds_up_no_other(
    app: App, queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own publish waits for a bounded time, once; others are not delayed."""
    hangs, asked = threading.Event(), []

    def ask(workspace: str) -> Mapping[str, Any]:
        asked.append(workspace)
        if workspace.startswith("hangs"):
            hangs.wait(60)
        return {"concurrency": asked.count(workspace)}

    monkeypatch.setattr(sys.modules["limits_of_the_app"], "ask", ask)
    monkeypatch.setattr(provider, "WAIT_SECONDS", 0.05)
    publish(queue, "hangs")
    assert queue.provider_errors == 1
    monkeypatch.setattr(provider, "WAIT_SECONDS", 30)
    for _ in range(3):
        age(queue, 61)
        publish(queue, "hangs", "a")
        wait_for(lambda: not {"a"} & set(queue._provider._calls))  # type: ignore[union-attr]
    assert (asked.count("hangs"), limit(queue), queue.depth("q")) == (1, 3, 7)
    hangs.set()
    wait_for(lambda: limit(queue, "hangs") == 1)


def test_a_provider_that_hangs_for_all_stops_no_publish(
    app: App,
    queue: FairQueue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No more than 16 calls are under way, and each workspace waits once."""
    monkeypatch.setattr(provider, "WAIT_SECONDS", 0.01)
    app.may_answer.clear()
    for _ in range(2):
        publish(queue, *map("w{}".format, range(18)))
    assert (len(app.asked), queue.provider_errors, queue.depth("q")) == (16, 18, 36)
    assert "no answer within 0.01 seconds" in caplog.text
    app.may_answer.set()


def test_a_process_that_has_too_many_threads(app: App) -> None:
    """It publishes, and asks when it has fewer."""
    app.answers["acme"] = {"capacity": 1}
    queue, began = app.open(), time.monotonic()
    with out_of_threads():
        for _ in range(2 * provider.CALLS_AT_ONCE):
            queue.publish(b"", queue="q", workspace="acme")
            queue._provider._called_at.clear()  # type: ignore[union-attr]
    with pytest.raises(CapacityExceeded):
        queue.publish(b"", queue="q", workspace="acme")
    assert time.monotonic() - began < provider.WAIT_SECONDS


def test_limits_can_be_invalidated(app: App, queue: FairQueue) -> None:
    """The new limits are in force everywhere when the call returns; an error is raised."""
    other = app.open(limit_provider=None)
    publish(queue)
    app.answers["a"] = {"concurrency": 2}
    queue.invalidate_limits("a")
    assert limit(other) == 2
    app.answers["a"] = RuntimeError("the database is away")
    with pytest.raises(RuntimeError, match="is away"):
        queue.invalidate_limits("a")
    with pytest.raises(ConfigurationError, match=r"'a'.* limit_provider"):
        other.invalidate_limits("a")


def test_an_answer_from_before_an_invalidation_is_not_enough(app: App, queue: FairQueue) -> None:
    """A call under way may have read the old plan, so there is another one."""
    app.may_answer.clear()
    early = threading.Thread(target=publish, args=(queue,))
    early.start()
    wait_for(lambda: app.asked == ["a"])
    late = threading.Thread(target=queue.invalidate_limits, args=("a",))
    late.start()
    app.may_answer.set()
    for thread in (early, late):
        thread.join(10)
    assert app.asked == ["a", "a"]


def test_a_store_that_does_not_answer_is_not_the_providers_error(
    app: App, queue: FairQueue
) -> None:
    """An invalidation raises it, since the limits are not in force."""
    queue.connect()

    def away(*_: Any, **__: Any) -> bool:
        raise StoreUnavailable("away")

    queue.store.put_provider_limits = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        queue.invalidate_limits("a")
    assert queue.provider_errors == 0


def test_a_tool_does_not_call_the_provider(app: App) -> None:
    """With brings_limits=False it is never called."""
    publish(app.open(brings_limits=False))
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
