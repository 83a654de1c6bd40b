"""Flask: an extension that sets the workspace of each request and answers rejections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, cast

from fairqueue import ConfigurationError, FairQueue
from fairqueue.adapters import needs_extra
from fairqueue_web._answers import REJECTIONS, Rejection, answer_to
from fairqueue_web._door import FrontDoor
from fairqueue_web._events import JobEvents
from fairqueue_web._sources import View
from fairqueue_web._visit import Steps, Visit

with needs_extra("fairqueue_web.flask", "flask"):
    import flask

NO_USER = (
    "workspace_from: Flask has no users of its own: use a function, such as one of flask_login"
)


def _view(request: flask.Request) -> View:
    """A function of ``workspace_from`` gets ``flask.request``."""
    return View(request, request.root_path.rstrip("/") + request.path, request.headers.get, _user)


def _user() -> Any:
    """Extensions keep users, each in its way."""
    raise ConfigurationError(NO_USER)


class FairQueueFlask:
    """Sets the workspace of each request, gives it a place, and answers rejections.

    ``FairQueueFlask(app, …)``, or ``FairQueueFlask(…)`` and ``init_app(app)``. The other arguments
    are those of :class:`fairqueue_web.FrontDoor`, or ``door``. Functions of ``workspace_from`` run
    in the request's context, so they may use ``flask.g``, ``session`` or ``current_user``. A body
    that is streamed is made in the workspace, and keeps the place until it is closed.
    """

    def __init__(
        self,
        app: flask.Flask | None = None,
        queue: Any = None,
        *,
        door: FrontDoor | None = None,
        **options: Any,
    ) -> None:
        self._door = FrontDoor(queue, **options) if door is None else door
        if app is not None:
            self.init_app(app)

    def init_app(self, app: flask.Flask) -> None:
        """Register the extension; functions that run before requests see the workspace if later."""
        app.before_request(self._begin)
        # It runs last, so none that raises can drop the body that keeps the place.
        app.after_request_funcs.setdefault(None, []).insert(0, _keep_while_streaming)
        app.teardown_request(_end)
        for kind in REJECTIONS:
            app.register_error_handler(kind, _answer)

    def _begin(self) -> None:
        view = _view(flask.request)
        if self._door.is_exempt(view.path):
            return
        visit = self._door.enter(view)
        flask.g.fairqueue_visit, flask.g.fairqueue_block = visit, ExitStack()
        flask.g.fairqueue_block.enter_context(visit.inside())


def _keep_while_streaming(response: flask.Response) -> flask.Response:
    visit: Visit | None = flask.g.get("fairqueue_visit")
    if visit is not None and response.is_streamed:
        steps: Any = Steps(cast("Iterable[bytes]", response.response), visit)
        response.response = steps
        response.call_on_close(visit.end)  # another function may replace the body
        del flask.g.fairqueue_visit
    return response


def _end(_: BaseException | None) -> None:
    if (block := flask.g.pop("fairqueue_block", None)) is not None:
        block.close()
    if (visit := flask.g.pop("fairqueue_visit", None)) is not None:
        visit.end()


def _answer(error: Rejection) -> flask.Response:
    answer = answer_to(error)
    return flask.Response(answer.body, answer.status, list(answer.headers))


def job_events(
    queue: FairQueue, *, workspace: Callable[[flask.Request], Any]
) -> Callable[[str], flask.Response]:
    """Make a view of a route with ``<job_id>``: the status of a job as server-sent events.

    ``workspace`` gets ``flask.request``. A job that is not known in that workspace is answered with
    404. Each open stream keeps one of the server's threads.
    """

    def events(job_id: str) -> flask.Response:
        body = JobEvents(queue, job_id, workspace=workspace(flask.request))
        if not body.is_known():
            flask.abort(404)
        return flask.Response(iter(body), headers=JobEvents.HEADERS)

    return events
