"""For tests of an app that uses fairqueue: its jobs in memory, a movable clock, a private server.

The fixtures of pytest that come with fairqueue give a test what stands here: ``fairqueue_jobs``,
``fairqueue_queue`` and ``fairqueue_clock``.
"""

from __future__ import annotations

from fairqueue.testing._clock import ManualClock
from fairqueue.testing._jobs import EnqueuedJob, Jobs, Run, Seconds
from fairqueue.testing._memory import memory_url
from fairqueue.testing._process import Child
from fairqueue.testing._server import EmbeddedServer, find_server

__all__ = [
    "Child",
    "EmbeddedServer",
    "EnqueuedJob",
    "Jobs",
    "ManualClock",
    "Run",
    "Seconds",
    "embedded_redis",
    "find_server",
    "memory_url",
]

embedded_redis = EmbeddedServer
"""Start a private server, and stop it at the end of the block."""
