"""Puts back what a Celery worker inside the test process leaves changed in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from celery import _state


@contextmanager
def kept() -> Iterator[None]:
    """The default and current app, that results may be waited for, and the level of logs."""
    default, current = _state.default_app, _state._tls.current_app
    level = logging.root.level
    try:
        yield
    finally:
        _state.set_default_app(default)
        _state._set_current_app(current)
        _state._set_task_join_will_block(False)
        logging.root.setLevel(level)
