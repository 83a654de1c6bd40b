"""Break each rule of the law in a copy of its Lua, and see that a fast test fails.

``python -m tests.mutation --jobs 2 --only settle`` plays those whose file or words match. Where the
tests nearest to a rule pass, all fast tests of the law run, those in memory first; what passes
them, too, survives. The tests are imported once, and each play is a fork that reads other Lua.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairqueue._stores import library
from tests.mutation.rules import Mutation, mutations

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "tests" / "mutation" / "report.md"
OPTIONS = (
    *("-qx", "-p", "no:cacheprovider", "-m", "not slow and not long"),
    *("-k", "not redis or test_fair_order", "--timeout", "120", "--timeout-method", "thread"),
)
"""A test without an end ends its child, which counts as a find."""
FAST = (
    ("tests/contract", "tests/fairness/test_table.py", "tests/fairness/test_bounds.py"),
    ("tests/shards", "tests/model"),
    ("tests/fairness/test_fair_order.py", "tests/fairness/test_across_shards.py"),
)
ORDER = (
    *("tests/contract/test_virtual_time.py", "tests/contract/test_reserves.py"),
    *("tests/contract/test_put_off.py", "tests/contract/test_claim.py"),
    *("tests/fairness/test_bounds.py", "tests/fairness/test_table.py"),
)
LIMITS = (
    *("tests/contract/test_limits.py", "tests/contract/test_task_limits.py"),
    *("tests/contract/test_pause.py", "tests/contract/test_stats.py"),
    *("tests/contract/test_groups.py",),
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
SCHEDULES = ("tests/contract/test_schedules.py", "tests/shards/test_upkeep.py")
STEPS = (
    *("tests/contract/test_steps.py", "tests/contract/test_children.py"),
    "tests/contract/test_killed_steps.py",
)
DEAD = (
    *("tests/contract/test_dead_letters.py", "tests/contract/test_cancel.py"),
    "tests/contract/test_dead_of_all.py",
)
NEAREST: dict[str, Sequence[str]] = {
    "scheduler/fairness": ORDER,
    "scheduler/order": ORDER,
    "scheduler/select": (*LIMITS, "tests/contract/test_put_off.py", *ORDER),
    "scheduler/settle": (*LIMITS, *ORDER),
    "state/leases": (*LEASES, *ORDER),
    "state/lease_records": LEASES,
    "state/records": ORDER,
    "scheduler/limits": (*LIMITS, *PUBLISH),
    "scheduler/shared_limits": LIMITS,
    "scheduler/task_rates": ("tests/contract/test_task_limits.py",),
    "state/lanes": ("tests/contract/test_holes.py", *LEASES, "tests/contract/test_publish_many.py"),
    "state/jobs": PUBLISH,
    "state/enqueue": PUBLISH,
    "state/kept_places": ("tests/contract/test_kept_places.py",),
    "state/timers": ("tests/contract/test_timers.py", *LIMITS),
    "upkeep/tick": ("tests/contract/test_redelivery.py", "tests/contract/test_timers.py"),
    "state/wakeups": ("tests/contract/test_wakeups.py", "tests/contract/test_waits.py"),
    "calls/idempotency": ("tests/contract/test_repeated_calls.py",),
    "state/removal": (
        *("tests/contract/test_cancel.py", "tests/contract/test_expiry.py"),
        "tests/contract/test_put_off.py",
    ),
    "state/schedules": SCHEDULES,
    "state/requests": ("tests/contract/test_requests.py",),
    "shards/permits": ("tests/contract/test_other_shards.py", "tests/shards"),
    "state/shard": ("tests/contract/test_fences.py", "tests/contract/test_publish.py"),
    "renew": ("tests/contract/test_fences.py", "tests/contract/test_claim.py"),
    "claim": ("tests/contract/test_queue_turns.py", "tests/contract/test_claim.py"),
    "publish": (*PUBLISH, *SCHEDULES, "tests/shards/test_reshard_holds.py"),
    "due_schedules": SCHEDULES,
    "change_schedule": SCHEDULES,
    "put_schedule": SCHEDULES,
    "state/steps": STEPS,
    "note_step": STEPS,
    "wake_parent": STEPS,
    "pause": (
        *("tests/contract/test_pause.py", "tests/contract/test_wakeups.py"),
        "tests/contract/test_waits.py",
    ),
    "shards/across": (
        "tests/contract/test_other_shards.py",
        "tests/fairness/test_across_shards.py",
    ),
    "scheduler/room": ("tests/contract/test_runnable.py",),
    "scheduler/follow": ("tests/contract/test_many_queues.py", *LIMITS),
    "state/dead_letters": DEAD,
    "replay": (*DEAD, "tests/contract/test_unique.py"),
}


@dataclass(eq=False)
class _Failure:
    """A plugin that names the first test that fails."""

    found: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.found = self.found or report.nodeid


def _failing(tests: Sequence[str], *options: str) -> str:
    """Run these tests in this process; name the one that fails, or nothing."""
    failure = _Failure()
    code = pytest.main([*OPTIONS, *options, *tests], [failure])
    return failure.found or ("" if code == pytest.ExitCode.OK else f"pytest ended with {code}")


@dataclass
class _Play:
    """One rule that is broken, or none, and the steps that are left."""

    mutation: Mutation | None
    steps: deque[Sequence[str]]

    @property
    def name(self) -> str:
        return f"{self.mutation.file}: {self.mutation.broken}" if self.mutation else "no rule"


def _fork(play: _Play, folder: Path) -> int:
    """Run the next step of a play in a child, which writes what it finds; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    out = os.open(folder / "out", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    if play.mutation:
        library.LUA = _broken_lua(play.mutation, folder)
    for made in (library.read_source, library.route_of, library.load):
        made.cache_clear()
    (folder / "found").write_text(_failing(play.steps[0]), encoding="utf-8")
    os._exit(0)


def _broken_lua(mutation: Mutation, folder: Path) -> Path:
    shutil.copytree(library.LUA, folder / "lua", dirs_exist_ok=True)
    file = mutation.file if "/" in mutation.file else f"api/{mutation.file}"
    path = folder / "lua" / f"{file}.lua"
    path.write_text(mutation.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
    return folder / "lua"


def _play_all(plays: Sequence[_Play], jobs: int) -> Iterator[tuple[_Play, str]]:
    """Play them by the nearest tests, and those that survive by all; name the tests that fail."""
    waiting, running = deque(plays), dict[int, tuple[_Play, Path]]()
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                play, own = waiting.popleft(), Path(tempfile.mkdtemp(dir=folder))
                running[_fork(play, own)] = play, own
            pid, status = os.wait()
            play, own = running.pop(pid)
            found = (own / "found").read_text("utf-8") if status == 0 else f"ended with {status}"
            shutil.rmtree(own)
            play.steps.popleft()
            if play.steps and not found:
                waiting.append(play)
                continue
            print(f"{play.name}: {found or 'SURVIVES'}", flush=True)  # noqa: T201
            yield play, found


def _write_report(found: dict[str, str]) -> None:
    survivors = [name for name, test in found.items() if not test]
    lines = [
        "# Mutations of the law",
        "",
        "`make mutations` broke each rule in `rules.txt`; a fast test must fail.",
        "The tests pass on the unbroken rules, by the same run.",
        "",
        f"{len(found)} rules were broken; {len(found) - len(survivors)} were found.",
        "",
        *(f"- survives: {name}" for name in survivors),
    ]
    REPORT.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def main() -> int:
    """Play the chosen mutations; write the report where all were played."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="a regular expression")
    options = parser.parse_args()
    _failing([path for step in FAST for path in step], "--collect-only", "-qq")
    every = [_Play(one, deque((NEAREST[one.file], *FAST))) for one in mutations()]
    chosen = [one for one in every if re.search(options.only, one.name)]
    found = {
        play.name: test
        for play, test in _play_all([_Play(None, deque(FAST)), *chosen], options.jobs)
    }
    unbroken = found.pop("no rule")
    survivors = sum(not test for test in found.values())
    print(f"{len(found)} rules were broken, {survivors} survive")  # noqa: T201
    if unbroken:
        print(f"the tests fail on the unbroken rules: {unbroken}")  # noqa: T201
    elif len(chosen) == len(every):
        _write_report(found)
    return 1 if survivors or unbroken else 0


if __name__ == "__main__":
    sys.exit(main())
