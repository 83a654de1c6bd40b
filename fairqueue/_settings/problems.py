"""Messages about wrong settings, each with a remedy."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from fairqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

ENV_PREFIX = "FAIRQUEUE_"

_NOT_SETTINGS = re.compile(
    # variables of fairqueue's own commands and tests, and those that Kubernetes sets in every pod
    # for a service whose name begins with "fairqueue"
    r"URL|REDIS_URL|DASHBOARD_(READ_)?TOKEN|(TEST|BENCH|DEMO)_\w+|"
    r"(\w+_)?SERVICE_(HOST|PORT)(_\w+)?|(\w+_)?PORT(_\w+)?"
)


MEANT = {
    "concurrency": "workspace_concurrency",
    "capacity": "workspace_capacity",
    "rate": "workspace_rate",
    "burst": "workspace_burst",
}
"""Settings that are meant by the name of a limit."""

OF_WORKSPACES = ("weight", "reserve", "parent")
"""Limits that have no default for all workspaces."""


def refuse_unknown(options: Mapping[str, Any], model: type[BaseModel]) -> None:
    """Raise for options and variables that are not settings."""
    names = list(model.model_fields)
    problems = [_unknown(str(name), names) for name in options if name not in names]
    problems += [_unknown(name, names, ENV_PREFIX) for name in _strange_variables(names)]
    _raise(problems)


def from_environment(names: Collection[str]) -> dict[str, str]:
    """Return the settings that variables give; an empty one gives none."""
    given = {variable.lower(): value for variable, value in os.environ.items() if value}
    variables = {name: f"{ENV_PREFIX.lower()}{name}" for name in names}
    return {name: given[variable] for name, variable in variables.items() if variable in given}


def _strange_variables(names: list[str]) -> Iterator[str]:
    for variable in sorted(os.environ):
        name = variable.removeprefix(ENV_PREFIX)
        if name == variable or name.lower() in names or _NOT_SETTINGS.fullmatch(name):
            continue
        yield name.lower()


def _unknown(name: str, names: Iterable[str], prefix: str = "") -> str:
    spelled = prefix + name.upper() if prefix else name
    return f"unknown setting {spelled!r}; {remedy_for(name, list(names))}"


def remedy_for(name: str, names: list[str]) -> str:
    """Return what to write instead of an unknown setting."""
    if name in OF_WORKSPACES and "workspaces" in names:
        return f"it is a limit of single workspaces: workspaces={{'NAME': {{{name!r}: …}}}}"
    meant = MEANT.get(name)
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    close = close or [known for known in names if known.startswith(f"{name.lower()}_")]
    close = [meant] if meant in names else close
    known = " or ".join(map(repr, close))
    return f"did you mean {known}?" if close else f"known: {', '.join(names)}"


def explain(error: ValidationError, model: type[BaseModel]) -> ConfigurationError:
    """Make one error of all that pydantic found, without values: one might be a secret."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    return ConfigurationError(
        "; ".join(_problem(d["loc"], d["type"], d["msg"], model) for d in details)
    )


def _problem(loc: tuple[int | str, ...], kind: str, message: str, model: type[BaseModel]) -> str:
    path = [_shortened(str(part)) for part in loc if part != "[key]"]
    owner, field = _field_at(path, model)
    if kind == "extra_forbidden" and owner is not None:
        return f"{'.'.join(path[:-1])}: {_unknown(path[-1], owner.model_fields)}"
    expected = f"; expected: {field.description}" if field is not None else ""
    where = f"setting {'.'.join(path)!r}: " if path else ""
    return f"{where}{message.removeprefix('Value error, ')}{expected}"


def _shortened(part: str) -> str:
    return part if len(part) <= 40 else part[:39] + "…"  # noqa: PLR2004 - fits one line


def _field_at(path: list[str], model: type[BaseModel]) -> tuple[type[BaseModel] | None, Any]:
    """Return the innermost model on the path, and the field if the path names one."""
    field = model.model_fields.get(path[0]) if path else None
    if len(path) < 3 or field is None:  # noqa: PLR2004 - setting, name, field of its entry
        return model, field
    entry = field.annotation.__args__[1]  # type: ignore[union-attr]
    return entry, entry.model_fields.get(path[2])


def refuse_reserves(settings: BaseModel) -> None:
    """Raise for a reserve above the concurrency: it could never be used in full."""
    default = settings.workspace_concurrency  # type: ignore[attr-defined]
    problems = []
    for name, entry in settings.workspaces.items():  # type: ignore[attr-defined]
        most = default if entry.concurrency is None else entry.concurrency
        if None not in {most, entry.reserve} and entry.reserve > most:
            problems.append(
                f"setting 'workspaces.{_shortened(name)}.reserve' is {entry.reserve}, above its "
                f"concurrency of {most}: lower the reserve, or raise the concurrency"
            )
    _raise(problems)


def refuse_burst(settings: BaseModel) -> None:
    """Raise for a default burst without a rate: it would have no effect."""
    if settings.workspace_burst is not None and settings.workspace_rate is None:  # type: ignore[attr-defined]
        _raise(["setting 'workspace_burst' has no effect without rate: set 'workspace_rate', too"])


def _raise(problems: list[str]) -> None:
    if problems:
        raise ConfigurationError("; ".join(problems))
