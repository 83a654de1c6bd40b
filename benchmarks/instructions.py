"""Instructions of the Redis process for each operation, counted by callgrind (Debian's valgrind).

They are the same to some per cent whatever else the machine does, so one run is enough. Payloads
have 700 bytes; one job of one worker at a time, or eights where it says so.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis

from fairqueue import FairQueue
from fairqueue.adapters import Finish

PAYLOAD = b"x" * 700
START_SECONDS = 60.0
DUMP_SECONDS = 20.0
OF_THE_BENCHMARK = ("info", "config", "ping")
Act = Callable[[], object]


@dataclass(frozen=True)
class Counted:
    """What one operation costs for each job."""

    operation: str
    instructions: int
    commands: float
    goal: int


class Server:
    """A Redis server under callgrind, which counts only while something is measured."""

    def __init__(self, folder: Path) -> None:
        self._out, socket = folder / "out", folder / "s"
        options = f"--port 0 --unixsocket {socket} --save --appendonly no --hz 1 --dir {folder}"
        counting = f"--tool=callgrind --instr-atstart=no --callgrind-out-file={self._out} -q"
        words = ["valgrind", *counting.split(), "redis-server", *options.split()]
        words.insert(words.index("--save") + 1, "")
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"unix://{socket}"
        self.client = redis.Redis.from_url(self.url)
        self._await(self._answers, START_SECONDS, "the server does not start under valgrind")

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    @staticmethod
    def _await(is_so: Callable[[], bool], seconds: float, otherwise: str) -> None:
        until = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > until:
                raise TimeoutError(otherwise)
            time.sleep(0.05)

    def _control(self, *words: str) -> None:
        command = ["callgrind_control", *words, str(self.process.pid)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _dumps(self) -> list[Path]:
        return sorted(self._out.parent.glob("out.*"), key=lambda path: path.stat().st_mtime_ns)

    def count(self, act: Act, calls: int, jobs: int) -> tuple[int, float]:
        """Return instructions and commands for each job of these calls."""
        self.client.config_resetstat()
        self._control("-i", "on")
        self._control("-z")
        for _ in range(calls):
            act()
        before = len(self._dumps())
        self._control("--dump=counted")
        self._await(lambda: len(self._dumps()) > before, DUMP_SECONDS, "callgrind does not answer")
        self._control("-i", "off")
        found = re.search(
            r"^(?:totals|summary): (\d+)", self._dumps()[-1].read_text(), re.MULTILINE
        )
        assert found
        stats: dict[str, dict[str, Any]] = self.client.info("commandstats")
        names = {name: name.removeprefix("cmdstat_").partition("|")[0] for name in stats}
        ran = sum(stats[name]["calls"] for name in stats if names[name] not in OF_THE_BENCHMARK)
        return round(int(found[1]) / calls / jobs), ran / calls / jobs


@contextmanager
def _server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="fairqueue-") as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.process.terminate()
            server.process.wait()


def _publish(queue: FairQueue, workspace: str) -> None:
    queue.publish(PAYLOAD, queue="q", workspace=workspace, task="t")


def _turns(queue: FairQueue, n: int) -> Act:
    """Finish what runs and claim as many."""
    leases: list[Any] = []

    def turn() -> None:
        finishes = [Finish(lease.fence, seconds=0.002) for lease in leases]
        leases[:] = queue.claim(["q"], n, finishes=finishes).leases
        assert len(leases) == n

    for _ in range(5):
        turn()
    return turn


LIMITS = {"workspace_capacity": 10**6, "workspace_concurrency": 10**4}
CLAIMS: tuple[tuple[str, int, dict[str, int], int, int], ...] = (
    ("finish and claim", 1, {}, 3, 440_000),
    ("finish and claim, by eights", 8, {}, 3, 225_000),
    ("finish and claim with limits", 1, LIMITS, 3, 450_000),
    ("beside 100 workspaces", 1, {}, 100, 480_000),
    ("one job per workspace, by eights", 8, {}, 10**6, 280_000),
)
"""Name, jobs of a call, settings, workspaces, goal."""


def _measured(server: Server, calls: int) -> Iterator[Counted]:
    opened: list[FairQueue] = []

    def queue(**settings: Any) -> FairQueue:
        opened.append(FairQueue(server.url, namespace=f"n{len(opened)}", **settings))
        return opened[-1]

    def counted(name: str, act: Act, goal: int, jobs: int = 1, turns: int = calls) -> Counted:
        return Counted(name, *server.count(act, turns, jobs), goal)

    for name, settings, goal in (
        ("publish behind others", {}, 55_000),
        ("publish with a capacity and a limit", LIMITS, 70_000),
    ):
        one = queue(**settings)
        for _ in range(20):
            _publish(one, "w")
        yield counted(name, lambda one=one: _publish(one, "w"), goal)  # type: ignore[misc]
    one, names = queue(), (f"w{n}" for n in range(10**6))
    _publish(one, next(names))
    yield counted("publish to an idle workspace", lambda: _publish(one, next(names)), 200_000)
    for name, n, settings, workspaces, goal in CLAIMS:
        one = queue(**settings)
        for i in range(n * (calls + 10)):
            _publish(one, f"w{i % workspaces}")
        yield counted(name, _turns(one, n), goal, jobs=n)
    idle = queue()

    def life() -> None:
        _publish(idle, "w")
        (lease,) = idle.claim(["q"]).leases
        idle.claim(["q"], finishes=[Finish(lease.fence, seconds=0.002)])

    life()
    yield counted("a claim that finds nothing", lambda: idle.claim(["q"]), 120_000)
    yield counted("a job on an idle system, and an empty claim", life, 700_000)
    renewing = queue()
    for i in range(100):
        _publish(renewing, f"w{i % 5}")
    leases = renewing.claim(["q"], 100).leases
    renewed = [(lease.fence, 0.1) for lease in leases]
    act = lambda: renewing.renew(renewed)  # noqa: E731
    yield counted("renewal of 100 leases", act, 6_000_000, turns=max(2, calls // 10))
    for each in opened:
        each.close()


def main() -> None:
    """Print what each operation costs, and its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few calls of each")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: apt-get install valgrind")
    with _server() as server:
        rows = []
        for row in _measured(server, 10 if given.smoke else 100):
            rows.append(row)
            if not given.json:
                ratio = row.instructions / row.goal
                print(
                    f"{row.operation:<45}{row.instructions:>12,} instructions"
                    f"{row.commands:>8.1f} commands   goal {row.goal:>9,} ({ratio:.2f} ×)",
                    flush=True,
                )
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
