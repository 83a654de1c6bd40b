"""The flusher's thread lives while there is something to report."""

from __future__ import annotations

import sys
import threading

import pytest

from fairqueue_celery._consume import flusher as flushers
from tests.out_of_threads import out_of_threads
from tests.system.ledger import wait_for


@pytest.fixture(autouse=True)
def _no_greenlets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have imported their libraries."""
    for name in ("eventlet", "gevent"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def _threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "fairqueue-flusher"}


def _serving() -> tuple[flushers.Flusher, threading.Event]:
    """Return a flusher, and an event that each of its flushes sets."""
    flusher, flushed = flushers.Flusher(), threading.Event()

    def flush() -> bool:
        flushed.set()
        return False

    flusher.serve(flush)
    return flusher, flushed


def test_its_thread_ends_while_nothing_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks share a thread, which ends when no look comes; the next one starts another."""
    monkeypatch.setattr(flushers, "IDLE_SECONDS", 0.1)
    (flusher, flushed), others = _serving(), _threads()
    for _ in range(3):
        flushed.clear()
        flusher.look()
        flusher.look()
        assert len(_threads() - others) == 1
        assert flushed.wait(10)
        wait_for(lambda: not _threads() - others)


def test_no_look_is_lost_as_its_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever a look comes, what it speaks of is flushed."""
    monkeypatch.setattr(flushers, "IDLE_SECONDS", 0.001)
    monkeypatch.setattr(flushers, "LOOK_EVERY_SECONDS", 0.0)
    flusher, flushed = _serving()
    for _ in range(500):
        flushed.clear()
        flusher.look()
        assert flushed.wait(10)


def test_a_thread_that_could_not_be_started_is_started_by_the_next_look() -> None:
    """A system may be out of threads for a moment, and a process that exits starts none."""
    flusher, flushed = _serving()

    with out_of_threads():
        flusher.look()
    assert not flushed.is_set()
    flusher.look()
    assert flushed.wait(10)
