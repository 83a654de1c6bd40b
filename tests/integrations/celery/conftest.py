"""Celery apps in this process; each test has a broker of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from celery import Celery

from tests.celery_state import kept

OpenApp = Callable[..., Celery]


@pytest.fixture
def open_app(namespace: str) -> Iterator[OpenApp]:
    """Makes apps, by default on a broker in memory; they are closed with the test."""
    with kept(), ExitStack() as closing:

        def make(broker: str = f"fairqueue+memory://{namespace}", **config: object) -> Celery:
            app = Celery(namespace, broker=broker, set_as_current=False, **config)
            closing.callback(app.close)
            return app

        yield make


@pytest.fixture
def socket_url(redis_url: str, namespace: str) -> str:
    """The broker's URL on the tests' Redis."""
    return redis_url.replace("unix://", "fairqueue+socket://") + f"?namespace={namespace}"
