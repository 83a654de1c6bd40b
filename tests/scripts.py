"""Python that a test plays in a process of its own."""

from __future__ import annotations

import subprocess
import sys


def failure_of(script: str, *arguments: str, seconds: float = 60.0) -> str:
    """Play a script to its end, and return why it failed; empty: it did not."""
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    done = subprocess.run(command, timeout=seconds, check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"
