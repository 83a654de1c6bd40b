"""A worker's thread that drains what old producers still push to kombu's own lists.

It also puts back what a worker of the old broker held for longer than the visibility timeout, as
the old workers would do: when the last of them is gone, nobody else does.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import redis

from fairqueue import FairQueueError, Throttle
from fairqueue_celery import crew
from fairqueue_celery.adopting import Adoption
from fairqueue_celery.broker import Broker
from fairqueue_celery.stocklists import Layout, StockLists

logger = logging.getLogger(__name__)

SHORTEST_REST_SECONDS = 0.5
LONGEST_REST_SECONDS = 5.0
AT_ONCE = 500
RESTORE_EVERY_SECONDS = 10.0
RESTORED_AT_ONCE = 100
LOG_EVERY_SECONDS = 30.0


class Adopter:
    """Looks into the lists of the queues that this worker takes its jobs from."""

    def __init__(self, broker: Broker, layout: Layout, *, visibility_seconds: float) -> None:
        self._broker = broker
        self._visibility_seconds = visibility_seconds
        self._lists = StockLists(redis.Redis.from_url(broker.url), layout)
        self._adoption = Adoption(broker.core.clone(), self._lists)
        self._rest_seconds = SHORTEST_REST_SECONDS
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
        self._restore_throttle = Throttle(RESTORE_EVERY_SECONDS)

    def start(self) -> None:
        """Begin, in a thread that ends with the process."""
        threading.Thread(target=self._run, name="fairqueue-adopter", daemon=True).start()

    def _run(self) -> None:
        while True:
            found = self._look()
            longer = min(LONGEST_REST_SECONDS, self._rest_seconds * 1.5)
            self._rest_seconds = SHORTEST_REST_SECONDS if found else longer
            if found < AT_ONCE:
                time.sleep(self._rest_seconds)

    def _look(self) -> int:
        """Adopt some; return how many. Errors are told, and it goes on: it is nobody's main job."""
        try:
            self._restore_overdue()
            queues = self._broker.queues_taken()
            return sum(self._adoption.adopt(queue, most=AT_ONCE) for queue in queues)
        except (FairQueueError, redis.RedisError) as error:
            self._log("messages of the old broker are left where they are: %s", error)
        except Exception as error:  # noqa: BLE001 - the loop must live; it is logged
            self._log("adopting messages of the old broker failed: %r", error)
        return 0

    def _restore_overdue(self) -> None:
        if not self._restore_throttle.passes():
            return
        before = time.time() - self._visibility_seconds
        for held in self._lists.overdue(before, RESTORED_AT_ONCE):
            self._lists.restore(held)

    def _log(self, text: str, error: Exception) -> None:
        if self._log_throttle.passes():
            logger.warning(text, error)


def on_worker_ready(sender: Any = None, **_others: Any) -> None:
    """A worker is ready: look into the old lists from now on (receiver of ``worker_ready``)."""
    transport = getattr(sender.connection, "transport", None)
    broker = getattr(transport, "broker", None)
    if transport is None or broker is None or crew.worker() is None:
        return
    if broker.url.startswith("memory://"):
        return
    options = transport.client.transport_options
    visibility_seconds = float(options.get("visibility_timeout") or 3600)
    Adopter(broker, Layout.of_options(options), visibility_seconds=visibility_seconds).start()
