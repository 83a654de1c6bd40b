"""The front door of a web application: workspaces of requests, rejections, requests in flight.

Each framework has a module: ``fairqueue_web.asgi``, ``.wsgi``, ``.fastapi``, ``.flask``,
``.django``. Only those of frameworks need the framework.
"""

from __future__ import annotations

from fairqueue_web._answers import BadWorkspace
from fairqueue_web._door import FrontDoor
from fairqueue_web._events import JobEvents

__all__ = ["BadWorkspace", "FrontDoor", "JobEvents"]
