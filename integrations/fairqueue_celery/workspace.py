"""Tells which workspace a published task belongs to.

``before_task_publish`` is the one place where the arguments of a task are seen as they were given;
``Channel._put`` is the one where an error still reaches the caller and where the broker's settings
are known. So the signal notes the call, and the publish that carries the same headers reads it.
"""

from __future__ import annotations

import secrets
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import fairqueue
from fairqueue_celery.errors import WorkspaceUnresolved

EXPLICIT = "workspace"
"""This header names the workspace whatever ``workspace_from`` says."""


@dataclass(frozen=True)
class Call:
    """One call of a task, as its publisher made it."""

    task: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    headers: Mapping[str, Any]
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
        args, kwargs = body.get("args") or (), body.get("kwargs") or {}
        call = Call(str(sender), args, kwargs, headers, fields=body)
    else:
        chain = (body[2] or {}).get("chain") or ()
        call = Call(str(sender), body[0] or (), body[1] or {}, headers, headers, chain)
    _noted.call = call
    _noted.publish_id = secrets.token_urlsafe(12)


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
    explicit = _as_name(call.headers.get(EXPLICIT), f"header:{EXPLICIT}", call)
    if explicit is not None:
        return explicit
    for source in sources:
        name = _as_name(_ask(source, call), source, call)
        if name is not None:
            return name
    return fairqueue.current_workspace()


def _ask(source: str, call: Call) -> Any:
    kind, _, what = source.partition(":")
    if kind == "header":
        return call.headers.get(what)
    if kind == "kwarg":
        return call.kwargs.get(what)
    if kind == "arg":
        return call.args[int(what)] if int(what) < len(call.args) else None
    return _ask_function(source, call)


def _ask_function(source: str, call: Call) -> Any:
    resolver = _load(source)
    try:
        return resolver(call.task, call.args, call.kwargs, call.headers)
    except Exception as error:
        raise WorkspaceUnresolved(
            f"the workspace resolver {source!r} raised {type(error).__name__} for task "
            f"{call.task!r}: {error}; nothing was published"
        ) from error


@lru_cache(maxsize=64)
def _load(source: str) -> Callable[..., Any]:
    module, _, name = source.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise WorkspaceUnresolved(
            f"workspace_from names {source!r}, which cannot be loaded: {error}; "
            "write it as 'package.module:function'"
        ) from error
    if not callable(found):
        raise WorkspaceUnresolved(f"workspace_from names {source!r}, which is not callable")
    return found  # type: ignore[no-any-return]


def _as_name(value: Any, source: str, call: Call) -> str | None:
    """A name; whole numbers and UUIDs, which tenants often are, are written out."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | uuid.UUID) and not isinstance(value, bool):
        return str(value)
    raise WorkspaceUnresolved(
        f"{source!r} gave a {type(value).__name__} as the workspace of task {call.task!r}; "
        "a str (or a whole number, a UUID, or None for no answer) is expected"
    )


def check_sources(sources: Sequence[str]) -> None:
    """Raise WorkspaceUnresolved now, at start-up, for a function that cannot be loaded."""
    for source in sources:
        if source.partition(":")[0] not in {"header", "kwarg", "arg"}:
            _load(source)
