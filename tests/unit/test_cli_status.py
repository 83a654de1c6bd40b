"""``fairqueue status``, its reasons and the exit code of a probe; and ``fairqueue doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from fairqueue import DeadLetter, FairQueue, Job, Pause, Scope
from fairqueue._keys import Keys
from fairqueue.audit import Level, Remark, Status, remarks
from fairqueue.rows import (
    Demand,
    PauseRow,
    QueueRow,
    Runnable,
    RunningJob,
    StoredLimitsRow,
    WorkerRow,
)
from tests.unit.conftest import Shell

ODD = "q \x1b[2J"


def test_an_unused_namespace_has_no_reasons_of_its_own(shell: Shell) -> None:
    """What is left is Redis's: here it has no append-only file."""
    found = shell.json("status")
    assert (found["running"], found["waiting"], found["workers"]) == (0, 0, 0)
    told = {one["about"] for one in found["remarks"] if one["level"] != "info"}
    assert (found["level"], told) == ("warning", {"persistence"})
    assert shell.run("status").stdout.startswith("1 warning: 0 running, 0 waiting, 0 workers\n")


def test_a_queue_that_no_worker_serves_is_exit_code_1(
    shell: Shell, queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is printed without what would clear a screen; pauses and deaths are told, too."""
    monkeypatch.setattr(remarks, "LATE_SECONDS", -1.0)
    for _ in range(2):
        queue.publish(b"", queue="mail", workspace="acme", task="send")
    (lease,) = queue.claim(["mail"]).leases
    queue.reject(lease, reason="ValueError: no")
    queue.publish(b"", queue=ODD)
    queue.pauses.pause(Scope.workspace("globex"))
    found = shell.json("status", code=1)
    told = {one["about"]: one["text"] for one in found["remarks"]}
    assert found["level"] == "problem"
    assert (
        "1 job died within the last hour, for example of task 'send': ValueError: no"
        in told["dead"]
    )
    assert told["pauses"].startswith("workspace 'globex' paused for")
    text = shell.run("status", code=1).stdout
    assert "start a worker for it" in text
    assert "\x1b" not in text
    checked = shell.json("doctor", code=1)["remarks"]
    assert {one["about"] for one in checked} >= set(told)


def _queue(idle: float | None = 90.0) -> QueueRow:
    return QueueRow("q", 5, 1, 2, None, idle, None, None, None)


def _worker(name: str, silent: float, lease: float | None = 30.0, **more: Any) -> WorkerRow:
    return WorkerRow(name, name, "", 0.0, silent, 0, lease_seconds=lease, **more)


def _texts(remarks: Iterator[Remark]) -> list[str]:
    return [one.text for one in remarks]


def test_a_stuck_queue_has_workers_or_none() -> None:
    """The remedy differs; one that was served a moment ago is not stuck."""
    (none,) = _texts(remarks.stuck_queues([(_queue(), 80.0)], []))
    assert none.endswith("of 2 workspaces, and none was claimed for 80 s: start a worker for it")
    (busy,) = _texts(remarks.stuck_queues([(_queue(), 80.0)], [_worker("w", 1, queues=("q",))]))
    assert busy.endswith("check whether its workers are busy or stuck")
    assert not _texts(remarks.stuck_queues([(_queue(2.0), 80.0)], []))
    late = remarks.late_queues([(_queue(), Runnable(1, 1, n, True)) for n in (None, 59.0, 61.0)])
    assert [seconds for _, seconds in late] == [61.0]


def test_missing_slots_are_counted() -> None:
    """Not of a queue whose workers do not say how many they have."""
    found = {"a": Demand(5, 6, 2), "b": Demand(5, 6, None), "c": Demand(0, 2, 2)}
    (text,) = _texts(remarks.missing_slots(found))
    assert text.startswith("queue 'a' could use 6 worker slots, and its workers have 2")


def test_a_silent_worker_is_named_for_an_hour() -> None:
    """One that stopped, lives, or was started again, is not."""
    rows = [_worker("dead", 300), _worker("stopped", 300, 0.0)]
    rows += [_worker("lives", 5), _worker("lives", 300)]
    (text,) = _texts(remarks.silent_workers([*rows, _worker("old", 4000)]))
    assert text == "worker 'dead' is silent for 5 m 00 s: see why"


def test_a_silent_worker_with_jobs_is_a_problem_if_none_lives() -> None:
    """No worker frees their slots; else those that are acked late start again."""
    holds = replace(_worker("dead", 300), running=2)
    (one,) = remarks.silent_workers([holds])
    assert (one.level, one.text[-34:]) == (Level.PROBLEM, "2 jobs; no worker lives: start one")
    (one,) = remarks.silent_workers([holds, _worker("lives", 5)])
    assert one.level is Level.WARNING
    assert one.text.endswith("with 2 jobs; those acked late start again elsewhere")


def test_a_job_that_runs_ten_times_longer_is_named() -> None:
    """Only of a task with a known average, and after a minute."""

    def job(task: str, seconds: float) -> RunningJob:
        row = RunningJob("j", task, "w", "q", 0, "n", "o", 1, 0.0, seconds, 1, 30, 30, False, False)
        assert row.seconds == seconds
        return row

    jobs = job("slow", 101), job("slow", 99), job("short", 50), job("new", 9999)
    (text,) = _texts(remarks.long_jobs(jobs, {"slow": 10.0, "short": 1.0, "new": None}))
    assert text.startswith("task 'slow' has 1 job running for more than 10 times its average")


def test_limits_that_contradict_each_other_are_named() -> None:
    """By what is in force: a live limit replaces the configured one."""

    def row(source: str, scope: str, name: str, **limits: float) -> StoredLimitsRow:
        return StoredLimitsRow(source, scope, name, limits, None, None)

    rows = [
        row("live", "total", "", concurrency=8),
        row("configured", "total", "", concurrency=50),
        row("configured", "queue", "q", concurrency=20),
        row("configured", "workspace", "a", concurrency=5, reserve=5),
        row("configured", "workspace", "b", reserve=4),
    ]
    assert _texts(remarks.contradictions(rows)) == [
        "concurrency 20 of queue 'q' is never reached: that of everything is 8",
        "reserves of 9 in all cannot be kept: concurrency of all is 8",
    ]
    assert not _texts(remarks.contradictions(rows[1:]))


def test_the_line_counts_what_is_wrong() -> None:
    """Problems come before warnings; of many pauses and deaths the first are named."""
    pauses = [PauseRow("queue", f"q{n}", Pause.PAUSED, 0.0, 60.0, None, None) for n in range(5)]
    (held,) = remarks.paused(pauses)
    assert "queue 'q2' paused for 1 m 00 s and 2 others; see" in held.text
    letter = DeadLetter(Job("j", "w", "q", "t", b"", 0, 0.0), "expired", 0.0, 1, ())
    (dead,) = remarks.recent_deaths([letter] * 1200, most=1200)
    assert dead.text.startswith("1,200 jobs or more died within the last hour, for example of task")
    problem = Remark(Level.PROBLEM, "queues", "stuck")
    found = Status(1, 2, 3, (held, Remark(Level.INFO, "server", "7"), problem, dead))
    assert found.line == "1 problem, 2 warnings: 1 running, 2 waiting, 3 workers"
    assert found.reasons == (problem, held, dead)
    assert Status(0, 0, 1, ()).line == "ok: 0 running, 0 waiting, 1 worker"


@pytest.fixture
def keys(redis_url: str, namespace: str) -> Keys:
    """The keys of a namespace with one waiting, one running and one dead job."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        for _ in range(3):
            queue.publish(b"", queue="q", workspace="acme \x1b")
        rejected, _ = queue.claim(["q"], 2).leases
        queue.reject(rejected, reason="broken")
        queue.jobs.suspend_imports(60)
    return Keys(namespace)


def test_a_sound_namespace_is_exit_code_0(shell: Shell, keys: Keys) -> None:
    """It is so during an export, too, whose mark expires by itself."""
    found = shell.json("doctor")
    assert found["findings"] == found["repairs"] == []
    assert found["namespace"] == shell.namespace
    levels = {remark["about"]: remark["level"] for remark in found["remarks"]}
    assert levels["server"] == levels["workers"] == "info"
    assert levels["persistence"] == levels["imports"] == "warning"
    text = shell.run("doctor").stdout
    assert shell.url in text
    assert text.endswith("Every invariant holds.\n")


def test_repair_mends_and_names_what_it_did(shell: Shell, keys: Keys, redis_client: Redis) -> None:
    """A finding is exit code 1; a key of others is not touched, and stays one."""
    redis_client.delete(keys.key("expiry"), keys.key("ready", "q"))
    redis_client.set(f"{keys.prefix}strange \x1b", "1")
    assert "strange" in shell.run("doctor", code=1).stdout
    found = shell.json("doctor", "--repair", code=1)
    assert {one["invariant"] for one in found["repairs"]} >= {"I1", "I4"}
    assert all(one["is_mended"] == (one["invariant"] != "I9") for one in found["repairs"])
    assert [one["text"] for one in found["findings"]] == ["unknown key strange \x1b"]
    assert redis_client.get(f"{keys.prefix}strange \x1b") == b"1"


def test_a_problem_is_the_last_word(shell: Shell, redis_url: str, namespace: str) -> None:
    """What ends with "Every invariant holds" would be read as sound."""
    queue = FairQueue(redis_url, namespace=namespace)
    with queue, pytest.MonkeyPatch.context() as patch:
        patch.setattr(remarks, "LATE_SECONDS", -1.0)
        queue.publish(b"", queue="q", workspace="a")
        text = shell.run("doctor", code=1).stdout
    assert text.endswith("invariant holds. Above: 1 problem with the server or the workers.\n")
    assert "has runnable jobs of 1 workspace, and none was claimed" in text
