"""Break each rule of the law in a copy of the tree, and see that a fast test fails.

``python -m tests.mutation --jobs 2 --only settle`` plays those whose file or words match. Where the
tests nearest to a rule pass, all fast tests of the law run at the end; what passes them, too,
survives.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutation.rules import Mutation, mutations

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "tests" / "mutation" / "report.md"
COPIED = ("fairqueue", "integrations", "tests", "docs", "pyproject.toml")
SECONDS = 600  # for the tests of one step; without an end the rule was found as well
FAST = ("tests/contract", "tests/model", "tests/fairness", "tests/shards")
ORDER = (
    *("tests/contract/test_virtual_time.py", "tests/contract/test_claim.py"),
    *("tests/fairness/test_bounds.py", "tests/fairness/test_fair_order.py"),
    "tests/fairness/test_table.py",
)
LIMITS = (
    *("tests/contract/test_limits.py", "tests/contract/test_task_limits.py"),
    *("tests/contract/test_pause.py", "tests/contract/test_totals.py"),
    *("tests/contract/test_groups.py", "tests/contract/test_task_rates.py"),
)
LEASES = (
    *("tests/contract/test_claim.py", "tests/contract/test_redelivery.py"),
    *("tests/contract/test_fences.py", "tests/contract/test_limits.py"),
    *("tests/contract/test_returned.py", "tests/contract/test_ways_out.py"),
)
PUBLISH = (
    *("tests/contract/test_capacity.py", "tests/contract/test_publish.py"),
    *("tests/contract/test_unique.py", "tests/contract/test_publish_many.py"),
)
NEAREST: dict[str, Sequence[str]] = {
    "scheduler/fairness": ORDER,
    "scheduler/order": ORDER,
    "scheduler/select": (*LIMITS, "tests/contract/test_expiry.py", *ORDER),
    "scheduler/settle": (*LIMITS, *ORDER),
    "state/leases": (*LEASES, *ORDER),
    "state/lease_records": LEASES,
    "state/records": ORDER,
    "scheduler/limits": (*LIMITS, *PUBLISH),
    "scheduler/shared_limits": LIMITS,
    "scheduler/task_rates": ("tests/contract/test_task_rates.py",),
    "state/lanes": ("tests/contract/test_holes.py", *LEASES, "tests/contract/test_publish_many.py"),
    "state/jobs": PUBLISH,
    "state/enqueue": PUBLISH,
    "state/kept_places": ("tests/contract/test_kept_places.py",),
    "state/timers": ("tests/contract/test_timers.py", *LIMITS),
    "upkeep/tick": ("tests/contract/test_redelivery.py", "tests/contract/test_timers.py"),
    "state/wakeups": ("tests/contract/test_wakeups.py", "tests/contract/test_waits.py"),
    "calls/idempotency": ("tests/contract/test_repeated_calls.py",),
    "state/removal": ("tests/contract/test_cancel.py", "tests/contract/test_expiry.py"),
    "state/schedules": ("tests/contract/test_schedules.py",),
    "state/requests": ("tests/contract/test_requests.py",),
    "shards/permits": ("tests/contract/test_other_shards.py", "tests/shards"),
    "state/shard": ("tests/contract/test_fences.py", "tests/contract/test_publish.py"),
    "renew": ("tests/contract/test_fences.py", "tests/contract/test_claim.py"),
    "claim": ("tests/contract/test_queue_turns.py", "tests/contract/test_claim.py"),
    "publish": PUBLISH,
}


def _failing(tree: Path, tests: Sequence[str]) -> str:
    """Run these tests in the tree; name the one that fails, or nothing."""
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider"]
    chosen = ["-m", "not slow and not long", "-k", "not redis or test_fair_order", *tests]
    env = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(
            [*command, *chosen],
            cwd=tree,
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s"
    if done.returncode == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else f"pytest ended with {done.returncode}"


def _play(mutation: Mutation, tree: Path, tests: Sequence[str]) -> str:
    """Break one rule in a tree, and mend it; name the test that found it."""
    file = mutation.file if "/" in mutation.file else f"api/{mutation.file}"
    path = tree / "fairqueue" / "lua" / f"{file}.lua"
    text = path.read_text(encoding="utf-8")
    path.write_text(mutation.applied(text), encoding="utf-8")
    try:
        return _failing(tree, tests)
    finally:
        path.write_text(text, encoding="utf-8")


def _copy_tree(folder: Path) -> Path:
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder)
    return folder


def _play_all(chosen: Sequence[Mutation], jobs: int) -> dict[Mutation, str]:
    """Play them by the nearest tests, and those that survive by all; name the tests that fail."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for n in range(jobs):
            trees.put(_copy_tree(Path(folder, str(n))))

        def play(mutation: Mutation, tests: Sequence[str]) -> str:
            tree, begun = trees.get(), time.monotonic()
            found = _play(mutation, tree, tests)
            trees.put(tree)
            said = f"{time.monotonic() - begun:5.0f} s  {mutation.file}: {mutation.broken}"
            print(f"{said}: {found or 'SURVIVES'}", flush=True)  # noqa: T201
            return found

        near = (NEAREST[mutation.file] for mutation in chosen)
        found = dict(zip(chosen, pool.map(play, chosen, near), strict=True))
        left = [mutation for mutation, test in found.items() if not test]
        print(f"{len(left)} survive the nearest tests", flush=True)  # noqa: T201
        return found | dict(zip(left, pool.map(play, left, [FAST] * len(left)), strict=True))


def _write_report(found: dict[Mutation, str]) -> None:
    survivors = [one for one, test in found.items() if not test]
    lines = [
        "# Mutations of the law",
        "",
        "`make mutations` broke each rule in `rules.txt`; a fast test must fail.",
        "",
        f"{len(found)} rules were broken; {len(found) - len(survivors)} were found.",
        "",
        *(f"- survives: `{one.file}`: {one.broken}" for one in survivors),
    ]
    REPORT.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def main() -> int:
    """Play the chosen mutations; write the report where all were played."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="a regular expression")
    options = parser.parse_args()
    every = list(mutations())
    chosen = [one for one in every if re.search(options.only, f"{one.file}: {one.broken}")]
    found = _play_all(chosen, options.jobs)
    survivors = sum(not test for test in found.values())
    print(f"{len(found)} rules were broken, {survivors} survive")  # noqa: T201
    if chosen == every:
        _write_report(found)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
