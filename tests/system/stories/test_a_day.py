"""What an operator meets, with real workers: the command line names the cause, and cures it.

Each story takes at most three commands, and they stand in ``docs/operate/day.md`` as they are run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fairqueue import CapacityExceeded, Scope
from fairqueue.testing import embedded_redis
from tests.system.ledger import wait_for
from tests.system.stories.conftest import TASK, DramatiqOffice, Operator

pytestmark = pytest.mark.story

MOST_COMMANDS = 3


def test_acmes_jobs_do_not_start(office: Any, operator: Operator) -> None:
    """The queue is paused, then acme is at its limit, then the task is at its own."""
    office.worker("reports", 8).ready()
    with office.core() as colleague:
        colleague.pauses.pause(Scope.queue("reports"))
        office.send(1, "acme", seconds=60)
        told = operator.run("fairqueue workspace acme")
        assert "paused: queue reports" in told
        assert "to resume it: fairqueue resume --queue reports" in told
        operator.run("fairqueue resume --queue reports")
        office.ledger.wait("start", 1, n=1)

        colleague.limits.set(Scope.workspace("acme"), concurrency=1)
        office.send(2, "acme", seconds=60)
        wait_for(lambda: "concurrency limit" in operator.run("fairqueue workspace acme"))
        told = operator.run("fairqueue workspace acme")
        assert "concurrency limit: workspace acme runs 1 of 1" in told
        assert "to raise it: fairqueue limits set concurrency=N --workspace acme" in told
        operator.run("fairqueue limits set concurrency=4 --workspace acme")
        office.ledger.wait("start", 1, n=2)

        colleague.limits.set(Scope.task(TASK), concurrency=2)
        office.send(3, "acme")
        wait_for(lambda: "concurrency limit" in operator.run("fairqueue workspace acme"))
        told = operator.run("fairqueue workspace acme")
        assert f"concurrency limit: task {TASK}, in all workspaces runs 2 of 2" in told
        assert f"to raise it: fairqueue limits set concurrency=N --task {TASK}" in told
        operator.run(f"fairqueue limits set concurrency=20 --task {TASK}")
        office.ledger.wait("end", 1, n=3)


def test_acmes_jobs_are_nowhere(office: Any, operator: Operator) -> None:
    """No worker takes their queue; or they are under another name, or under none."""
    office.send(1, "acme", queue="exports")
    office.worker("reports", 2).ready()
    office.send(2, None, queue="reports")
    office.ledger.wait("end", 1)
    told = operator.run("fairqueue workspace ACME")
    assert "names the workspace 'ACME' now; did you mean 'acme'?" in told
    assert "1 job named no workspace and went to 'default', the last at " in told
    assert told.splitlines()[1].endswith(": fairqueue workspace default")
    assert f"1 job of task {TASK}" in operator.run("fairqueue workspace default")

    named = "no worker: no living process takes jobs from queue exports"
    told = operator.run("fairqueue workspace acme")
    assert named in told
    assert "start a worker that takes this queue" in told
    office.worker("exports", 1)
    office.ledger.wait("end", 1, n=1)


def test_jobs_wait_in_default(office: Any, operator: Operator) -> None:
    """They are seen by their task, bounded, and cancelled; the mended producer's jobs run."""
    for n in range(3):
        office.send(n, None, seconds=60)
    assert f"3 jobs of task {TASK}, the last at" in operator.run("fairqueue workspace default")
    listed = operator.run("fairqueue jobs --workspace default")
    assert listed.count(TASK) == 3
    operator.run("fairqueue limits set concurrency=1 --workspace default")
    assert len(operator.commands) <= MOST_COMMANDS
    office.worker("reports", 2).ready()
    office.ledger.wait("start", 1)
    office.send(10, "acme")
    office.ledger.wait("end", 1, n=10)
    assert len(office.ledger.lines("start")) == 2

    told = operator.run("fairqueue cancel --workspace default --yes")
    assert "2 jobs removed" in told
    wait_for(lambda: "0 waiting" in operator.run("fairqueue workspace default"))
    for n in range(3):
        office.send(n, "acme")
    office.ledger.wait("end", 1, workspace="acme", n=2)


def test_one_workspace_floods_us(office: Any, operator: Operator) -> None:
    """Others go on; the flood is seen, bounded, and taken away."""
    office.worker("reports", 2).ready()
    for n in range(100):
        office.send(n, "flood", seconds=0.5)
    office.send(1000, "acme")
    office.ledger.wait("end", 1, n=1000)
    assert len(office.ledger.lines("end", workspace="flood")) < 50

    row = operator.run("fairqueue stats --top 3").splitlines()[3]
    assert row.startswith("flood ")
    operator.run("fairqueue limits set concurrency=1 capacity=20 --workspace flood")
    with pytest.raises(CapacityExceeded, match="flood"):
        office.send(1001, "flood")
    assert "jobs purged" in operator.run("fairqueue purge --workspace flood --yes")
    assert len(operator.commands) <= MOST_COMMANDS
    office.send(1002, "flood")
    office.ledger.wait("end", 1, n=1002)


