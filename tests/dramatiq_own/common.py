"""A module that the tests in Dramatiq's sdist import and the sdist lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from dramatiq import Worker

RABBITMQ_USERNAME = RABBITMQ_PASSWORD = "guest"
RABBITMQ_CREDENTIALS = pika.credentials.PlainCredentials(RABBITMQ_USERNAME, RABBITMQ_PASSWORD)

skip_in_ci = skip_on_windows = skip_on_pypy = pytest.mark.skipif(False, reason="runs here")
skip_unless_rabbit_mq = pytest.mark.skip(reason="names the default port of somebody's RabbitMQ")


@contextmanager
def worker(*args: Any, **kwargs: Any) -> Iterator[Worker]:
    """Run a worker inside the block."""
    running = Worker(*args, **kwargs)
    running.start()
    try:
        yield running
    finally:
        running.stop()
