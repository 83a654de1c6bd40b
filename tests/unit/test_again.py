"""What failed on CI runs once more, and is named; more than two failures fail the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import again

FAILS_ONCE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("n", range({failing}))
def test_it(n):
    seen = Path(f"seen-{{n}}")
    known = seen.exists()
    seen.touch()
    assert known
"""


@pytest.mark.parametrize(("failing", "code"), [(1, 0), (2, 0), (3, again.SOME_FAILED)])
def test_one_or_two_that_fail_once_do_not_fail_the_run(
    tmp_path: Path, failing: int, code: int
) -> None:
    """Each is named in either case."""
    (tmp_path / "test_flaky.py").write_text(FAILS_ONCE.format(failing=failing))
    done = subprocess.run(
        [sys.executable, again.__file__, "-q", "-p", "xdist"],
        cwd=tmp_path,
        env={**os.environ, "CI": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    for n in range(failing):
        assert f"  test_flaky.py::test_it[{n}]" in done.stdout
