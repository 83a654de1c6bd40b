"""What ``fairqueue.progress`` costs a task, and what it does with bad numbers."""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import fairqueue
from fairqueue import ConfigurationError, JobContext
from fairqueue._claim.progress import _writer
from fairqueue.adapters import run_context, run_stand_in
from tests.system.ledger import wait_for

NUMBERS = itertools.count()


class Store:
    """Notes what is written, and when."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.delay = 0.0

    def clone(self, **_: Any) -> Store:
        """The thread's own."""
        return self

    def note_progress(self, fence: int, workspace: str, text: str) -> None:
        """Write, or keep silent."""
        time.sleep(self.delay)
        self.written.append(text)

    def close(self) -> None:
        """The thread has ended."""


@pytest.fixture
def store() -> Store:
    """Where progress is written."""
    return Store()


@pytest.fixture(autouse=True)
def job(store: Store) -> Iterator[JobContext]:
    """The running job."""
    name = f"{next(NUMBERS)}"  # an address may come again
    context = JobContext("j", "a", 7, 1, name, store=lambda: store, task=name)
    with run_context(context):
        yield context


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write at once."""
    monkeypatch.setattr(_writer, "_every_seconds", 0.01)


def test_calls_in_a_loop_cost_little(store: Store) -> None:
    """10,000 of them are a hundredth of what 10,000 rows cost; the newest is written."""
    began = time.process_time()
    for n in range(10_000):
        fairqueue.progress(n + 1, 10_000, "rows")
    assert time.process_time() - began < 0.5
    took = time.process_time() - began
    wait_for(lambda: store.written[-1:] == ["10000 10000 rows"])
    assert len(store.written) <= 2 + took * 2


def test_a_silent_store_is_not_waited_for(store: Store) -> None:
    """The task goes on at once."""
    store.delay = 0.3
    began = time.monotonic()
    fairqueue.progress(1, 2)
    time.sleep(0.05)
    fairqueue.progress(2, 2)
    assert time.monotonic() - began < 0.25
    wait_for(lambda: store.written[-1:] == ["2 2 %"])


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((3, 4.5, "a b"), "3 4.5 a%20b"),
        ((Decimal("0.1"), None, None), "0.1 - %"),
        ((10**15, 10**15, "é" * 150), f"1e+15 1e+15 {'%C3%A9' * 100}"),
    ],
)
def test_what_is_written(store: Store, given: Any, text: str) -> None:
    """Numbers of any kind, and 200 bytes of a message."""
    fairqueue.progress(*given)
    wait_for(lambda: store.written == [text])


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "given",
    [("x",), (None,), (-1,), (1, -1), (float("nan"),), (1, float("inf")), (10**400,), (True, "2")],
)
def test_bad_numbers_are_ignored_with_one_warning(
    store: Store, caplog: pytest.LogCaptureFixture, given: Any
) -> None:
    """A progress bar must not fail a job."""
    with caplog.at_level(logging.WARNING, "fairqueue.progress"):
        for _ in range(2):
            fairqueue.progress(*given)
            wait_for(lambda: bool(caplog.records) and not _writer.waiting)
    (record,) = caplog.records
    reason = "fairqueue.progress takes numbers|int too large"
    assert re.search(f"is not shown: ({reason})", record.getMessage())
    assert store.written == []


def test_outside_a_job_it_raises() -> None:
    """Where a task runs without a queue it does nothing."""
    with run_context(None), run_stand_in("j", lambda: "a"):  # type: ignore[arg-type]
        fairqueue.progress(1)
    with run_context(None), pytest.raises(ConfigurationError, match="outside a job"):  # type: ignore[arg-type]
        fairqueue.progress(1)
