"""A web app on the standard library, and the Celery app whose tasks its requests send."""

import os
from wsgiref.simple_server import make_server

from celery import Celery

app = Celery("web", broker=f"fairqueue://{os.environ.get('REDIS', 'localhost:6379/0')}")
if "SPOOL" in os.environ:
    app.conf.broker_transport_options = {
        "on_unavailable": "buffer",
        "buffer_path": os.environ["SPOOL"],
    }


@app.task(ignore_result=True)
def report(month: str) -> None:
    """Write one report."""
    print("written:", month)


def web(environ, start_response):
    """Order the report of the month in the path."""
    sent = report.apply_async((environ["PATH_INFO"][1:],), workspace="acme")
    start_response("202 Accepted", [("Content-Type", "text/plain")])
    return [f"ordered as {sent.id}\n".encode()]


if __name__ == "__main__":
    make_server("127.0.0.1", 8000, web).serve_forever()
