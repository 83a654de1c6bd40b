"""Django: the app ``fairqueue_web.django``, its middleware, views, ``on_commit`` and a command.

The setting ``FAIRQUEUE`` is a dict: ``url``, the arguments of :class:`fairqueue_web.FrontDoor`, and
the settings of fairqueue.
"""

from __future__ import annotations

from fairqueue.adapters import needs_extra

with needs_extra("fairqueue_web.django", "django"):
    from fairqueue_web.django.events import job_events
    from fairqueue_web.django.transactions import on_commit

__all__ = ["job_events", "on_commit"]
