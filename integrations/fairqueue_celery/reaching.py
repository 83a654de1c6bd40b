"""From an app to its queue: for what an operator does in a program."""

from __future__ import annotations

from typing import Any

from fairqueue import ConfigurationError, FairQueue


def queue_of(app: Any) -> FairQueue:
    """The core queue behind a Celery app: to pause, cancel, ask why, set limits and so on.

    With the app's own settings, over the connections that its publishes use: leave it open.
    Nothing is connected before its first call. Raises ConfigurationError if the app's broker is
    none of ours.
    """
    connection = app.connection_for_write()
    try:
        broker = getattr(connection.transport, "broker", None)
    finally:
        connection.release()
    core = getattr(broker, "core", None)
    if not isinstance(core, FairQueue):
        raise ConfigurationError(
            f"the broker of app {app.main!r} is not on fairqueue: set broker_url = 'fairqueue://…'"
        )
    return core
