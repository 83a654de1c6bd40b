"""``fairqueue.step`` in one process: names, values, limits, threads, event loops and outages."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest

from fairqueue import (
    ConfigurationError,
    JobContext,
    LeaseLost,
    StepNotSerializable,
    StepRepeated,
    StepTooLarge,
    StoreUnavailable,
    current,
    step,
)
from fairqueue.adapters import run_context, run_stand_in
from tests.system.ledger import wait_for

KIB = 1024


@pytest.fixture(autouse=True)
def job() -> Iterator[JobContext]:
    """The running job; without a store, as under a stand-in."""
    with run_context(JobContext("j", "acme", 7, 1, "store", task="shop.report")) as context:
        yield context


class Store:
    """Keeps steps, or is away so often."""

    def __init__(self, away: int = 0) -> None:
        self.away, self.calls = away, list[str]()
        self.kept: dict[str, str] = {}

    def _answer(self, call: str) -> None:
        self.away -= 1
        self.calls.append(call)
        if self.away >= 0:
            raise StoreUnavailable("away")

    def steps(self, workspace: str, task_id: str) -> dict[str, str]:
        """Read."""
        self._answer("read")
        return self.kept

    def note_step(self, *of: Any, early: bool) -> str:
        """Write."""
        self._answer("write" if of[-2] else "drop")
        return str(of[-1])


def test_a_value_goes_through_json_at_once() -> None:
    """The first run sees the types that a later one gets."""
    assert step.run("one", lambda: (1, {2: "x"})) == [1, {"2": "x"}]


def test_arguments_go_to_the_function() -> None:
    """Also those that are called as the parameters of ``step.run``."""
    assert step.run("one", dict, name=1, function=2) == {"name": 1, "function": 2}


def test_a_name_is_used_once_in_a_run() -> None:
    """A second step of this name is not run; one that has raised may run again."""
    step.run("one", int)
    with pytest.raises(StepRepeated, match=r"task shop.report has two steps 'one' in one run"):
        step.run("one", pytest.fail)
    with pytest.raises(ZeroDivisionError):
        step.run("two", lambda: 1 / 0)
    assert step.run("two", int) == 0


def test_a_name_is_used_once_at_the_same_time() -> None:
    """By two threads, two coroutines, or a step inside the step: its function runs once."""
    began, end, ran = threading.Event(), threading.Event(), list[str]()

    def slow(how: str) -> None:
        ran.append(how)
        began.set()
        assert end.wait(10)

    thread = threading.Thread(target=copy_context().run, args=(step.run, "a", slow, "thread"))
    thread.start()
    assert began.wait(10)
    with pytest.raises(StepRepeated):
        step.run("a", slow, "again")
    end.set()
    thread.join()

    async def pause() -> None:
        ran.append("coroutine")
        await asyncio.sleep(0)

    async def together() -> list[Any]:
        both = [step.run_async("b", pause) for _ in range(2)]
        return await asyncio.gather(*both, return_exceptions=True)

    assert [type(each) for each in asyncio.run(together())].count(StepRepeated) == 1

    with pytest.raises(StepRepeated):
        step.run("c", lambda: step.run("c", ran.append, "inside"))
    assert ran == ["thread", "coroutine"]


@pytest.mark.parametrize("name", ["", "a\nb", "\ud800", "x" * 201, "é" * 101, None, 7])
def test_impossible_names(name: Any) -> None:
    """They are refused before anything runs."""
    for call in (lambda: step.run(name, pytest.fail), lambda: step.key(name)):
        with pytest.raises(ConfigurationError, match="the name of a step"):
            call()


def test_outside_a_job() -> None:
    """There is nothing that could run again."""
    with run_context(None):  # type: ignore[arg-type]
        for call in (lambda: step.run("one", pytest.fail), lambda: step.key("one")):
            with pytest.raises(ConfigurationError, match="outside a job"):
                call()


def test_a_stand_in_keeps_values_within_its_run() -> None:
    """So a test sees a repeated name."""
    with run_context(None), run_stand_in("j", lambda: "a"):  # type: ignore[arg-type]
        assert step.run("one", lambda: (1,)) == [1]
        with pytest.raises(StepRepeated):
            step.run("one", int)
    with run_context(None), run_stand_in("j", lambda: "a"):  # type: ignore[arg-type]
        assert step.run("one", int) == 0


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", {(1,): 2}, CIRCLE, math.nan], ids=type)
def test_what_json_cannot_hold(value: object) -> None:
    """The error names the step, the task and the type."""
    with pytest.raises(StepNotSerializable, match=r"step 'one' of task shop.report returned a"):
        step.run("one", lambda: value)


def test_too_large_values() -> None:
    """One, and all of a task together."""
    text = "with step 'rows', the values of task shop.report are 3,072 KiB; at most 256 KiB are"
    with pytest.raises(StepTooLarge, match=text):
        step.run("rows", lambda: "x" * (3 * KIB * KIB))
    assert len(step.run("one", lambda: "x" * (200 * KIB))) == 200 * KIB
    with pytest.raises(StepTooLarge, match=r"with step 'two', the values of .* are 300 KiB"):
        step.run("two", lambda: "x" * (100 * KIB))


def test_too_many_steps() -> None:
    """The thousand-and-first is not run."""
    for n in range(1000):
        step.run(f"row {n}", int)
    with pytest.raises(StepTooLarge, match="one too many: at most 1,000"):
        step.run("one", pytest.fail)


def test_the_key_of_a_step_is_the_same_in_each_run(job: JobContext) -> None:
    """It differs by step, task and workspace, and not by job or lease."""
    one = step.key("one")
    assert len(one) == 32
    of = {step.key("two")}
    for job_id, workspace in (("k", "acme"), ("j", "b")):
        with run_context(JobContext(job_id, workspace, 8, 2, "store")):
            of.add(step.key("one"))
    assert len(of | {one}) == 4
    with run_context(JobContext(f"{'x' * 16}~j", "acme", 9, 3, "other")):
        assert step.key("one") == one


def test_a_coroutine_function() -> None:
    """``run_async`` awaits it; ``run`` says that it cannot be kept."""

    async def one(n: int) -> int:
        return n

    async def act() -> list[Any]:
        return list(
            await asyncio.gather(step.run_async("one", one, 1), step.run_async("two", one, n=2))
        )

    assert asyncio.run(act()) == [1, 2]


def test_a_coroutine_that_is_cancelled_gives_its_name_back(job: JobContext) -> None:
    """While the first look reads, in a thread that cannot be stopped, and while it runs."""
    store, answers = Store(), threading.Event()
    job.store = lambda: answers.wait(10) and store

    async def act() -> Any:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(step.run_async("one", asyncio.sleep, 0), 0.05)
        answers.set()
        await asyncio.to_thread(wait_for, lambda: store.calls)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(step.run_async("one", asyncio.sleep, 10), 0.05)
        return await step.run_async("one", asyncio.sleep, 0, "slept")

    assert asyncio.run(act()) == "slept"


def test_threads_of_one_task() -> None:
    """Each step runs once."""
    ran: list[str] = []

    def act(n: int) -> None:
        for name in range(20):
            step.run(f"{n} {name}", ran.append, f"{n} {name}")

    threads = [
        threading.Thread(target=copy_context().run, args=(act, n)) for n in range(8) if current()
    ]
    step.run("begins", int)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ran) == len(set(ran)) == 160


def test_one_read_and_one_write_for_each_step(job: JobContext) -> None:
    """Steps that are kept cost nothing more."""
    store = Store()
    store.kept = {"two": "2"}
    job.store = lambda: store
    assert [step.run(name, int) for name in ("one", "two", "three")] == [0, 2, 0]
    assert store.calls == ["read", "write", "write"]


def test_the_store_is_away(job: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has run is kept once the store answers, unless the worker stops first."""
    monkeypatch.setattr("fairqueue._publish.must_publish.RETRY_SECONDS", 0.001)
    store, ran = Store(away=3), list[int]()
    job.store = lambda: store
    step.run("one", ran.append, 1)
    store.away = 2
    step.run("two", ran.append, 2)
    assert ran == [1, 2]
    job.gives_up = lambda: True
    store.away = 1
    with pytest.raises(StoreUnavailable):
        step.run("three", ran.append, 3)


def test_a_lost_lease_ends_the_run(job: JobContext) -> None:
    """At the next step."""
    job.is_lost = lambda: True
    with pytest.raises(LeaseLost):
        step.run("one", pytest.fail)


def test_an_early_ack_is_told_once(job: JobContext, caplog: pytest.LogCaptureFixture) -> None:
    """Steps hold over retries then, and not over a crash."""
    caplog.set_level(logging.INFO, "fairqueue.step")
    for _ in range(2):
        job.redeliverable, job.steps, job.task = False, None, "unit.early"
        job.store = Store
        step.run("one", int)
    (record,) = caplog.records
    assert "task unit.early is acked before it runs" in record.getMessage()
