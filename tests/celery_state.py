"""Puts back what a Celery worker inside the test process leaves changed in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from celery import _state


@contextmanager
def kept() -> Iterator[None]:
    """The apps, shared tasks, that results may be waited for, and the level of logs."""
    default, current = _state.default_app, _state._tls.current_app
    level, shared = logging.root.level, {*_state._on_app_finalizers}
    try:
        yield
    finally:
        _state.set_default_app(default)
        _state._set_current_app(current)
        _state._set_task_join_will_block(False)
        for each in _state._on_app_finalizers - shared:
            if each.__module__ in {"celery.app", "celery.app.base"}:  # a task that all apps get
                _state._on_app_finalizers.discard(each)
        logging.root.setLevel(level)
