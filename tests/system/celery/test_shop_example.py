"""The shop of the examples runs as a reader would run it: web, worker, load."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairqueue import FairQueue
from fairqueue.testing import Child, embedded_redis
from tests.nodes import free_port
from tests.system.ledger import wait_for

SHOP = Path(__file__).parents[3] / "examples" / "fastapi_shop"


@contextmanager
def _program(*words: str, env: dict[str, str], log: Path) -> Iterator[None]:
    child = Child([sys.executable, "-m", *words], env=env, cwd=SHOP, log=log)
    try:
        yield
    finally:
        child.end()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _order(url: str, org: str, *, seconds: float) -> int:
    order = f"{url}/orgs/{org}/reports?month=May&seconds={seconds}"
    try:
        with urllib.request.urlopen(urllib.request.Request(order, method="POST")) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_a_flood_is_refused_and_the_others_are_served(tmp_path: Path) -> None:
    """One customer runs two and has a hundred waiting: more is refused, and others do not wait."""
    port = str(free_port())
    url, log = f"http://127.0.0.1:{port}", tmp_path / "worker"
    with embedded_redis(tcp=True) as server:
        env = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "REDIS": f"{server.tcp_address}/0",
            "SHOP": url,
        }
        with (
            _program("uvicorn", "web:web", "--port", port, env=env, log=tmp_path / "web"),
            _program("celery", "-A", "tasks", "worker", "-c", "8", "-l", "info", env=env, log=log),
        ):
            wait_for(lambda: _answers(f"{url}/healthz"), seconds=60)
            wait_for(lambda: " ready." in log.read_text(), seconds=60)
            assert [_order(url, "megacorp", seconds=60) for _ in range(2)] == [202, 202]
            wait_for(lambda: log.read_text().count("received") == 2, seconds=60)
            orders = [_order(url, "megacorp", seconds=0) for _ in range(101)]
            assert (set(orders[:100]), orders[-1]) == ({202}, 429)
            load = subprocess.run(
                [sys.executable, "load.py", "1"],
                cwd=SHOP, env=env, capture_output=True, text=True, timeout=60, check=True,
            )  # fmt: skip
            assert "megacorp: 20 of 20 refused; the others: [202, 202, 202]" in load.stdout
            wait_for(lambda: log.read_text().count("succeeded in") >= 3, seconds=20)
            with FairQueue(f"redis://{server.tcp_address}/0", brings_limits=False) as queue:
                assert queue.depth("celery", running=True) == 102
