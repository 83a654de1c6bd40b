"""The events of tasks that a producer sends in few calls."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import redis

import fairqueue_celery

"""More than one call takes."""


def test_the_event_of_a_task_follows_its_publish(shop: Any, redis_client: redis.Redis) -> None:
    """Each task that is stored has one, those that are refused have none."""
    url = shop.url(workspace_capacity=3)
    publisher = shop.publisher(url, task_send_sent_event=True)
    listener = redis_client.pubsub(ignore_subscribe_messages=True)
    listener.psubscribe("*celeryev*")
    listener.get_message(timeout=1)
    with pytest.raises(fairqueue_celery.BatchRefused), fairqueue_celery.batch(publisher.app):
        ids = [publisher.send("work", n, workspace="ada").id for n in range(5)]
    events = []
    while message := listener.get_message(timeout=1):
        events.append(json.loads(base64.b64decode(json.loads(message["data"])["body"])))
    listener.close()
    sent = [one["uuid"] for one in events if one.get("type") == "task-sent"]
    assert [uuid for uuid in sent if uuid in ids] == ids[:3]
