"""A worker that may try to connect only a few times ends as soon as with another broker."""

from __future__ import annotations

from typing import Any

from fairqueue.testing import EmbeddedServer

SECONDS = 40
"""Celery waits two seconds before its only retry; a search for Redis would take sixty."""


def test_max_retries_end_the_worker(own_shop: Any, own_server: EmbeddedServer) -> None:
    """With ``broker_connection_max_retries`` it exits with an error, for a supervisor to see."""
    own_shop.config = {"broker_connection_max_retries": 1}
    worker = own_shop.worker("-P", "threads", "-c", "1", url=own_shop.url()).ready()
    own_server.kill()
    assert worker.process.wait(SECONDS) != 0
    assert "looking for it" not in worker.log.read_text()
