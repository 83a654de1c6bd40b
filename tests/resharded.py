"""Jobs are published while ``fairqueue reshard`` runs, as on a live system."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise

from fairqueue import FairQueue
from tests.system.ledger import Ledger, wait_for

WORKSPACES = [f"workspace-{n}" for n in range(16)]
PAUSE_SECONDS = 0.01
KILLS = 2


def reshard(url: str, namespace: str, *options: str) -> subprocess.Popen[str]:
    """Start the command."""
    command = [sys.executable, "-m", "fairqueue.cli", "reshard", "--url", url]
    return subprocess.Popen(
        [*command, "--namespace", namespace, "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def play(
    url: str, namespace: str, publish: Callable[[int, str], object], *path: int
) -> list[tuple[str, int]]:
    """Change the number of shards along a path; return each workspace and job that was published.

    The command is killed twice while workspaces move, and started again.
    """
    sent: list[tuple[str, int]] = []

    def send() -> None:
        n = len(sent)
        sent.append((WORKSPACES[n * 7 % len(WORKSPACES)], n))
        publish(n, sent[-1][0])
        time.sleep(PAUSE_SECONDS)

    for shards, to in pairwise(path):
        for kills in range(KILLS + 1):
            process = reshard(f"{url}?shards={shards}", namespace, "--to", str(to))
            with FairQueue(f"{url}?shards={shards}", namespace=namespace) as queue:
                first = queue.store.shards[0].engine
                limits, moved = (first.keys.key(kind) for kind in ("limits", "moved"))
                while process.poll() is None:
                    send()
                    if kills < KILLS and first.command("HEXISTS", limits, "moves"):
                        process.kill()
                        process.wait()  # else the next publish might wait for what it has left
                said = process.communicate()
                if kills < KILLS:
                    first.command("HDEL", moved, "")  # not for 30 s
        assert process.returncode == 0, said
    return sent


def judge(ledger: Ledger, sent: list[tuple[str, int]]) -> None:
    """Each job ran, once, and never two of a workspace."""
    wait_for(lambda: len(ledger.lines("end")) >= len(sent))
    assert sorted((row["workspace"], row["n"]) for row in ledger.lines("start")) == sorted(sent)
    assert {name: ledger.most_at_once(workspace=name) for name in WORKSPACES} == dict.fromkeys(
        WORKSPACES, 1
    )
