"""A Flask application behind the front door, for gunicorn."""

from __future__ import annotations

import os
import time

import flask

from fairqueue.adapters import current_workspace
from fairqueue_web.flask import FairQueueFlask

app = flask.Flask(__name__)
FairQueueFlask(
    app,
    queue=os.environ["SITE_URL"],
    namespace=os.environ["SITE_NAMESPACE"],
    workspace_from="header:X-Org",
    workspace_requests=1,
    lease_seconds=2.0,
)


@app.get("/whose")
def whose() -> flask.Response:
    return flask.jsonify(current_workspace())


@app.get("/hold")
def hold() -> str:
    time.sleep(120)
    return ""
