"""The tests inside each example pass, as a reader would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.release.check import examples_with_tests, requirements

EXAMPLES = examples_with_tests()


def test_each_example_says_what_it_is() -> None:
    """It has a README."""
    folders = [path for path in (ROOT / "examples").iterdir() if any(path.iterdir())]
    assert [path.name for path in folders if not (path / "README.md").exists()] == []


def test_no_example_reads_a_variable_of_the_celery_command() -> None:
    """That takes it in place of the app's URL, and the settings in there would not be in force."""
    apps = (ROOT / "examples").rglob("*.py")
    found = [path for path in apps if '("BROKER_URL"' in path.read_text()]
    assert found == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_its_readme_says_what_its_tests_need(example: Path) -> None:
    """The release check installs that beside the wheel, and runs the tests there."""
    needs = requirements(example)
    assert needs[0].startswith("fairqueue[")
    assert "pytest" in needs


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_its_own_tests_pass(example: Path) -> None:
    """They need no server."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=example,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
