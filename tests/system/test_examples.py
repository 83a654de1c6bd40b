"""The examples of both frameworks run as a reader would run them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.release.check import ADAPTERS, ROOT, SMOKE


@pytest.mark.parametrize("framework", ADAPTERS)
def test_the_example_runs(framework: str) -> None:
    """A thousand reports of one workspace, the refusal of one more, and another's report soon."""
    done = subprocess.run(
        [sys.executable, str(SMOKE), framework],
        cwd=ROOT / "examples" / ADAPTERS[framework],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
