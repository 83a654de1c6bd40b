"""Commands that explain why jobs wait, and which limits are in force."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fairqueue import FairQueue, Scope
from tests.unit.conftest import Shell

NASTY = "acme\x1b[2J\n"


@pytest.fixture
def queue(redis_url: str, namespace: str) -> Iterator[FairQueue]:
    """Three jobs of a workspace with a nasty name, whose limit is one; the first runs."""
    with FairQueue(redis_url, namespace=namespace, workspace_concurrency=1) as queue:
        for n in range(3):
            queue.publish(b"", queue="q", workspace=NASTY, task="send \x1b", job_id=f"j{n}\x1b")
        queue.claim(["q"], 1)
        yield queue


def _sources(found: dict[str, Any]) -> dict[str, tuple[float | str, str]]:
    return {name: (limit["value"], limit["source"]) for name, limit in found["limits"].items()}


@pytest.mark.usefixtures("queue")
def test_a_workspace(shell: Shell) -> None:
    """Its limits and their sources, its counts, and what blocks it."""
    found = shell.json("workspace", NASTY)
    assert _sources(found) == {"concurrency": (1, "default")}
    assert (found["state"], found["waiting"], found["running"]) == ("waiting", 2, 1)
    (blocker,) = found["blockers"]
    assert (blocker["kind"], blocker["scope"], blocker["used"]) == ("concurrency", "workspace", 1)
    text = shell.run("workspace", NASTY).stdout
    assert "2 waiting, 0 scheduled, 1 running, 0 dead" in text
    assert "concurrency limit: workspace acme\\x1b[2J\\n runs 1 of 1" in text


def test_a_job(shell: Shell, queue: FairQueue) -> None:
    """Each state has a sentence; an unknown job is exit code 1."""
    assert "1 job of its workspace ahead" in shell.run("why", "j2\x1b").stdout
    assert shell.json("why", "j1\x1b")["positions"][0]["jobs_ahead"] == 0
    assert "running for" in shell.run("why", "--task-id", "j0\x1b").stdout
    shell.run("why", "j0\x1b", "--task-id=j1\x1b", code=2)
    shell.run("why", code=2)
    late = queue.publish(b"", queue="q", workspace="b", delay_seconds=500)
    assert "scheduled: due in" in shell.run("why", late).stdout
    assert shell.json("why", "never \x1b", code=1)["state"] == "unknown"
    unknown = shell.run("why", "never \x1b", code=1).stdout
    assert "no such job" in unknown


def test_every_blocker_has_a_sentence(shell: Shell, queue: FairQueue) -> None:
    """A pause, a rate, and every level that is at its limit."""
    queue.limits.set(Scope.workspace(NASTY), parent="org", rate=0.001)
    queue.limits.set(Scope.workspace("org"), concurrency=1)
    queue.limits.set(Scope.task("send \x1b"), concurrency=1, workspace_concurrency=1, rate=0.001)
    queue.limits.set(Scope.queue("q"), concurrency=1)
    queue.limits.set(Scope.total(), concurrency=1)
    queue.pauses.pause(Scope.total())
    blockers = shell.json("why", "j1\x1b")["blockers"]
    scopes = {(blocker["kind"], blocker["scope"]) for blocker in blockers}
    at_limit = ("workspace", "workspace_task", "task", "group", "queue", "total")
    assert {("concurrency", scope) for scope in at_limit} <= scopes
    assert ("pause", "total") in scopes
    text = shell.run("why", "j1\x1b").stdout
    assert "paused: everything" in text
    assert text.count("concurrency limit: ") == 6
    for remedy in (
        "to resume it: fairqueue resume --all",
        "to raise it: fairqueue limits set concurrency=N --workspace 'acme\\x1b[2J\\n'",
        "to raise it: fairqueue limits set concurrency=N --workspace org",
        "to raise it: fairqueue limits set concurrency=N --task 'send \\x1b'",
        "to raise it: fairqueue limits set workspace_concurrency=N --task 'send \\x1b'",
        "to raise it: fairqueue limits set concurrency=N --queue q",
        "to raise it: fairqueue limits set concurrency=N --total",
    ):
        assert f"    {remedy}\n" in text


def test_an_empty_workspace_may_be_another_one(
    shell: Shell, redis_url: str, namespace: str
) -> None:
    """The name that is meant, and jobs that named none, are told beside the output."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        queue.publish(b"", queue="q", workspace="acme")
        queue.publish(b"", queue="q", task="mail")
        told = shell.run("workspace", "acmee").stderr
        assert "did you mean 'acme'?" in told
        assert re.search(
            r"1 job named no workspace and went to 'default', the last at .*: fairqueue w", told
        )
        assert shell.run("workspace", "acme").stderr == ""


