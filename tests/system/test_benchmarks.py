"""The benchmarks run, so that a broken one is noticed early."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich", reason="the benchmarks' bars and tables come with the demo extra")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = {path.stem for path in BENCHMARKS.glob("*.py")} - {"run", "instructions"}
"""All but the one that needs valgrind."""

pytestmark = pytest.mark.usefixtures("redis_server")


def smoke(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), "--smoke", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", sorted(SCRIPTS - {"wide_limits"}))
def test_a_benchmark_measures_both_sides(name: str) -> None:
    """With small numbers it succeeds, and each of its figures has a number for both sides."""
    found = smoke(name)
    assert [row["target"] for row in found["rows"] if row["target"]] or name == "saturation"
    for row in found["rows"]:
        assert len(row["ours"]) == len(row["peer"]) > 0
        assert math.isfinite(row["ratio"])
    for cost in found["costs"]:
        assert cost["per_job"] > 0


def test_make_bench_runs_them_all() -> None:
    """``make bench`` runs each of these scripts."""
    listed = (BENCHMARKS / "run.py").read_text().split("BENCHMARKS = (")[1].split(")")[0]
    assert {name.strip(' ",\n') for name in listed.split(",") if name.strip()} == SCRIPTS
