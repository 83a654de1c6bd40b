"""What wakes a consumer without an event loop."""

from __future__ import annotations

import os
from typing import Any

import pytest

from fairqueue._utils import is_readable
from fairqueue_celery._consume.flusher import flusher
from fairqueue_celery._consume.poller import Poller


def test_a_change_while_a_wake_up_is_read_wakes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With eventlet, ``os.read`` lets other greenlets run first: jobs may end in them."""
    monkeypatch.setattr(flusher, "look", lambda: None)
    poller: Any = Poller(None)
    poller._open_pipe()
    reader, read = poller._pipe[0], os.read

    def read_later(fd: int, size: int) -> bytes:
        poller._changed(None)
        return read(fd, size)

    poller._changed(None)
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read_later)
        poller.handle_event(reader, 0)
    assert not is_readable([reader], 0)
    poller._changed(None)
    assert is_readable([reader], 0)
    poller.close()
