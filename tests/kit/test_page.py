"""The page about tests: its blocks are the files of a project, whose tests pass."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.pages import DOCS, blocks


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    """Each block begins with the name of its file; no server is asked."""
    files = defaultdict[str, str](str)
    for block in blocks(DOCS / "howto" / "test.md", "python"):
        name, _, code = block.partition("\n")
        files[name.removeprefix("# ")] += f"{code}\n"
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
