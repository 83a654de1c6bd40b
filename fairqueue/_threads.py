"""Native threads and events, even where gevent or eventlet have patched ``threading``.

A task that does not yield cannot block them. Also :func:`in_forked_children`, since a forked child
has no threads of its parent.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakSet


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


def has_greenlets() -> bool:
    """Whether gevent or eventlet have patched ``threading``.

    A native thread gets a hub of its own at its first call, whose descriptors outlive the thread.
    """
    return _gevent() is not None or _threading() is not threading


def native_select(name: str) -> Any:
    """Return a member of ``select``, such as ``epoll``; None: this system has none.

    gevent and eventlet remove some of them.
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
        if not self._is_set:
            self._is_set = True
            self._lock.release()

    def is_set(self) -> bool:
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

    If a native thread releases a patched lock, the greenlet that waits for it may stay asleep. A
    reentrant lock belongs to the thread: all its greenlets may hold it together.
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
    if has_greenlets():
        _let_native_threads_log()
    if gevent is None:
        _threading().Thread(target=target, name=name, daemon=True).start()
    else:  # its original Thread class would start a greenlet
        gevent.get_original("_thread", "start_new_thread")(target, ())


class _LogLock:
    """A lock of ``logging``: greenlets take turns by their own lock, threads by a native one.

    A waiter for a patched lock that another thread holds is never woken: a native thread that logs
    would block a greenlet for ever, or be blocked, and renew no more leases.
    """

    def __init__(self, green: Any) -> None:
        self._green, self._home = green, _ident()
        self._native: Any = native_lock(reentrant=True)

    def acquire(self) -> bool:
        if _ident() == self._home:
            self._green.acquire()
        self._native.acquire()
        return True

    def release(self) -> None:
        self._native.release()
        if _ident() == self._home:
            self._green.release()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        """Unlock in a forked child; called by ``logging``."""
        self._green._at_fork_reinit()  # noqa: SLF001
        self._native, self._home = native_lock(reentrant=True), _ident()


def _ident() -> int:
    """Return the thread's ident; greenlets would have their own."""
    gevent = _gevent()
    ident = gevent.get_original("_thread", "get_ident") if gevent else _threading().get_ident
    return int(ident())


def _let_native_threads_log() -> None:
    """Give ``logging`` and its handlers locks that greenlets and native threads may share."""
    handlers = [reference() for reference in logging._handlerList]  # type: ignore[attr-defined]  # noqa: SLF001
    for owner, name in [(logging, "_lock"), *((handler, "lock") for handler in handlers)]:
        green = getattr(owner, name, None)
        if green is None or isinstance(green, _LogLock):
            continue
        if green.acquire(blocking=False):  # else it is in use, and the next thread finds it
            setattr(owner, name, _LogLock(green))
            green.release()


def in_forked_children(act: Callable[[Any], object]) -> WeakSet[Any]:
    """Return a set of objects; a forked child calls ``act`` with each that lives."""
    objects = WeakSet[Any]()
    os.register_at_fork(after_in_child=lambda: [act(each) for each in list(objects)])
    return objects
