"""Picks the environments that CI runs, prints which ones ran, and checks that they suffice.

python -m tests.matrix.floor pick          the environments to run, for the Pythons on PATH
python -m tests.matrix.floor check FILE    what tox wrote to FILE (--result-json)

CI needs these releases of Celery and of Dramatiq, each framework on at least two Pythons. With the
variable CI set, a missing interpreter fails the check; otherwise it is reported and skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
NEWEST_PYTHON = {
    "celery": {"5.3": "3.12", "5.5": "3.13", "5.7": "3.13"},
    "dramatiq": {"1.17": "3.12", "2.0": "3.13", "2.2": "3.13"},
}
"""The releases that must run, each with the newest Python that it supports."""
FEWEST_PYTHONS = 2


@dataclass(frozen=True)
class Ran:
    """One environment of tox that ran."""

    name: str
    python: str
    framework: str
    release: str
    kombu: str
    redis: str
    passed: bool


def pick(pythons: Sequence[str]) -> list[str]:
    """Return one environment per release, spread over the given Pythons, the oldest first."""
    picked = []
    for framework, releases in NEWEST_PYTHON.items():
        for n, (release, newest) in enumerate(releases.items()):
            usable = [python for python in pythons if _key(python) <= _key(newest)]
            if usable:
                python = usable[min(n, len(usable) - 1)]
                picked.append(f"py{python}-{framework}{release}".replace(".", ""))
    return picked


def found_pythons() -> list[str]:
    """Return the supported Pythons on PATH that start; a pyenv shim may not."""
    return [python for python in PYTHONS if _starts(f"python{python}")]


def _starts(command: str) -> bool:
    path = shutil.which(command)
    if path is None:
        return False
    return subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode == 0


def read(result: dict[str, Any]) -> list[Ran]:
    """Return the environments in tox's results; a skipped one has no commands."""
    played = {name: notes for name, notes in result["testenvs"].items() if notes.get("test")}
    return [_ran(name, notes) for name, notes in played.items() if not name.startswith(".")]


def _ran(name: str, notes: dict[str, Any]) -> Ran:
    packages = dict(line.split("==", 1) for line in notes["installed_packages"] if "==" in line)
    framework = "dramatiq" if "dramatiq" in name else "celery"  # both are installed in each
    release, kombu, redis = (packages.get(name, "?") for name in (framework, "kombu", "redis"))
    python = ".".join(map(str, notes["python"]["version_info"][:2]))  # tox has no more
    passed = all(command["retcode"] == 0 for command in notes["test"])
    return Ran(name, python, framework, release, kombu, redis, passed=passed)


def problems(ran: Iterable[Ran]) -> list[str]:
    """Describe what CI lacks; empty if it lacks nothing."""
    good = [one for one in ran if one.passed]
    found = []
    for framework, releases in NEWEST_PYTHON.items():
        mine = [one for one in good if one.framework == framework]
        name, played = framework.capitalize(), {_minor(one.release) for one in mine}
        found += [f"no environment passed on {name} {r}" for r in releases if r not in played]
        pythons = len({one.python for one in mine})
        if pythons < FEWEST_PYTHONS:
            found.append(
                f"{name} passed on {pythons} Python(s), at least {FEWEST_PYTHONS} are needed"
            )
    return found


def table(ran: Iterable[Ran]) -> str:
    """Format the environments in columns."""
    rows = [("environment", "python", "release", "kombu", "redis-py", "result")]
    rows += [
        (one.name, one.python, one.release, one.kombu, one.redis, "ok" if one.passed else "FAILED")
        for one in ran
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    cells = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join("  ".join(row).rstrip() for row in cells)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _check(path: Path) -> int:
    ran = read(json.loads(path.read_text())) if path.exists() else []
    print(table(ran))  # noqa: T201
    found = problems(ran)
    for problem in found:
        print(f"the matrix is too small: {problem}")  # noqa: T201
    failed = [one.name for one in ran if not one.passed]
    return 1 if failed or (found and os.environ.get("CI")) else 0


def main(arguments: Sequence[str]) -> int:
    """Run the command in the first argument."""
    if list(arguments) == ["pick"]:
        print(",".join(pick(found_pythons())))  # noqa: T201
        return 0
    if len(arguments) == 2 and arguments[0] == "check":
        return _check(Path(arguments[1]))
    print(__doc__, file=sys.stderr)  # noqa: T201
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
