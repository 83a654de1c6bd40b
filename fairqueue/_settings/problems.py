"""Messages about wrong settings, each with a remedy."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple

from fairqueue.errors import ConfigurationError

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


class Problem(NamedTuple):
    """What is wrong with the value at a path of names, or with a name in the entry there."""

    path: tuple[str, ...]
    text: str
    of_value: bool = True

    def __str__(self) -> str:
        at = ".".join(self.path)
        if self.of_value:
            return f"setting {at!r}: {self.text}"
        return f"{at}: {self.text}" if at else self.text


class Invalid(ConfigurationError):
    """Options of a model are wrong."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def refuse(problems: list[Problem]) -> None:
    """Raise if there are any."""
    if problems:
        raise Invalid(problems)


def within(name: str, error: ValueError, expected: str) -> list[Problem]:
    """Return the problems of the value with this name. None shows it: it might be a secret."""
    if isinstance(error, Invalid):
        return [each._replace(path=(name, *each.path)) for each in error.problems]
    return [Problem((name,), f"{error}; expected: {expected}")]


def unknown(options: Collection[str], names: Collection[str]) -> list[Problem]:
    """Return a problem for each option that is not one of these names."""
    strange = [str(name) for name in options if name not in names]
    return [Problem((), _unknown(name, names), of_value=False) for name in strange]


def unknown_variables(names: Collection[str]) -> list[Problem]:
    """Return a problem for each variable that looks like a setting and is none."""
    strange = _strange_variables(names)
    return [Problem((), _unknown(name, names, ENV_PREFIX), of_value=False) for name in strange]


def from_environment(names: Collection[str]) -> dict[str, str]:
    """Return the settings that variables give; an empty one gives none."""
    given = {variable.lower(): value for variable, value in os.environ.items() if value}
    variables = {name: f"{ENV_PREFIX.lower()}{name}" for name in names}
    return {name: given[variable] for name, variable in variables.items() if variable in given}


def _strange_variables(names: Collection[str]) -> Iterator[str]:
    for variable in sorted(os.environ):
        name = variable.removeprefix(ENV_PREFIX)
        if name == variable or name.lower() in names or _NOT_SETTINGS.fullmatch(name):
            continue
        yield name.lower()


def _unknown(name: str, names: Collection[str], prefix: str = "") -> str:
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


def shortened(part: str) -> str:
    """Return a name, cut to fit a line."""
    return part if len(part) <= 40 else part[:39] + "…"  # noqa: PLR2004 - fits one line


def refuse_reserves(settings: Any) -> None:
    """Raise for a reserve above the concurrency: it could never be used in full."""
    default = settings.workspace_concurrency
    problems = []
    for name, entry in settings.workspaces.items():
        most = default if entry.concurrency is None else entry.concurrency
        if None not in {most, entry.reserve} and entry.reserve > most:
            problems.append(
                f"setting 'workspaces.{shortened(name)}.reserve' is {entry.reserve}, above its "
                f"concurrency of {most}: lower the reserve, or raise the concurrency"
            )
    if problems:
        raise ConfigurationError("; ".join(problems))


def refuse_burst(settings: Any) -> None:
    """Raise for a default burst without a rate: it would have no effect."""
    if settings.workspace_burst is not None and settings.workspace_rate is None:
        raise ConfigurationError(
            "setting 'workspace_burst' has no effect without rate: set 'workspace_rate', too"
        )
