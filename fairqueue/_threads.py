"""Threads that a task cannot block, also where gevent or eventlet have patched threading."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any


def _original(name: str) -> Any:
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        return gevent.get_original("threading", name)
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return getattr(eventlet.original("threading"), name)
    return getattr(threading, name)


def native_event() -> threading.Event:
    """Make an event of the operating system's threads."""
    event: threading.Event = _original("Event")()
    return event


def start_native(target: Callable[[], None], *, name: str) -> None:
    """Run ``target`` in a daemon thread of the operating system."""
    _original("Thread")(target=target, name=name, daemon=True).start()
