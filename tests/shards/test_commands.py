"""Each command, given two servers: it shows both as one store, and acts where the job is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fairqueue import FairQueue
from fairqueue.cli._board import Board
from tests.metrics.scraping import fetch
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


def test_the_lists_have_the_jobs_of_both(shell: Shell) -> None:
    """Totals are sums, and each row is there once."""
    stats = shell.json("stats")
    assert {row["workspace"]: row["running"] for row in stats["workspaces"]} == {HERE: 2, THERE: 2}
    assert (stats["totals"]["waiting"], stats["totals"]["dead"]) == (2, 2)
    assert shell.url in shell.run("stats").stdout
    assert len(jobs_of(shell.json("ps")["running"])) == 4
    assert jobs_of(shell.json("jobs")["jobs"]) == {f"{HERE}-3", f"{THERE}-3"}
    [row] = shell.json("queues")["queues"]
    assert (row["queue"], row["waiting"], row["running"]) == ("q", 2, 4)
    [row] = shell.json("tasks")["tasks"]
    assert (row["task"], row["running"]) == ("send", 4)
    [row] = shell.json("workers")["workers"]
    assert row["running"] == 4


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


@pytest.mark.parametrize("workspace", [HERE, THERE])
def test_a_job_is_explained_on_either(shell: Shell, workspace: str) -> None:
    """With its limit, which its workspace has reached."""
    assert "2 of 2" in shell.run("why", f"{workspace}-3").stdout
    found = shell.json("workspace", workspace)
    assert found["running"] == 2
    assert "broken" in shell.run("dead", "show", f"{workspace}-0").stdout


@pytest.mark.parametrize("workspace", [HERE, THERE])
def test_operators_act_on_either(shell: Shell, queue: FairQueue, workspace: str) -> None:
    """Pause, resume, limits, cancel and purge of one workspace leave the other as it is."""
    other = {HERE: THERE, THERE: HERE}[workspace]
    shell.run("pause", "--workspace", workspace)
    [row] = shell.json("pauses")["pauses"]
    assert (row["name"], row["waiting"]) == (workspace, 1)
    shell.run("resume", "--workspace", workspace)
    shell.run("limits", "set", "--workspace", workspace, "concurrency=7")
    assert queue.admin.limits(workspace)["concurrency"].value == 7
    assert queue.admin.limits(other)["concurrency"].value == 2
    shell.run("limits", "unset", "--workspace", workspace)
    shell.run("cancel", f"{workspace}-1")
    shell.run("cancel", f"{workspace}-3")
    queue.publish(b"", queue="q", workspace=workspace, job_id="last")
    shell.run("purge", "--workspace", workspace, "--yes")

    assert jobs_of(shell.json("jobs")["jobs"]) == {f"{other}-3"}


def test_what_is_of_no_workspace_is_set_on_both(shell: Shell, queue: FairQueue) -> None:
    """A queue is paused, and purged, on both; a limit over both holds."""
    shell.run("pause", "--queue", "q")
    [row] = shell.json("pauses")["pauses"]
    assert (row["name"], row["waiting"]) == ("q", 2)
    assert not queue.claim(["q"], 9).leases
    shell.run("resume", "--queue", "q")
    assert not shell.json("pauses")["pauses"]
    shell.run("limits", "set", "--default", "concurrency=3")
    assert {row.limit for row in queue.admin.stats().workspaces} == {3}
    for scope in (["--total"], ["--queue", "q"], ["--task", "send"]):
        assert "9" in shell.run("limits", "set", *scope, "concurrency=9").output
    assert "9/s" in shell.run("limits", "set", "--task", "send", "rate=9").output
    refused = shell.run("limits", "set", "--default", "parent=org", code=2).output
    assert "parent" in refused
    shell.run("purge", "--queue", "q", "--yes")
    assert not shell.json("jobs")["jobs"]


def test_dead_letters_of_both(shell: Shell, queue: FairQueue) -> None:
    """They are listed, counted, replayed and purged as of one store."""
    assert jobs_of(shell.json("dead", "list")["dead_letters"]) == {f"{HERE}-0", f"{THERE}-0"}
    assert "2" in table(shell, "dead", "count")["broken"]
    shell.run("dead", "replay", f"{THERE}-0")
    assert jobs_of(shell.json("jobs", "--workspace", THERE)["jobs"]) == {f"{THERE}-0", f"{THERE}-3"}
    shell.run("dead", "purge", "--all", "--yes")
    assert not shell.json("dead", "list")["dead_letters"]


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


def test_top_has_the_workspaces_of_both(queue: FairQueue) -> None:
    """And explains one of either."""
    for name in (HERE, THERE):
        board = Board(queue, "here", why=name)
        board.look()
        assert board.overview is not None
        assert {row.workspace for row in board.overview.workspaces} == {HERE, THERE}
        assert "2 of 2" in " ".join(board.lines)


def test_metrics_are_sums_of_both(shell: Shell) -> None:
    """The command serves them at one address."""
    command = [sys.executable, "-m", "fairqueue.cli", "metrics", "--bind", "127.0.0.1:0"]
    where = {"FAIRQUEUE_URL": shell.url, "FAIRQUEUE_NAMESPACE": shell.namespace}
    with subprocess.Popen(
        command, env={**os.environ, **where}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = fetch(process.stdout.readline().split()[0])
        process.terminate()
    assert found["fairqueue_up",] == 1
    assert found["fairqueue_jobs_queued", "q"] == 2
    assert found["fairqueue_jobs_running", "q"] == 4
    assert {found["fairqueue_workspace_jobs_running", name] for name in (HERE, THERE)} == {2}


@pytest.mark.parametrize("wrong", ["one", "order", "number"])
def test_a_command_with_other_shards_is_refused(servers: Spread, shell: Shell, wrong: str) -> None:
    """With the reason, before it looks at anything."""
    first, second = servers.hosts.split(",")
    hosts = {"one": first, "order": f"{second},{first}", "number": servers.hosts}[wrong]
    query = "?shards=4" if wrong == "number" else ""
    other = Shell(f"redis://{hosts}/0{query}", shell.namespace)
    reason = "in the same order" if wrong == "order" else "are on 2 shards"
    assert reason in other.run("stats", code=2).output