def test_a_deploy_poisoned_jobs(office: Any, operator: Operator) -> None:
    """What the bad release has failed is counted by its error, and replayed on the good one."""
    bad = office.worker("reports", 2, release="bad", keep_failures=True).ready()
    for n in range(4):
        office.send(n, ("acme", "globex")[n % 2])
    with office.core() as core:
        wait_for(lambda: sum(row.count for row in core.dead.count()) == 4)

    told = operator.run("fairqueue dead count --since 1h")
    assert TASK in told
    assert "LookupError: no such column: total" in told
    assert bad.stop() == 0
    office.worker("reports", 2, keep_failures=True).ready()
    told = operator.run(f"fairqueue dead replay --all --task {TASK} --since 1h --yes")
    assert "4 jobs replayed" in told
    office.ledger.wait("end", 4)
    assert operator.run("fairqueue dead count --since 1h") == "No dead letters.\n"
    assert len(operator.commands) <= MOST_COMMANDS


def test_redis_is_at_95_percent(namespace: str, tmp_path: Path) -> None:
    """``doctor`` tells so, ``stats`` tells whose jobs they are; drain and purge act at once.

    So it is with a policy that drops jobs; the worker goes on, and tells so, too.
    """
    with embedded_redis() as server:
        office = DramatiqOffice(server, namespace, tmp_path)
        operator, client = Operator(office), server.client()
        try:
            worker = office.worker("reports", 1, lease_seconds=5).ready()
            office.send(1, "acme", seconds=1)
            for n in range(300):
                office.send(n + 2, "flood", text="x" * 100_000, seconds=60)
            client.config_set("maxmemory", int(client.info("memory")["used_memory"] / 0.97))
            told = operator.run("fairqueue doctor", code=1)
            assert re.search(
                "of maxmemory: it (will refuse|refuses) publishes; see whose jobs", told
            )
            assert operator.run("fairqueue stats --top 5").splitlines()[3].startswith("flood ")
            operator.run("fairqueue drain --workspace flood --no-wait")
            assert len(operator.commands) <= MOST_COMMANDS
            with pytest.raises(CapacityExceeded, match="drain"):
                office.send(200, "flood")

            assert "jobs purged" in operator.run("fairqueue purge --workspace flood --yes")
            wait_for(lambda: " refuse" not in operator.run("fairqueue doctor"))
            office.ledger.wait("end", 1, n=1)
            operator.run("fairqueue limits set capacity=1000 --workspace flood")
            operator.run("fairqueue resume --workspace flood")
            office.send(201, "flood")

            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "allkeys-lru")
            wait_for(lambda: "would drop jobs when it is full: set" in worker.log.read_text())
            assert "would drop jobs" in operator.run("fairqueue doctor", code=1)
            office.ledger.wait("end", 1, n=201)
        finally:
            office.close()


def test_workers_are_scaled_by_what_waits(office: Any, operator: Operator) -> None:
    """More slots are wanted than there are: a worker more; what a limit holds back wants none."""
    with office.core() as colleague:
        colleague.limits.set(Scope.workspace("slow"), concurrency=1)
    first = office.worker("reports", 1).ready()
    for n in range(20):
        office.send(n, f"w{n % 4}", seconds=1.0) if n < 8 else office.send(n, "slow", seconds=0.1)
    office.ledger.wait("start", 1)
    waiting, _, wanted, slots = wait_for(lambda: [n for n in [_reports(operator)] if n[3]])[0]
    assert slots == 1
    assert wanted < waiting  # at most one job of slow
    office.worker("reports", 3).ready()
    wait_for(lambda: _reports(operator)[3] == 4)
    office.ledger.wait("end", 20)
    wait_for(lambda: not _reports(operator)[1])
    assert _reports(operator) == [0, 0, 0, 4]
    assert first.stop() == 0
    assert _reports(operator)[3] == 3
    office.send(20, "w1")
    office.ledger.wait("end", 1, n=20)
    assert len(office.ledger.lines("start")) == 21


def _reports(operator: Operator) -> list[int]:
    """What waits and runs, the slots that are wanted, and those that there are."""
    row = next(r for r in operator.run("fairqueue queues").splitlines() if r.startswith("reports "))
    return [int(number) for number in row.split()[1:5]]
