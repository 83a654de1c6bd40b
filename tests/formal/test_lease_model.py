"""spin plays every course of the lease protocol's model, and finds each rule that is left out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).with_name("lease.pml")
DEEPEST = 100_000  # steps of one course
SOUND = (
    "LATE CRASH",
    "LATE CRASH EARLY",
    "LATE STOP GRANTS=2",
    "EARLY STOP",
    "AWAY CRASH LATE GRANTS=2",
    "AWAY CRASH STOP GRANTS=2",
    "AWAY EARLY STOP GRANTS=2",
    "FAILOVER CRASH GRANTS=2",
    "FAILOVER EARLY GRANTS=2",
    "FAILOVER LATE GRANTS=2",
    "FAILOVER CLOCK_BACK CRASH GRANTS=2",
    "FAILOVER SYNC CRASH",
    "FAILOVER SYNC EARLY",
    "FAILOVER SYNC LATE GRANTS=2",
)
LEFT_OUT = {
    "NO_LIMIT": "<=1",
    "NO_FENCE NO_OWNER STOP": "g_grant",
    "NO_FENCE FAILOVER CLOCK_BACK GRANTS=2": "g_grant",
    "NO_OWNER FAILOVER CLOCK_BACK": "g_grant",
    "NO_GROWTH FAILOVER": "g_highest",
    "NO_NUMBERS": "g_slept",
    "NO_RENEWAL": "g_slept",
    "NO_GAP AWAY": "g_outage",
    "NO_EARLY_MARK EARLY CRASH": "g_runs",
    "NO_CONFIRM SYNC FAILOVER": "g_slept",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("spin") is None and "CI" not in os.environ, reason="needs spin"
    ),
]


def _found(variant: str, folder: Path) -> str:
    """Search all courses of this variant; return the assertion that one breaks, or nothing."""
    defines = [f"-D{name}" for name in variant.split()]
    build = ("gcc", "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
    for command in (("spin", "-a", *defines, str(MODEL)), build):
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    search = ("./pan", f"-m{DEEPEST}", "-w22")
    out = subprocess.run(search, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "max search depth too small" not in out
    assert (errors := re.search(r"errors: (\d+)", out)), out
    said = re.search(r"pan:\d+: (.*)", out)
    assert (errors[1] == "0") == (said is None), out
    return said[1] if said else ""


@pytest.mark.parametrize("variant", SOUND)
def test_promises_hold_in_every_course(variant: str, tmp_path: Path) -> None:
    """No limit is exceeded, no job lost or finished twice, and no renewed lease lost."""
    assert _found(variant, tmp_path) == ""


@pytest.mark.parametrize(("variant", "promise"), LEFT_OUT.items(), ids=LEFT_OUT)
def test_a_rule_that_is_left_out_is_found(variant: str, promise: str, tmp_path: Path) -> None:
    """Without the rule a course breaks the promise that the rule keeps."""
    found = _found(variant, tmp_path)
    assert found.startswith("assertion violated"), found
    assert promise in found
