"""Messages about wrong settings, each with a remedy."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

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


def refuse_unknown(options: Mapping[str, Any], names: list[str]) -> None:
    """Raise for options and variables that are not settings."""
    problems = [unknown(str(name), names) for name in options if name not in names]
    problems += [unknown(name, names, ENV_PREFIX) for name in _strange_variables(names)]
    if problems:
        raise ConfigurationError("; ".join(problems))


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


def unknown(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Say that a setting is not known, and which may be meant."""
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
    """Return part of a path that fits one line."""
    return part if len(part) <= 40 else part[:39] + "…"  # noqa: PLR2004
