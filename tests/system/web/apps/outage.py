"""A web app that sends a task with each request; gunicorn calls ``make``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from fairqueue import CapacityExceeded


def note(text: str) -> None:
    """Run nowhere."""


def celery_sender(url: str, settings: dict[str, Any]) -> Callable[[str], object]:
    from celery import Celery  # noqa: PLC0415 - one of the two

    app = Celery("outage", broker=f"fairqueue://{url}", backend=f"fairqueue://{url}")
    app.conf.broker_transport_options = settings
    task = app.task(name="note")(note)
    return lambda text: task.apply_async((text,), workspace="acme")


def dramatiq_sender(url: str, settings: dict[str, Any]) -> Callable[[str], object]:
    import dramatiq  # noqa: PLC0415
    from dramatiq.brokers.redis import RedisBroker  # noqa: PLC0415

    from fairqueue_dramatiq import FairQueueMiddleware  # noqa: PLC0415

    broker: Any = RedisBroker(url=f"redis://{url}")
    broker.add_middleware(FairQueueMiddleware(url=f"redis://{url}", **settings))
    actor = dramatiq.actor(note, actor_name="note", broker=broker)
    return lambda text: actor.send_with_options(args=(text,), workspace="acme")


def make(framework: str, url: str, folder: str) -> Callable[..., Iterable[bytes]]:
    settings = {"on_unavailable": "buffer", "buffer_path": folder, "workspace_capacity": 5}
    sender = {"celery": celery_sender, "dramatiq": dramatiq_sender}[framework]
    send = sender(url, settings)

    def application(environ: Any, start_response: Any) -> Iterable[bytes]:
        try:
            if environ["PATH_INFO"] != "/up":
                send(f"{os.getpid()} {environ['PATH_INFO'][1:]}")
            start_response("200 OK", [])
        except CapacityExceeded:
            start_response("429 Too Many Requests", [])
        return [b"%d" % os.getpid()]

    return application
