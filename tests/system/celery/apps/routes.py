"""Exchanges of each type, queues and routes, declared once for all processes."""

from __future__ import annotations

from typing import Any

from kombu import Exchange, Queue
from kombu.common import Broadcast

orders = Exchange("orders", type="direct")
news = Exchange("news", type="topic")


def queues() -> list[Queue]:
    """New ones for each app, since each Broadcast has its own name."""
    return [
        Queue("celery"),
        Queue("orders-in", orders, routing_key="order"),
        Queue("orders-audit", orders, routing_key="order"),
        Queue("orders-back", orders, routing_key="return"),
        Queue("news-all", news, routing_key="news.#"),
        Queue("news-eu", news, routing_key="news.*.eu"),
        Queue("rendering"),
        Broadcast("everybody"),
    ]


def by_weight(name: str, args: Any, kwargs: dict[str, Any], *_: Any, **__: Any) -> Any:
    """A router function as in Celery's manual."""
    return {"queue": "rendering"} if kwargs.get("heavy") else None


ROUTES = (by_weight, {"routing.order_*": {"exchange": "orders", "routing_key": "order"}})
