"""Messages about wrong settings, each with a remedy."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches

from fairqueue.errors import ConfigurationError

ENV_PREFIX = "FAIRQUEUE_"

_NOT_SETTINGS = re.compile(
    # variables of fairqueue's own commands and tests, and those that Kubernetes sets in every pod
    # for a service whose name begins with "fairqueue"
    r"URL|REDIS_URL|DASHBOARD_(READ_)?TOKEN|(TEST|BENCH|DEMO)_\w+|"
    r"(\w+_)?SERVICE_(HOST|PORT)(_\w+)?|(\w+_)?PORT(_\w+)?"
)

OF_WORKSPACES = ("weight", "reserve", "parent")
"""Limits that have no default for all workspaces."""


def refuse(problems: Collection[str]) -> None:
    """Raise one error of all problems, if there are any."""
    if problems:
        raise ConfigurationError("; ".join(problems))


def refuse_unknown(names: Iterable[str], known: Collection[str], path: str = "") -> None:
    """Raise for names that are no settings; ``path`` ends in a dot."""
    where = f"{path[:-1]}: " if path else ""
    refuse([where + _unknown(name, known) for name in names if name not in known])


def from_environment(names: Collection[str]) -> dict[str, str]:
    """Return the settings that variables give; an empty one gives none."""
    refuse([_unknown(name, names, ENV_PREFIX) for name in _strange_variables(names)])
    given = {variable.lower(): value for variable, value in os.environ.items() if value}
    variables = {name: f"{ENV_PREFIX.lower()}{name}" for name in names}
    return {name: given[variable] for name, variable in variables.items() if variable in given}


def _strange_variables(names: Collection[str]) -> Iterator[str]:
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
    meant = f"workspace_{name}"
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    close = close or [known for known in names if known.startswith(f"{name.lower()}_")]
    close = [meant] if meant in names else close
    known = " or ".join(map(repr, close))
    return f"did you mean {known}?" if close else f"known: {', '.join(names)}"


def shortened(part: str) -> str:
    """Return a name as it fits into one line."""
    return part if len(part) <= 40 else part[:39] + "…"  # noqa: PLR2004
