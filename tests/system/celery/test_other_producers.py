"""Jobs from elsewhere: the old protocol, other languages, beat, other settings, no broker."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery

from tests.system.celery.conftest import APPS


@pytest.fixture(scope="module")
def depot(open_a_shop: Callable[..., Any]) -> Any:
    """One worker, configured as in a Django project, its keys with a prefix."""
    shop = open_a_shop("djangoish")
    shop.worker("-P", "prefork", "-c", "2", url="", DEPOT_URL=shop.url()).ready()
    return shop


@pytest.fixture
def app(depot: Any) -> Any:
    depot.ledger.forget()
    options = {"global_keyprefix": "mine:"}
    url = depot.url()
    app = depot.publisher(url, backend=url, broker_transport_options=options).app
    app.conf.result_backend_transport_options = options
    return app


def test_settings_with_a_prefix_reach_worker_and_keys(depot: Any, app: Celery) -> None:
    """``CELERY_BROKER_URL`` and the like are read; ``global_keyprefix`` precedes every key."""
    assert app.send_task("shop.work", (5,), {"tenant_id": "ada"}).get(timeout=60) == 5

    with depot._server.client() as client:
        keys = [key.decode() for key in client.scan_iter(f"*{depot.namespace}*")]
    assert keys
    assert all(key.startswith(("mine:", "{mine:")) for key in keys), keys


def put(depot: Any, queue: str, message: dict[str, Any]) -> None:
    """As any Redis client in any language does: docs/producers.md."""
    with depot._server.client() as client:
        client.lpush(f"mine:{queue}", json.dumps(message))


def by_hand(task: str, kwargs: dict[str, Any], **headers: Any) -> dict[str, Any]:
    """The message of docs/producers.md, field by field."""
    task_id, body = str(uuid.uuid4()), json.dumps([[], kwargs, {}])
    return {
        "body": base64.b64encode(body.encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"task": task, "id": task_id, **headers},
        "properties": {
            "body_encoding": "base64",
            "correlation_id": task_id,
            "delivery_info": {"exchange": "", "routing_key": "celery"},
            "delivery_tag": str(uuid.uuid4()),
            "priority": 0,
        },
    }


def test_a_producer_that_is_not_python(depot: Any, app: Celery) -> None:
    """A hand-made message in the queue's list keeps its workspace, its result and its eta."""
    now = by_hand("djangoish.whoami", {"tenant_id": "ada"})
    named = by_hand("djangoish.whoami", {"tenant_id": "ada"}, workspace="bea")
    soon = (datetime.now(timezone.utc) + timedelta(seconds=1)).isoformat()
    later = by_hand("djangoish.whoami", {"tenant_id": "cleo"}, eta=soon)
    for message in (now, named, later):
        put(depot, "celery", message)

    told = [app.AsyncResult(m["headers"]["id"]).get(timeout=60) for m in (now, named, later)]

    assert told == ["ada", "bea", "cleo"]


@pytest.fixture
def beat(depot: Any) -> Iterator[None]:
    """A running ``celery beat`` that sends four tasks a second."""
    environment = {**os.environ, "DEPOT_URL": depot.url(), "SHOP_LEDGER": str(depot.ledger.path)}
    schedule = depot.ledger.path.with_name("schedule")
    process = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "djangoish", "beat", "-s", str(schedule)],
        cwd=APPS, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield
    process.terminate()
    process.wait(60)


def test_beat_sends_due_tasks(depot: Any, app: Celery, beat: None) -> None:
    """Periodic tasks run again and again in the workspace that their entry names."""
    depot.ledger.wait("whoami", 3)

    assert {row["workspace"] for row in depot.ledger.lines("whoami")} == {"clock"}
