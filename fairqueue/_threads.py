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
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T", bound=Hashable)

RENEWALS_PER_LEASE = 3
TIMEOUTS_PER_LEASE = 6  # how long a renewal waits for the server: leaves time for another attempt
RETRIES_PER_LEASE = 12  # how soon a failed renewal is retried: leaves time for one before the end


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


def renew_until(stopped: threading.Event, lease_seconds: float, renew: Callable[[], bool]) -> None:
    """Renew every third of a lease until this is set, and sooner after a failure."""
    wait = lease_seconds / RENEWALS_PER_LEASE
    while not stopped.wait(wait):
        try:
            is_renewed = renew()
        except Exception:  # no other thread would renew
            logging.getLogger("fairqueue.keeper").exception("could not renew, will retry")
            is_renewed = False
        wait = lease_seconds / (RENEWALS_PER_LEASE if is_renewed else RETRIES_PER_LEASE)


class BackgroundWriter(Generic[T]):
    """Writes what is added from a native thread, which lives while there is something to write.

    Beside greenlets it lives on, see :func:`has_greenlets`.
    ``opened`` gives, as a context for the thread's life, what writes a batch. If that raises, the
    items still in the batch are written later; of more than ``most`` waiting items the oldest go.
    """

    def __init__(
        self,
        name: str,
        opened: Callable[[], AbstractContextManager[Callable[[list[T]], object]]],
        *,
        every_seconds: float,
        idle_rounds: int,
        most: int,
    ) -> None:
        self._name, self._opened, self._most = name, opened, most
        self._every_seconds, self._idle_rounds = every_seconds, idle_rounds
        self._reset()

    def _reset(self) -> None:
        self._pid, self._lock, self._runs = os.getpid(), native_lock(), False
        self.waiting: dict[T, None] = {}

    def add(self, item: T) -> None:
        """Have it written soon; it is written once if it is added again before that."""
        if self._pid != os.getpid():  # a forked child has no thread of its parent's
            self._reset()
        if item in self.waiting:
            return
        with self._lock:
            self.waiting[item] = None
            if len(self.waiting) > self._most:
                del self.waiting[next(iter(self.waiting))]
            if not self._runs:
                start_native(self._run, name=self._name)
                self._runs = True  # not if that fails: the next one tries again

    def flush(self) -> None:
        """Write what waits, by the calling thread; raises what the write does."""
        if self.waiting and self._pid == os.getpid():  # not what a fork's parent writes
            with self._opened() as write:
                self._write(write)

    def _write(self, write: Callable[[list[T]], object]) -> None:
        with self._lock:
            items, self.waiting = self.waiting, {}
        left = [*items]
        try:
            write(left)
        except Exception:
            with self._lock:
                self.waiting = dict.fromkeys([*left, *self.waiting][-self._most :])
            raise

    def _run(self) -> None:
        pause, idle = native_event(), 0
        write: Callable[[list[T]], object] | None = None
        with ExitStack() as opened:
            while True:
                pause.wait(self._every_seconds)
                with self._lock:
                    idle = 0 if self.waiting else idle + 1
                    if idle > self._idle_rounds and not has_greenlets():
                        self._runs = False
                        return
                try:
                    write = write or opened.enter_context(self._opened())
                    self._write(write)
                except Exception as error:  # noqa: BLE001 - it is tried again, and fails no job
                    logging.getLogger(f"fairqueue.{self._name}").debug("not written yet: %s", error)


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
