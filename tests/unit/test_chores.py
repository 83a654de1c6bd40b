"""A thread that does several things now and then."""

from __future__ import annotations

import logging
import threading

import pytest

from fairqueue._background import BackgroundLoop
from fairqueue._chores import Chores
from fairqueue.errors import ConfigurationError, StoreUnavailable
from tests.system.ledger import wait_for

log = logging.getLogger("fairqueue.test")


class Counting:
    """A chore that counts its looks, and may fail at the first ones."""

    def __init__(self, pause: float, *errors: Exception) -> None:
        self.loop, self.looks = BackgroundLoop(f"every {pause}", log), 0
        self._pause, self._errors = pause, list(errors)

    def look(self) -> float:
        self.looks += 1
        if self._errors:
            raise self._errors.pop(0)
        return self._pause


def test_each_is_done_as_often_as_it_wants() -> None:
    """One that always has more to do leaves its turn to the others; the end is told."""
    busy, calm, rare, ended = Counting(0.0), Counting(0.01), Counting(1e6), threading.Event()
    chores = Chores(busy, calm, rare, at_end=[ended.set]).start()
    wait_for(lambda: calm.looks > 3)
    chores.stop()
    assert ended.wait(60)
    assert busy.looks > 3
    assert rare.looks == 1


def test_those_that_are_about_due_wake_the_thread_once() -> None:
    """An idle worker would pay more for the wake-ups than for what is done in them."""
    order = list[object]()

    class Noting(Counting):
        def look(self) -> float:
            order.append(self.loop)
            return super().look()

    chores = [Noting(0.02), Noting(0.026)]
    running = Chores(*chores).start()
    wait_for(lambda: len(order) >= 20)
    running.stop()
    assert order[:20] == [each.loop for each in chores] * 10


def test_one_that_fails_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go on. Failures are logged now and then."""
    monkeypatch.setattr("fairqueue._chores.RETRY_SECONDS", (0.0, 0.0))
    errors = StoreUnavailable("away"), ConfigurationError("exported"), KeyError("a fault")
    failing, other, ended = Counting(1e6, *errors), Counting(1e6), threading.Event()
    chores = Chores(failing, other, at_end=[ended.set]).start()
    wait_for(lambda: failing.looks == 4 and other.looks == 1)
    chores.stop()
    assert ended.wait(60)
    assert [record.getMessage() for record in caplog.records] == [
        "every 1000000.0: will try again: away"
    ]
