"""Determines the workspace of a task call from its headers and arguments (for adapters)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import Any

from fairqueue._context import current_workspace, running_job
from fairqueue._publish.missing_workspace import MissingWorkspace
from fairqueue._settings import Settings
from fairqueue._utils import load_function
from fairqueue._validation import text_of_id
from fairqueue.errors import WorkspaceUnresolved

Source = str | Callable[..., Any]
"""One item of ``workspace_from``: its text, or a function itself."""

EXPLICIT = "workspace"
"""This header takes precedence over the setting ``workspace_from``."""

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Call:
    """One call of a task, as its publisher made it: ``task`` is its registered name."""

    task: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    headers: Mapping[str, Any]
    """What is sent beside the arguments: Celery's headers, Dramatiq's message options."""

    def function(self) -> Callable[..., Any] | None:
        """Return the task's function, by which ``kwarg:`` finds an argument passed by position.

        None: this process does not know the task.
        """
        return None

    def of_task(self) -> str | None:
        """Return the workspace that the task itself names, for calls that name none."""
        return None


def workspace_of(call: Call, sources: Sequence[Source]) -> str | None:
    """Return the workspace of a call, or None if neither it nor its surroundings name one.

    The header ``workspace`` is read first, then ``sources`` (the setting ``workspace_from``) in
    their order, then the task's own, then the surrounding ``with fairqueue.workspace()`` or running
    job; the first answer wins. None and blank text are no answer. In what follows from a job,
    ``arg:`` names none: frameworks pass a result by position to a callback or the next step.
    Raises WorkspaceUnresolved if a resolver function raises or a source yields something that
    cannot be a name.
    """
    for source in (f"header:{EXPLICIT}", *sources):
        value = _resolve(source, call)
        name = None if value is None else _as_name(value, source, call.task)
        if name is not None:
            return name
    name = call.of_task()
    return current_workspace() if name is None else name


def workspace_to_publish(
    call: Call, settings: Settings, missing: MissingWorkspace, *, must_publish: bool = False
) -> str | None:
    """Return the same; None: the default workspace, after on_missing_workspace was applied."""
    sources = settings.workspace_from
    name = workspace_of(call, sources)
    if name is None:
        tried = partial(looked_for, call, sources)
        missing.found_none(call.task, tried, must_publish=must_publish)
    return name


def expected_workspace(call: Call, settings: Settings) -> str:
    """Return the same for a call that publishes nothing: no error, no warning."""
    name = current_workspace()
    with suppress(WorkspaceUnresolved):
        name = workspace_of(call, settings.workspace_from)
    return name or settings.default_workspace


def looked_for(call: Call, sources: Sequence[Source]) -> str:
    """Say where a call's workspace was looked for, and why it was not there."""
    wanted = dict.fromkeys((f"header:{EXPLICIT}", *sources))
    return ", ".join(
        f"{shown_source(source)} ({'; '.join(_why_not(source, call))})" for source in wanted
    )


def shown_source(source: Source) -> str:
    """Return a source as text; a function by its module and name."""
    if isinstance(source, str):
        return source
    module = getattr(source, "__module__", "")
    return f"{module}:{getattr(source, '__qualname__', type(source).__name__)}"


def _parts(source: Source) -> tuple[str, str]:
    """Return what kind of source it is, and what it names."""
    kind, _, what = ("function", "", "") if callable(source) else source.partition(":")
    return kind, what


def _why_not(source: Source, call: Call) -> Iterator[str]:
    kind, what = _parts(source)
    if kind not in {"header", "kwarg", "arg"}:
        yield "it named none"
    elif _has(kind, what, call):
        yield f"it is {_resolve(source, call)!r}"
    elif kind == "kwarg":
        names = {name.lower(): name for name in (*call.kwargs, *_parameters(call))}
        if what in names.values():
            yield "it is not passed"
            return
        yield "no such argument"
        yield from (
            f"did you mean {names[close]!r}?"
            for close in get_close_matches(what.lower(), names, n=1)
        )
    else:
        yield "it is not there"


def _has(kind: str, what: str, call: Call) -> bool:
    if kind == "arg":
        return int(what) < len(call.args) and not _follows_from_job()
    return what in (call.headers if kind == "header" else {**call.kwargs, **_by_position(call)})


def _resolve(source: Source, call: Call) -> Any:
    kind, what = _parts(source)
    if kind == "header":
        return call.headers.get(what)
    if kind == "kwarg":
        return call.kwargs[what] if what in call.kwargs else _by_position(call).get(what)
    if kind == "arg":
        return call.args[int(what)] if _has(kind, what, call) else None
    return _resolve_by_function(source, call)


def _follows_from_job() -> bool:
    running = running_job()
    return running is not None and running.body_returned


def _by_position(call: Call) -> dict[str, Any]:
    """Return the positional arguments by the names that the task's function gives them."""
    return dict(zip(_parameters(call), call.args, strict=False)) if call.args else {}


def _parameters(call: Call) -> tuple[str, ...]:
    function = call.function()
    return () if function is None else _positional(function)


@lru_cache(maxsize=1024)
def _positional(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a callable without a signature
        return ()
    return tuple(parameter.name for parameter in parameters if parameter.kind in POSITIONAL)


def _resolve_by_function(source: Source, call: Call) -> Any:
    resolver = _load(source) if isinstance(source, str) else source
    try:
        return resolver(call.task, call.args, call.kwargs, call.headers)
    except Exception as error:
        raise WorkspaceUnresolved(
            f"the workspace resolver {shown_source(source)!r} raised {type(error).__name__} for "
            f"task {call.task!r}: {error}; nothing was published"
        ) from error


@lru_cache(maxsize=64)
def _load(source: str) -> Callable[..., Any]:
    return load_function(source, setting="workspace_from", error=WorkspaceUnresolved)


def _as_name(value: Any, source: Source, task: str) -> str | None:
    """Return the value as a name; integers and UUIDs, common as workspace ids, become text."""
    name = text_of_id(value)
    if isinstance(name, str):
        return name if name.strip() else None
    raise WorkspaceUnresolved(
        f"{shown_source(source)!r} returned a {type(value).__name__} as the workspace of task "
        f"{task!r}; expected a str, an int, a UUID, or None for no answer"
    )


def check_sources(sources: Sequence[Source]) -> None:
    """Raise WorkspaceUnresolved for a source whose function cannot be imported."""
    for source in sources:
        if isinstance(source, str) and _parts(source)[0] not in {"header", "kwarg", "arg"}:
            _load(source)
