"""Each command, given two servers: it shows both as one store, and acts where the job is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from fairqueue import FairQueue
from tests.nodes import Spread, spread
from tests.unit.conftest import Shell

HERE, THERE = "workspace-1", "workspace-0"
"""One on the first server, one on the second."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Spread]:
    with spread() as pair:
        assert [pair.workspaces(n, 1) for n in range(2)] == [[HERE], [THERE]]
        yield pair


@pytest.fixture
def queue(servers: Spread, namespace: str) -> Iterator[FairQueue]:
    """On each server four jobs, of which one waits, two run and one is dead."""
    with FairQueue(servers.url, namespace=namespace, workspace_concurrency=2) as queue:
        for n in range(4):
            for name in (HERE, THERE):
                queue.publish(b"", queue="q", workspace=name, task="send", job_id=f"{name}-{n}")
        for lease in queue.claim(["q"], 4).leases:
            if lease.job.id.endswith("-0"):
                queue.reject(lease, reason="broken")
        queue.claim(["q"], 2)
        yield queue


@pytest.fixture
def shell(servers: Spread, namespace: str, queue: FairQueue) -> Shell:
    return Shell(servers.url, namespace)


def table(shell: Shell, *command: str) -> dict[str, list[str]]:
    """The rows that a command prints, by their first cell."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in shell.run(*command).stdout.splitlines())
    return {row[0]: row[1:] for row in rows}


def jobs_of(found: list[dict[str, Any]]) -> set[str]:
    return {row.get("job_id") or row["job"] for row in found}


def test_a_page_goes_on_at_the_next_server(shell: Shell, queue: FairQueue) -> None:
    """Each page names the next, until all jobs were shown once."""
    for n in range(4, 9):
        for name in (HERE, THERE):
            queue.publish(b"", queue="q", workspace=name, job_id=f"{name}-{n}")
    shown: list[str] = []
    page = shell.json("jobs", "--limit", "2")
    while True:
        shown += [row["job_id"] for row in page["jobs"]]
        if not page["cursor"]:
            break
        page = shell.json("jobs", "--limit", "2", "--cursor", page["cursor"])
    assert sorted(shown) == sorted(f"{name}-{n}" for name in (HERE, THERE) for n in range(3, 9))


def test_the_doctor_looks_at_both_servers(shell: Shell, servers: Spread, namespace: str) -> None:
    """It names each, and the shard of what it finds and mends."""
    found = shell.json("doctor")
    assert found["findings"] == []
    told = " ".join(row["text"] for row in found["remarks"] if row["about"] == "server")
    assert all(f"127.0.0.1:{node.port}" in told for node in servers.nodes)
    servers.nodes[1].run("DEL", f"{{{namespace}:1}}:expiry")
    findings = shell.json("doctor", code=1)["findings"]
    assert {finding["text"].partition(":")[0] for finding in findings} == {"shard 1"}
    shell.run("doctor", "--repair")
    assert shell.json("doctor")["findings"] == []


@pytest.mark.parametrize("wrong", ["one", "order", "number"])
def test_a_command_with_other_shards_is_refused(servers: Spread, shell: Shell, wrong: str) -> None:
    """With the reason, before it looks at anything."""
    first, second = servers.hosts.split(",")
    hosts = {"one": first, "order": f"{second},{first}", "number": servers.hosts}[wrong]
    query = "?shards=4" if wrong == "number" else ""
    other = Shell(f"redis://{hosts}/0{query}", shell.namespace)
    reason = "in the same order" if wrong == "order" else "are on 2 shards"
    assert reason in other.run("stats", code=2).output
