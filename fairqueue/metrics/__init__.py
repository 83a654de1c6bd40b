"""Metrics for Prometheus: the state of the queues, and what a worker counts.

``pip install 'fairqueue[metrics]'``; then ``fairqueue metrics`` serves how the queues stand, and
the setting ``metrics_bind`` has workers serve what they count. Programs that have a registry of
their own register these collectors in it. Importing this module needs no extra, calling it does.
"""

from __future__ import annotations

import logging
from typing import Any

from fairqueue._queue import FairQueue
from fairqueue._utils import needs_extra
from fairqueue.errors import ConfigurationError
from fairqueue.metrics._serve import Server, serve

__all__ = ["Server", "collector", "process_collector", "serve", "serve_worker"]

WORKERS_ON_A_HOST = 32

log = logging.getLogger("fairqueue.metrics")


def collector(queue: FairQueue, *, workspaces: int | None = None) -> Any:
    """Return a collector of a namespace's state; one process needs to serve it.

    A scrape reads it from the store, at a cost that does not grow with the number of workspaces.
    ``workspaces``: how many have a label of their own (the setting ``metrics_workspaces``).
    """
    from fairqueue.metrics._store import StoreCollector  # noqa: PLC0415 - an extra

    most = queue.settings.metrics_workspaces if workspaces is None else workspaces
    return StoreCollector(queue, most)


def process_collector(queue: FairQueue) -> Any:
    """Return a collector of what this process sees happen on this queue from now on."""
    from fairqueue.metrics._process import ProcessCollector  # noqa: PLC0415 - an extra

    buffered = queue.outages.counts if queue.settings.buffer_path else tuple
    return ProcessCollector(queue.tally, buffered)


def serve_worker(queue: FairQueue) -> list[Server]:
    """Serve this worker's counts at the setting ``metrics_bind``, if it is set.

    Several workers of one host may have the same setting: each takes the first free port of the
    next 32. Errors are logged: no worker stops for its metrics.
    """
    bind = queue.settings.metrics_bind
    if bind is None:
        return []
    try:
        with needs_extra("it", "metrics", ConfigurationError):
            server = serve([process_collector(queue)], bind, ports=WORKERS_ON_A_HOST)
    except ConfigurationError as error:
        log.error("setting 'metrics_bind' has no effect: %s", error)  # noqa: TRY400 - it says all
        return []
    log.info("fairqueue: metrics of this worker are at %s", server.url)
    return [server]
