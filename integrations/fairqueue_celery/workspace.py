"""Tells which workspace a published task belongs to.

``before_task_publish`` is the one place where the arguments of a task are seen as they were given;
``Channel._put`` is the one where an error still reaches the caller and where the broker's settings
are known. So the signal notes the call, and the publish that carries the same headers reads it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fairqueue


@dataclass(frozen=True)
class Call(fairqueue.Call):
    """One call of a task, as its publisher made it."""

    fields: Mapping[str, Any]
    """Where eta, retries and group stand: the headers, or in protocol 1 the body."""
    chain: Sequence[Any] = ()
    """What is to follow this task, the last one first."""


class _Noted(threading.local):
    call: Call | None = None
    publish_id: str = ""


_noted = _Noted()


def note_call(sender: Any = None, body: Any = None, headers: Any = None, **_others: Any) -> None:
    """Remember the call that is about to be published by this thread (a signal receiver)."""
    if isinstance(body, Mapping):  # protocol 1
        if not headers:
            headers["protocol"] = 1  # kombu would put a new dict in the place of an empty one
        args, kwargs = body.get("args") or (), body.get("kwargs") or {}
        call = Call(str(sender), args, kwargs, headers, fields=body)
    else:
        chain = (body[2] or {}).get("chain") or ()
        call = Call(str(sender), body[0] or (), body[1] or {}, headers, headers, chain)
    _noted.call = call
    _noted.publish_id = fairqueue.new_job_id()


def forget_call(**_others: Any) -> None:
    """It is published: its arguments need not be kept alive."""
    _noted.call = None


def noted_call(headers: Any) -> tuple[Call, str] | None:
    """The call that came with these very headers, and the id of its publish."""
    call = _noted.call
    if call is None or call.headers is not headers:
        return None
    return call, _noted.publish_id


def workspace_of(call: Call, sources: Sequence[str]) -> str | None:
    """The workspace that the call names or that its surroundings imply; None: it names none.

    The header ``workspace`` comes first, then ``sources`` in turn, then the surrounding
    ``with fairqueue.workspace()`` or running job. Raises WorkspaceUnresolved.
    """
    return fairqueue.named_workspace(call, sources) or fairqueue.current_workspace()
