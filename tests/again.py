"""Runs pytest; on CI, the one or two tests that failed run once more, alone, and are named.

CI's machine is shared and may stand still for longer than any test can wait. A test that fails
because of this passes the second time; one that fails twice fails the run. So do more than two:
that is no machine that stood still. A run that hangs is ended, its threads are shown, and
it runs once more, whole.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SOME_FAILED = 1  # pytest's exit codes
MOST_AGAIN = 2
MOST_SECONDS = float(os.environ.get("FAIRQUEUE_TEST_SECONDS", "1500"))  # a run takes some 400
FAILED_LAST = Path(os.environ.get("TOX_ENV_DIR", ""), ".pytest_cache/v/cache/lastfailed")


def main(arguments: Sequence[str]) -> int:
    """Run pytest with these arguments, and on CI run what failed again; return the exit code."""
    # python -m pytest would put the checkout before the installed wheel
    command = [str(Path(sys.executable).with_name("pytest")), *arguments]
    FAILED_LAST.unlink(missing_ok=True)
    if not os.environ.get("CI"):
        return subprocess.run(command, check=False).returncode
    code = _bounded(command)
    if code == -signal.SIGKILL:
        print("The run hung; it runs once more:", flush=True)  # noqa: T201
        code = _bounded(command)
    if code != SOME_FAILED:
        return code
    failed = list(json.loads(FAILED_LAST.read_text()))
    print("These tests failed:", *failed, sep="\n  ", flush=True)  # noqa: T201
    if len(failed) > MOST_AGAIN:
        return code
    print("They run once more:", flush=True)  # noqa: T201
    again = ["--last-failed", "--numprocesses", "0", "--maxfail", "1", "--verbose"]
    return subprocess.run([*command, *again], check=False).returncode


def _bounded(command: Sequence[str]) -> int:
    """Run; end what hangs by SIGABRT, on which each process prints where its threads stand."""
    with subprocess.Popen(command, start_new_session=True) as run:
        try:
            return run.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            for each in (signal.SIGABRT, signal.SIGKILL):
                os.killpg(run.pid, each)
                time.sleep(1)
    return -signal.SIGKILL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
