"""Threads that a task cannot block, also where gevent or eventlet have patched threading."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any


def _gevent() -> Any:
    """Find the patcher of gevent, if it has patched threading."""
    gevent = sys.modules.get("gevent.monkey")
    return gevent if gevent is not None and gevent.is_module_patched("threading") else None


def _threading() -> Any:
    """Find threading as it was before eventlet (gevent patches inside of it: see below)."""
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return eventlet.original("threading")
    return threading


class _Event:
    """threading.Event on a lock of the operating system: gevent's originals use patched ones."""

    def __init__(self, allocate_lock: Callable[[], Any]) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()
        self._is_set = False

    def set(self) -> None:
        """Wake who waits."""
        if not self._is_set:
            self._is_set = True
            self._lock.release()

    def wait(self, timeout: float) -> bool:
        """Whether it was set in time."""
        if self._is_set:
            return True
        if not self._lock.acquire(timeout=timeout):
            return False
        self._lock.release()  # for the next one who waits
        return True


def native_event() -> threading.Event:
    """Make an event of the operating system's threads."""
    gevent = _gevent()
    made: Any = (
        _threading().Event()
        if gevent is None
        else _Event(gevent.get_original("_thread", "allocate_lock"))
    )
    event: threading.Event = made
    return event


def start_native(target: Callable[[], None], *, name: str) -> None:
    """Run ``target`` in a daemon thread of the operating system."""
    gevent = _gevent()
    if gevent is None:
        _threading().Thread(target=target, name=name, daemon=True).start()
    else:  # its original Thread would call the patched function
        gevent.get_original("_thread", "start_new_thread")(target, ())
