"""What a process imports: a worker pays at each start, and a publisher before its first job."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.pages import ROOT

OF_OPERATORS = (
    "fairqueue.audit",
    "fairqueue.cli",
    "fairqueue.dashboard",
    "fairqueue.demo",
    "fairqueue.metrics",
    "fairqueue.testing",
    "fairqueue._reports",
    "fairqueue._stores.explain",
    "fairqueue._stores.fleet",
    "fairqueue._stores.memory",
    "fairqueue.buffer.spool",
    "fairqueue.explained",
    "fairqueue.operate.views",
    "fairqueue.rows",
)
OF_OTHERS = (
    "lupa",
    "opentelemetry.sdk",
    "prometheus_client",
    "sqlite3",
    "starlette",
    "zipfile",
)


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("import fairqueue", 91),
        ("import fairqueue\nfairqueue.FairQueue('redis://localhost')", 107),
        ("import fairqueue_celery.transport", 153),
    ],
)
def test_workers_and_publishers_import_nothing_of_operators(statement: str, most: int) -> None:
    """Lists, reasons, dashboards, metrics, test tools, the engine in memory: imported when used."""
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*set(sys.modules) - before)"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.split()
    unwanted = OF_OPERATORS + (OF_OTHERS if statement == "import fairqueue" else ())
    assert [name for name in found if name.startswith(unwanted)] == []
    own = [name for name in found if name.startswith("fairqueue")]
    assert len(own) <= most, f"{len(own)} modules: {sorted(own)}"


WORKER = """
import sys
import fairqueue
from fairqueue.adapters import FailureReporter
queue = fairqueue.FairQueue(sys.argv[1], namespace=sys.argv[2])
queue.presence.describe("celery@host", software="celery/5.6", tasks=lambda: ["work"])
queue.claim(["default"])
queue.publish(b"", workspace="acme", queue="default", task="work")
FailureReporter(queue, lambda: ["default"], print).look()
print(*sys.modules)
"""


def test_a_worker_that_waits_and_publishes_imports_nothing_of_operators(
    redis_url: str, namespace: str
) -> None:
    """It claims, tells its tasks, asks which tasks are known, and looks for failed jobs."""
    found = subprocess.run(
        [sys.executable, "-c", WORKER, redis_url, namespace],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout.split()
    assert [name for name in found if name.startswith(OF_OPERATORS)] == []
