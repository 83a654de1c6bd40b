"""Warns of celery-redbeat without a URL of its own: it cannot read the broker's."""

from __future__ import annotations

import logging
import sys
from typing import Any

logger = logging.getLogger("fairqueue_celery.transport")

_told = False


def warn_without_url() -> None:
    """Warn once, when a process that has imported celery-redbeat connects."""
    global _told  # noqa: PLW0603 - once for a process
    state = sys.modules.get("celery._state")
    if _told or state is None or "redbeat" not in sys.modules:
        return
    _told = True
    if any(map(_lacks_url, state._get_active_apps())):  # noqa: SLF001 - no public list of apps
        logger.warning(
            "celery-redbeat keeps its schedule at broker_url, and cannot read a fairqueue:// URL: "
            "set redbeat_redis_url to the redis:// URL of the Redis that shall keep the schedule"
        )


def _lacks_url(app: Any) -> bool:
    if not app.configured or not str(app.conf.broker_url).startswith("fairqueue"):
        return False
    return not any(app.conf.get(name) for name in ("redbeat_redis_url", "REDBEAT_REDIS_URL"))
