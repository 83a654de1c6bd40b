"""Tells which workspace a call of a task belongs to (for adapters)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fairqueue._functions import load_function
from fairqueue.errors import WorkspaceUnresolved

EXPLICIT = "workspace"
"""This header names the workspace whatever ``workspace_from`` says."""


@dataclass(frozen=True)
class Call:
    """One call of a task, as its publisher made it."""

    task: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    headers: Mapping[str, Any]
    """What stands beside the arguments: Celery's headers, Dramatiq's message options."""


def named_workspace(call: Call, sources: Sequence[str]) -> str | None:
    """The workspace that a call names: by its header ``workspace``, else by ``sources`` in turn.

    The sources are those of the setting ``workspace_from``. None: it names none. Raises
    WorkspaceUnresolved for a resolver that raises and for an answer that cannot be a name.
    """
    explicit = as_name(call.headers.get(EXPLICIT), f"header:{EXPLICIT}", call.task)
    if explicit is not None:
        return explicit
    for source in sources:
        name = as_name(_ask(source, call), source, call.task)
        if name is not None:
            return name
    return None


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
    return load_function(source, setting="workspace_from", error=WorkspaceUnresolved)


def as_name(value: Any, source: str, task: str) -> str | None:
    """A name; whole numbers and UUIDs, which tenants often are, are written out."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | uuid.UUID) and not isinstance(value, bool):
        return str(value)
    raise WorkspaceUnresolved(
        f"{source!r} gave a {type(value).__name__} as the workspace of task {task!r}; "
        "a str (or a whole number, a UUID, or None for no answer) is expected"
    )


def check_sources(sources: Sequence[str]) -> None:
    """Raise WorkspaceUnresolved now, at start-up, for a function that cannot be loaded."""
    for source in sources:
        if source.partition(":")[0] not in {"header", "kwarg", "arg"}:
            _load(source)
