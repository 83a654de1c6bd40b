"""Which environments CI has run is read from tox's result file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.matrix import floor

NOTES = {
    "3.10": {"version_info": [3, 10, 0, "", 0]},
    "3.12": {"version_info": [3, 12, 0, "", 0]},
}


def environment(
    python: str, celery: str, *, code: int = 0, dramatiq: str = "2.2.1"
) -> dict[str, object]:
    """What tox writes about one environment."""
    return {
        "python": NOTES[python],
        "installed_packages": [
            f"celery=={celery}",
            f"dramatiq=={dramatiq}",
            "kombu==5.5.4",
            "redis==5.2.1",
            "pkg @ file:",
        ],
        "test": [{"retcode": 0}, {"retcode": code}],
    }


def noted(**environments: dict[str, object]) -> dict[str, object]:
    return {"testenvs": {".pkg": {"python": NOTES["3.10"]}, **environments}}


WHOLE = {
    "py310-celery53": environment("3.10", "5.3.6"),
    "py312-celery55": environment("3.12", "5.5.3"),
    "py312-celery57": environment("3.12", "5.7.0"),
    "py310-dramatiq117": environment("3.10", "5.7.0", dramatiq="1.17.1"),
    "py310-dramatiq20": environment("3.10", "5.7.0", dramatiq="2.0.1"),
    "py312-dramatiq22": environment("3.12", "5.7.0"),
}


def test_what_is_missing_is_reported() -> None:
    """A skipped release, a failed one and too few Pythons are each a problem."""
    failed = {**WHOLE, "py310-celery53": environment("3.10", "5.3.6", code=1)}
    del failed["py312-celery57"]
    del failed["py310-dramatiq117"]
    assert floor.problems(floor.read(noted(**failed))) == [
        "no environment passed on Celery 5.3",
        "no environment passed on Celery 5.7",
        "Celery passed on 1 Python(s), at least 2 are needed",
        "no environment passed on Dramatiq 1.17",
    ]


@pytest.mark.parametrize(
    ("environments", "ci", "code"),
    [
        (WHOLE, True, 0),
        ({"py312-celery57": WHOLE["py312-celery57"]}, True, 1),
        ({"py312-celery57": WHOLE["py312-celery57"]}, False, 0),
        ({**WHOLE, "py310-celery53": environment("3.10", "5.3.6", code=1)}, False, 1),
    ],
)
def test_too_small_a_matrix_fails_in_ci_only(
    environments: dict[str, dict[str, object]],
    ci: bool,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing interpreter fails in CI only; a failed environment fails everywhere."""
    monkeypatch.setenv("CI", "1") if ci else monkeypatch.delenv("CI", raising=False)
    (tmp_path / "ran.json").write_text(json.dumps(noted(**environments)))
    assert floor.main(["check", str(tmp_path / "ran.json")]) == code


@pytest.mark.parametrize(
    ("pythons", "picked"),
    [
        (
            ["3.10", "3.11", "3.12", "3.13"],
            (
                "py310-celery53 py311-celery55 py312-celery57 "
                "py310-dramatiq117 py311-dramatiq20 py312-dramatiq22"
            ),
        ),
        (
            ["3.11", "3.13"],
            (
                "py311-celery53 py313-celery55 py313-celery57 "
                "py311-dramatiq117 py313-dramatiq20 py313-dramatiq22"
            ),
        ),
        (["3.13"], "py313-celery55 py313-celery57 py313-dramatiq20 py313-dramatiq22"),
    ],
)
def test_environments_are_picked_for_the_installed_pythons(pythons: list[str], picked: str) -> None:
    """Each release is run on a Python that it supports, on different ones if possible."""
    assert floor.pick(pythons) == picked.split()
