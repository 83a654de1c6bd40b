"""``eta``, ``countdown`` and ``expires`` mean the moment that they mean to stock Celery."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest
from celery import Celery
from kombu.utils.json import loads

from fairqueue import FairQueue
from fairqueue_celery._publish.publish import describe
from fairqueue_celery._worker.failures import request_of
from tests.integrations.celery.conftest import OpenApp

ZONES = [None, "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]
WAYS = ["eta", "countdown", "expires", "expires in seconds"]
NOW = timedelta(seconds=600)


def _work() -> None:
    """Never run."""


@pytest.fixture
def make(open_app: OpenApp, socket_url: str) -> OpenApp:
    """Makes apps with a timezone; each has the task, and takes stock's view of a message."""

    def made(zone: str | None, *, utc: bool, protocol: int) -> Celery:
        app = open_app(socket_url)
        app.conf.update(timezone=zone, enable_utc=utc, task_protocol=protocol)
        app.task(name="work", shared=False)(_work)
        app.set_current()  # as in a user's process
        return app

    return made


def options(way: str, moment: datetime, *, naive: bool) -> dict[str, Any]:
    if way in {"countdown", "expires in seconds"}:
        return {way.partition(" ")[0]: NOW.total_seconds()}
    return {way: moment.replace(tzinfo=None) if naive else moment}


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize(("zone", "utc"), list(product(ZONES, [True, False])))
def test_times_are_those_of_stock(
    make: Any, redis_url: str, namespace: str, zone: str | None, utc: bool, protocol: int
) -> None:
    """For each timezone, with and without ``enable_utc``, naive and aware."""
    app = make(zone, utc=utc, protocol=protocol)
    for way, naive in product(WAYS, [True, False]):
        now = datetime.now(timezone.utc)
        sent = app.send_task("work", **options(way, now + NOW, naive=naive))
        with FairQueue(redis_url, namespace=namespace) as core:
            job = core.jobs.withdraw(sent.id)
            assert job is not None
            about = describe(loads(job.payload), core)
        request = request_of(app, job.payload)
        stock = request.eta if way in {"eta", "countdown"} else request.expires
        ours = about.delay_seconds if way in {"eta", "countdown"} else about.expires_seconds
        assert ours == pytest.approx((stock - now).total_seconds(), abs=5), (way, naive)