def test_a_rate_has_a_sentence(shell: Shell, queue: FairQueue) -> None:
    """With the time of the next start, and the rate as settings take it."""
    queue.limits.set(Scope.workspace("r"), rate="36/h")
    for _ in range(2):
        queue.publish(b"", queue="other", workspace="r")
    queue.claim(["other"], 1)
    text = shell.run("workspace", "r").stdout
    assert re.search(r"rate limit of 36/h: workspace r, for [\d.]+ m?s; next start in 1 m", text)
    assert "    to raise it: fairqueue limits set rate=N/m --workspace r\n" in text


def test_observed_limits(shell: Shell, redis_url: str, namespace: str) -> None:
    """They are listed apart from blockers, with counts; stats has columns for them."""
    limits: dict[str, Any] = {"workspace_concurrency": 1, "workspace_capacity": 2}
    with FairQueue(redis_url, namespace=namespace, enforce="observe", **limits) as queue:
        for _ in range(4):
            queue.publish(b"", queue="q", workspace="a")
        queue.claim(["q"], 2)
    found = shell.json("workspace", "a")
    counts = {"starts": 1, "concurrency.workspace": 1, "publishes": 2, "capacity.workspace": 2}
    assert found["observed"] == counts
    assert [one["kind"] for one in found["blockers"]] == ["worker"]  # it was closed
    text = shell.run("workspace", "a").stdout
    assert "limits are observed, not enforced; exceeded so far: capacity.workspace 2" in text
    assert "would block: concurrency limit: workspace a runs 2 of 1" in text
    _, observing, head, *_ = shell.run("stats").stdout.splitlines()
    assert observing == "limits are observed, not enforced"
    assert head.endswith("would block  would reject")
    assert shell.json("stats")["observing"] is True
    (row,) = shell.json("stats")["workspaces"]
    assert (row["would_block"], row["would_reject"]) == (1, 2)


@pytest.mark.parametrize(
    "scope", [("--workspace", NASTY), ("--task", "t \x1b"), ("--queue", "q\n"), ("--total",)]
)
def test_limits_are_set_read_and_unset(shell: Shell, scope: tuple[str, ...]) -> None:
    """Each command prints the limits in force, with their sources."""
    found = shell.json("limits", "set", "concurrency=3", *scope)
    assert _sources(found) == {"concurrency": (3, "live")}
    assert found["limits"]["concurrency"]["stored_by"].endswith(f":{os.getpid()}")
    assert " UTC by " in shell.run("limits", "get", *scope).stdout
    assert shell.json("limits", "unset", *scope)["limits"] == {}
    assert "no limit" in shell.run("limits", "get", *scope).stdout


def test_all_limits_are_shown_and_configured_ones_unset(shell: Shell, queue: FairQueue) -> None:
    """Of every scope and source, with when and by which process each was stored."""
    queue.limits.set(Scope.workspace(NASTY), rate="5/m")
    found = shell.json("limits", "get")["limits"]
    assert [(row["scope"], row["source"]) for row in found] == [
        ("default", "configured"),
        ("workspace", "live"),
    ]
    text = shell.run("limits", "get").stdout
    assert "acme\\x1b" in text
    assert "5/m" in text
    assert f":{os.getpid()}" in text
    assert shell.json("limits", "unset", "--configured") == {"configured": {}}
    assert len(shell.json("limits", "get")["limits"]) == 1
