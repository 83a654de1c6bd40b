"""Runs each of kombu's tests on both brokers and compares the outcomes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.kombu_own.differences import DIFFERENCES, FEWEST_ON_STOCK

STOCK, OURS = "redis", "fairqueue"

_outcomes: dict[str, dict[str, str]] = defaultdict(dict)
"""The outcome on each broker, by test without the broker in its parameters."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks of kombu's tests."""
    for mark in ("env(name): kombu's own", "flaky(reruns, reruns_delay): kombu's own"):
        config.addinivalue_line("markers", mark)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome: the worst of set-up, call and tear-down."""
    name, _, parameters = report.nodeid.rpartition("::")[2].partition("[")
    owner = report.nodeid.split("::")[-2]
    parts = parameters.rstrip("]").split("-")
    broker = next((part for part in parts if part in {STOCK, OURS}), None)
    rest = "-".join(part for part in parts if part != broker)
    if broker is not None:
        seen = _outcomes[f"{owner}::{name}" + (f"[{rest}]" if rest else "")]
        if seen.get(broker, "passed") == "passed":
            seen[broker] = report.outcome


def _problems() -> Iterator[str]:
    passed = [test for test, seen in _outcomes.items() if seen.get(STOCK) == "passed"]
    if len(passed) < FEWEST_ON_STOCK:
        yield f"only {len(passed)} tests pass on redis://, {FEWEST_ON_STOCK} are expected"
    differ = {test for test, seen in _outcomes.items() if seen.get(STOCK) != seen.get(OURS)}
    for test in sorted(differ):
        if test.partition("[")[0] not in DIFFERENCES:
            yield f"{test}: {_outcomes[test]}, and no reason is given in differences.py"
    for test in sorted(set(DIFFERENCES) - {test.partition("[")[0] for test in differ}):
        yield f"{test}: differences.py names it, and it is no difference"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the comparison decide; a test may fail on both brokers."""
    if _outcomes:
        session.exitstatus = 1 if list(_problems()) else 0


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts, each known difference with its reason, and what is unexpected."""
    if not _outcomes:
        return  # a run of other tests, which has collected this folder
    for broker in (STOCK, OURS):
        passed = sum(seen.get(broker) == "passed" for seen in _outcomes.values())
        terminalreporter.line(f"{broker}://  {passed} of {len(_outcomes)} passed")
    for test, reason in sorted(DIFFERENCES.items()):
        terminalreporter.line(f"known difference: {test}: {reason}")
    for problem in _problems():
        terminalreporter.line(f"PROBLEM: {problem}", red=True)
