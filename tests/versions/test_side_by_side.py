"""An earlier release and this one, side by side on one Redis, under load."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairqueue import FairQueue
from fairqueue.audit import audit
from tests.system.ledger import Ledger, wait_for

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("worker.py")
PACKAGES = ("fairqueue", "integrations")
ENOUGH = 15
"""Jobs of each release that each has run, before and after one process of each is killed."""
LONGEST_SECONDS = 90.0
LIMITS = {"workspace a": 1, "workspace b": 2, "task u": 2, "total": 4}
SETTINGS: dict[str, Any] = {
    "lease_seconds": 5.0,
    "total_concurrency": 4,
    "workspaces": {"a": {"concurrency": 1}, "b": {"concurrency": 2, "weight": 2}},
    "tasks": {"u": {"concurrency": 2}},
}
UNTAGGED = "9af8cdf3"
"""The commit that is played while no release is tagged: its keys have the same format."""

Line = dict[str, Any]


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _earlier() -> str:
    """The release to play: FAIRQUEUE_TEST_BESIDE, the last tag, or that commit."""
    asked = os.environ.get("FAIRQUEUE_TEST_BESIDE")
    return asked or _git("describe", "--tags", "--abbrev=0", "HEAD^") or UNTAGGED


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The packages of the earlier release, in a folder."""
    release = _earlier()
    if not _git("rev-parse", "--verify", "--quiet", f"{release}^{{commit}}"):
        pytest.skip(
            f"the repository here does not have {release}: it is no clone, or a shallow one"
        )
    archive = tmp_path / "earlier.tar"
    _git("archive", "--output", str(archive), release, *PACKAGES)
    folder = tmp_path / "earlier"
    folder.mkdir()
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    return folder


def _start(release: str, packages: Path, ledger: Ledger, options: Line) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(packages), str(packages / "integrations"), *filter(None, sys.path)])
    command = [sys.executable, str(WORKER), str(ledger.path), release, json.dumps(options)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})


def _play(earlier: Path, ledger: Ledger, options: Line, queue: FairQueue) -> set[int]:
    """Two processes of each release; one of each is killed, and another started. Return its pid."""
    places = {"earlier": earlier, "present": ROOT}

    def start(seed: int) -> list[subprocess.Popen[bytes]]:
        return [
            _start(name, places[name], ledger, {**options, "seed": seed}) for name in sorted(places)
        ]

    children = [*start(1), *start(2)]
    try:
        wait_for(lambda: _has_done(ledger, began=4, jobs=ENOUGH), seconds=LONGEST_SECONDS)
        for child in children[:2]:
            child.kill()
        children += start(3)
        wait_for(lambda: _has_done(ledger, began=6, jobs=2 * ENOUGH), seconds=LONGEST_SECONDS)
        for child in children:
            child.send_signal(signal.SIGTERM)
        wait_for(lambda: not any(_left(queue)), seconds=LONGEST_SECONDS)
        for child in children[2:]:
            child.send_signal(signal.SIGTERM)
        assert [child.wait(20) for child in children[2:]] == [0] * 4
        return {child.pid for child in children[:2]}
    finally:
        for child in children:
            child.kill()
            child.wait()


def _has_done(ledger: Ledger, *, began: int, jobs: int) -> bool:
    """Whether this many processes have begun, and each release has run these jobs of each."""
    pairs = _pairs(ledger.lines())
    return len(ledger.lines("began")) >= began and len(pairs) == 4 and min(pairs.values()) >= jobs


def _pairs(lines: list[Line]) -> Counter[tuple[str, str]]:
    """Count the runs by the release that has published the job, and the one that ran it."""
    return Counter((line["by"], line["release"]) for line in lines if line["what"] == "ended")


def _left(queue: FairQueue) -> Iterator[int]:
    for row in queue.views.stats().workspaces:
        yield row.waiting + row.scheduled + row.running


def _most_at_once(lines: list[Line]) -> dict[str, int]:
    """Return the largest number of jobs that ran at the same time, for each limit."""
    most: Counter[str] = Counter()
    running: dict[int, tuple[str, ...]] = {}
    counts: Counter[str] = Counter()
    for line in sorted(lines, key=lambda each: each["at"]):
        if line["what"] == "started":
            running[line["fence"]] = (
                f"workspace {line['workspace']}",
                f"task {line['task']}",
                "total",
            )
            counts.update(running[line["fence"]])
            most |= counts
        elif line["what"] == "ended":
            counts.subtract(running.pop(line["fence"], ()))
    return most


@pytest.mark.slow
@pytest.mark.system
def test_an_earlier_release_runs_beside_this_one(
    earlier: Path, redis_url: str, namespace: str, tmp_path: Path
) -> None:
    """Each runs what the other has published, no job is lost, and no limit is exceeded."""
    ledger = Ledger(tmp_path / "ledger")
    settings = {**SETTINGS, "namespace": namespace}
    with FairQueue(redis_url, brings_limits=False, namespace=namespace) as queue:
        killed = _play(earlier, ledger, {"url": redis_url, "settings": settings}, queue)
        assert not any(_left(queue))
        assert audit(queue.store.shards[0].engine) == []
        assert all(row.dead == 0 for row in queue.views.stats().workspaces)
    lines = ledger.lines()
    _check_releases(lines, earlier)
    _check_jobs(lines, killed)
    most = _most_at_once([line for line in lines if not _was_killed(line, lines)])
    assert {name: most[name] <= limit for name, limit in LIMITS.items()} == dict.fromkeys(
        LIMITS, True
    )


def _was_killed(line: Line, lines: list[Line]) -> bool:
    """Its process was killed while it ran: it has no end, and its lease went on for a while."""
    ended = {each["fence"] for each in lines if each["what"] == "ended"}
    return line["what"] == "started" and line["fence"] not in ended


def _check_releases(lines: list[Line], earlier: Path) -> None:
    files = {line["release"]: line["file"] for line in lines if line["what"] == "began"}
    assert files["earlier"].startswith(str(earlier))
    assert files["present"].startswith(str(ROOT))


def _check_jobs(lines: list[Line], killed: set[int]) -> None:
    """Check that each job was done, and again only if its process was killed before it said so."""
    done: dict[str, list[int]] = defaultdict(list)
    for line in sorted(lines, key=lambda each: each["at"]):
        if line["what"] == "ended" and line["done"]:
            done[line["job"]].append(line["pid"])
    published = {line["job"] for line in lines if line["what"] == "published"}
    assert published <= done.keys()
    assert [pids for pids in done.values() if not set(pids[:-1]) <= killed] == []
