"""A web app that sends a task with each request, to be killed: outage.py FRAMEWORK URL FOLDER."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from fairqueue import CapacityExceeded

FRAMEWORK, URL, FOLDER = sys.argv[1:]
SETTINGS = {"on_unavailable": "buffer", "buffer_path": FOLDER, "workspace_capacity": 5}


def note(text: str) -> None:
    """Run nowhere."""


def celery_sender() -> Callable[[str], object]:
    from celery import Celery  # noqa: PLC0415 - one of the two

    app = Celery("outage", broker=f"fairqueue://{URL}", backend=f"fairqueue://{URL}")
    app.conf.broker_transport_options = SETTINGS
    task = app.task(name="note")(note)
    return lambda text: task.apply_async((text,), workspace="acme")


def dramatiq_sender() -> Callable[[str], object]:
    import dramatiq  # noqa: PLC0415
    from dramatiq.brokers.redis import RedisBroker  # noqa: PLC0415

    from fairqueue_dramatiq import FairQueueMiddleware  # noqa: PLC0415

    broker: Any = RedisBroker(url=f"redis://{URL}")
    broker.add_middleware(FairQueueMiddleware(url=f"redis://{URL}", **SETTINGS))
    actor = dramatiq.actor(note, actor_name="note", broker=broker)
    return lambda text: actor.send_with_options(args=(text,), workspace="acme")


send = {"celery": celery_sender, "dramatiq": dramatiq_sender}[FRAMEWORK]()


def application(environ: Any, start_response: Any) -> Iterable[bytes]:
    try:
        send(f"{os.getpid()} {environ['PATH_INFO'][1:]}")
        start_response("200 OK", [])
    except CapacityExceeded:
        start_response("429 Too Many Requests", [])
    return [b"%d" % os.getpid()]


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


with make_server("127.0.0.1", 0, application, handler_class=Quiet) as server:
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
