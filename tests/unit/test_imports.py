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
    "fairqueue._stores.memory",
)
OF_OTHERS = (
    "lupa",
    "opentelemetry.sdk",
    "prometheus_client",
    "starlette",
)


@pytest.mark.parametrize(
    ("statement", "most"),
    [("import fairqueue", 110), ("import fairqueue_celery.transport", 175)],
)
def test_workers_and_publishers_import_nothing_of_operators(statement: str, most: int) -> None:
    """Dashboards, metrics, test tools and the engine in memory are imported at their use."""
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*set(sys.modules) - before)"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.split()
    of_stock = ("celery", "kombu") if "celery" in statement else ()
    unwanted = OF_OPERATORS + (() if of_stock else OF_OTHERS)
    assert [name for name in found if name.startswith(unwanted)] == []
    own = [name for name in found if name.startswith("fairqueue")]
    assert len(own) <= most, f"{len(own)} modules: {sorted(own)}"
