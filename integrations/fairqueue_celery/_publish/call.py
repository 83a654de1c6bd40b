"""The call of a task behind a publish, and the workspace that it belongs to.

Only ``before_task_publish`` sees a task's arguments as they were given. Only in ``Channel._put``
does an error still reach the caller, and are the broker's settings known. So the signal notes the
call, and the publish that carries the same headers reads it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairqueue import adapters
from fairqueue_celery._publish.batch import batches, chord_header

EXPLICIT = "workspace"
"""The option of ``apply_async``, and the header, that name the workspace of one call."""


@dataclass(frozen=True)
class Call(adapters.Call):
    """One call of a task, as its publisher made it."""

    fields: Mapping[str, Any]
    """Where eta, retries and group stand: the headers, or in protocol 1 the body."""
    chain: Sequence[Any] = ()
    """The tasks that follow this one, the last first."""

    def function(self) -> Callable[..., Any] | None:
        """Return the function of the task, if an app of this process has it."""
        return next((app._tasks[self.task].run for app in _apps() if self.task in app._tasks), None)  # noqa: SLF001


def _apps() -> Iterator[Any]:
    """The apps of this process, the current one first; their tasks are not looked for."""
    state = sys.modules.get("celery._state")
    if state is None:
        return
    current = state._tls.current_app or state.default_app  # noqa: SLF001 - makes no app
    if current is not None:
        yield current
    yield from state._get_active_apps()  # noqa: SLF001 - no public list of apps


def first_of_chord() -> Call | None:
    """The call of the first task in the header of the chord that is begun here."""
    first = chord_header.get()
    while tasks := getattr(first, "tasks", None):
        first = tasks if isinstance(tasks, Mapping) else tasks[0]  # of a chord they are a group
    return None if first is None else call_in(first)


def call_in(signature: Mapping[str, Any]) -> Call:
    """The call that the signature of a task, or an entry of ``beat_schedule``, describes."""
    options = signature.get("options") or {}
    headers = {EXPLICIT: options.get(EXPLICIT), **(options.get("headers") or {})}
    args, kwargs = signature.get("args") or (), signature.get("kwargs") or {}
    return Call(signature["task"], args, kwargs, headers, headers)


class _Noted(threading.local):
    call: Call | None = None
    publish_id: str = ""
    tried: frozenset[tuple[str, str]] = frozenset()
    published: int = 0


_noted = _Noted()


def note_call(
    sender: Any = None,
    body: Any = None,
    headers: Any = None,
    properties: Any = None,
    **_others: Any,
) -> None:
    """Note the call that this thread is about to publish (receiver of ``before_task_publish``).

    An option that Celery does not know is a property of the message here, which its retry would
    not carry on: the workspace becomes the header.
    """
    workspace = (properties or {}).pop(EXPLICIT, None)
    if workspace is not None:
        headers[EXPLICIT] = workspace
    task = adapters.plain_str(sender)
    if isinstance(body, Mapping):  # protocol 1
        if not headers:
            headers["protocol"] = 1  # kombu would replace an empty dict by a new one
        args, kwargs = body["args"], body["kwargs"]
        call = Call(task, args, kwargs, headers, fields=body)
    else:
        chain = (body[2] or {}).get("chain") or ()
        call = Call(task, body[0], body[1], headers, headers, chain)
    if (collecting := batches.active) is not None:
        collecting.begin()
    _noted.call = call
    _noted.publish_id = adapters.new_job_id()
    _noted.tried = frozenset()


def forget_call(**_others: Any) -> None:
    """It is published (receiver of ``after_task_publish``): let go of its arguments."""
    _noted.call = None
    _noted.published += 1


def published_here() -> int:
    """How many tasks this thread has published so far."""
    return _noted.published


def call_in_hand() -> Call | None:
    """The call that this thread is about to publish, or that it could not publish."""
    return _noted.call


def noted_call(headers: Any) -> tuple[Call, str] | None:
    """The call that was noted with these very headers, and the id of its publish."""
    call = _noted.call
    if call is None or call.headers is not headers:
        return None
    return call, _noted.publish_id


def is_first_try(queue: str, job_id: str) -> bool:
    """Whether the noted call was not yet sent as this job; kombu sends it again after an error."""
    tried, _noted.tried = _noted.tried, _noted.tried | {(queue, job_id)}
    return (queue, job_id) not in tried
