"""(o) Calls of Python functions: a publish, and a run in a prefork child. No time: no noise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.turns import own_server

TESTS = Path(__file__).parent.parent / "tests" / "integrations"
"""The tests that hold these figures count them."""
ABOVE_STOCK = Target(at_most=8, absolute=True)


def measure(options: Options, progress: Progress) -> Report:  # noqa: ARG001 - it has one size
    """Count once: the figures do not vary."""
    work = progress.start("(o) calls", 2)
    with own_server() as server:
        publish = _counted("test_publish_calls.py", f"redis://{server.tcp_address}/0", "bench")
    work.step()
    run = _counted("celery/test_run_calls.py")
    work.step()
    work.done()
    child = [run["calls"] - run["of Celery"]]
    rows = [
        _publish("Celery, .delay()", publish["delay"], publish["delay of Celery"]),
        _publish("Dramatiq, .send()", publish["send"], publish["send of Dramatiq"]),
        Row("a child's run, above stock's", "calls", child, [run["of Celery"]], ABOVE_STOCK),
    ]
    return Report("(o) calls of Python functions", "fairqueue", "stock", rows)


def _publish(what: str, ours: list[int], stock: list[int]) -> Row:
    return Row(what, "calls", ours[:1], stock[:1])


def _counted(script: str, *arguments: str) -> Any:
    command = [sys.executable, str(TESTS / script), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, cwd=TESTS.parent.parent)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main(measure)
