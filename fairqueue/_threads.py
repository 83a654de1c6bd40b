"""Native threads and events, even where gevent or eventlet have patched ``threading``.

A task that does not yield cannot block them.
"""

from __future__ import annotations

import logging
import select
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


def _gevent() -> Any:
    """Return gevent's patcher if it has patched ``threading``."""
    gevent = sys.modules.get("gevent.monkey")
    return gevent if gevent is not None and gevent.is_module_patched("threading") else None


def _threading() -> Any:
    """Return ``threading`` as it was before eventlet; gevent patches inside the module instead."""
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return eventlet.original("threading")
    return threading


def native_select(name: str) -> Any:
    """Return what ``select`` has under a name, such as ``epoll``; None: this system has none.

    gevent and eventlet take some of them away.
    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("select"):
        try:
            return gevent.get_original("select", name)
        except AttributeError:
            return None
    if eventlet is not None and eventlet.is_monkey_patched("select"):
        return getattr(eventlet.original("select"), name, None)
    return getattr(select, name, None)


class _Event:
    """``threading.Event`` on a native lock: gevent's original Event uses patched locks."""

    def __init__(self, allocate_lock: Callable[[], Any]) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()
        self._is_set = False

    def set(self) -> None:
        """Set it and wake all waiting threads."""
        if not self._is_set:
            self._is_set = True
            self._lock.release()

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def wait(self, timeout: float) -> bool:
        """Wait; return whether it was set within ``timeout`` seconds."""
        if self._is_set:
            return True
        if not self._lock.acquire(timeout=timeout):
            return False
        self._lock.release()  # wakes the next waiting thread
        return True


def native_event() -> threading.Event:
    """Make an event for native threads."""
    gevent = _gevent()
    made: Any = (
        _threading().Event()
        if gevent is None
        else _Event(gevent.get_original("_thread", "allocate_lock"))
    )
    event: threading.Event = made
    return event


def native_lock(*, reentrant: bool = False) -> AbstractContextManager[Any]:
    """Make a lock for native threads and greenlets, to be held for moments only.

    A patched lock that a native thread releases may leave the greenlet that waits for it asleep.
    A reentrant one is the thread's: it lets in the greenlets of one thread together.
    """
    gevent = _gevent()
    if gevent is None:
        made: Any = _threading().RLock() if reentrant else _threading().Lock()
    else:
        made = gevent.get_original("_thread", "RLock" if reentrant else "allocate_lock")()
    lock: AbstractContextManager[Any] = made
    return lock


def start_native(target: Callable[[], None], *, name: str) -> None:
    """Run ``target`` in a native daemon thread."""
    gevent = _gevent()
    if gevent is None:
        if _threading() is not threading:
            _let_native_threads_log()
        _threading().Thread(target=target, name=name, daemon=True).start()
    else:  # its original Thread class would start a greenlet
        gevent.get_original("_thread", "start_new_thread")(target, ())


def _let_native_threads_log() -> None:
    """Give all log handlers native locks.

    A native thread that waits for eventlet's is never woken: leases would not be renewed any more.
    """
    native = _threading().RLock
    for reference in logging._handlerList:  # type: ignore[attr-defined]  # noqa: SLF001
        handler = reference()
        green = getattr(handler, "lock", None)
        if green is None or isinstance(green, type(native())):
            continue
        if green.acquire(blocking=False):  # else it is in use, and the next thread finds it
            handler.lock = native()
            green.release()
