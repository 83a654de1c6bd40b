"""The dashboard: an ASGI app that shows workspaces, queues and jobs, and steers them.

``pip install 'fairqueue[dashboard]'``; then ``fairqueue dashboard``, or mount :func:`app`.
"""

from __future__ import annotations

from fairqueue.dashboard._access import Role, is_loopback, only_this_host
from fairqueue.dashboard._app import app, several

__all__ = ["Role", "app", "is_loopback", "only_this_host", "several"]
