"""What failed or hung on CI runs once more, and is named; more than two failures fail the run."""

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

HANGS_ONCE = """
import signal, time
from pathlib import Path

def test_it():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    seen = Path("seen")
    known = seen.exists()
    seen.touch()
    time.sleep(0 if known else 60)
"""


def _again(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, again.__file__, "-q", *arguments],
        cwd=folder, env={**os.environ, "CI": "1", **env}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("failing", "code"), [(1, 0), (2, 0), (3, again.SOME_FAILED)])
def test_one_or_two_that_fail_once_do_not_fail_the_run(
    tmp_path: Path, failing: int, code: int
) -> None:
    """Each is named in either case."""
    (tmp_path / "test_flaky.py").write_text(FAILS_ONCE.format(failing=failing))
    done = _again(tmp_path, "-p", "xdist")
    assert done.returncode == code, done.stdout + done.stderr
    for n in range(failing):
        assert f"  test_flaky.py::test_it[{n}]" in done.stdout


def test_a_run_that_hangs_is_shown_and_runs_once_more(tmp_path: Path) -> None:
    """Whatever holds it: even a thread that no signal reaches."""
    (tmp_path / "test_hung.py").write_text(HANGS_ONCE)
    done = _again(tmp_path, "-n", "2", FAIRQUEUE_TEST_SECONDS="10")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_hung.py" in done.stderr
    assert "The run hung" in done.stdout
