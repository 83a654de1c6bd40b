"""``fairqueue ps``, ``jobs``, ``queues``, ``tasks``, ``workers``, ``pauses`` and ``stats``."""

from __future__ import annotations

import os
import re
import time

import pytest

from fairqueue import FairQueue, NewJob, Scope
from tests.system.ledger import wait_for
from tests.unit.conftest import Shell

ODD = "\x1b[2J"


@pytest.fixture
def queue(queue: FairQueue) -> FairQueue:
    """A queue in the same namespace, known as a worker of Celery."""
    queue.presence.describe("celery@one", software="celery/5")
    return queue


def _publish(core: FairQueue, n: int, workspace: str = "acme", *, queue: str = "q") -> None:
    for _ in range(n):
        core.publish(b"x", queue=queue, workspace=workspace, task="t")


def test_ps_shows_what_runs(shell: Shell, queue: FairQueue) -> None:
    """With the framework's name of the worker; the longest comes first, and a limit says so."""
    queue.publish(b"", queue="q", workspace=ODD, task=ODD, job_id=ODD)
    queue.claim(["q"], 1)
    _publish(queue, 2)
    queue.claim(["q"], 2)
    text = shell.run("ps").stdout
    shown = "\\x1b[2J"
    assert text.splitlines()[2].split()[:6] == [shown, shown, "–", shown, "q", "celery@one"]
    found = shell.json("ps")
    assert found["total"] == 3
    job = found["running"][0]
    assert (job["workspace"], job["worker"], job["deliveries"]) == (ODD, "celery@one", 1)
    assert 0 < job["lease_seconds_left"] <= job["lease_seconds"]
    assert "1 of 3 jobs; --limit shows more" in shell.run("ps", "--limit", "1").stdout
    assert shell.json("ps", "--workspace", "acme")["total"] == 2
    assert shell.json("ps", "--task", "t", "--queue", "q", "--worker", "celery@one")["total"] == 2
    assert shell.json("ps", "--worker", "celery@two")["total"] == 0
    assert "No matching job is running" in shell.run("ps", "--longer-than", "2h").stdout


def test_ps_shows_progress_and_finds_what_is_stuck(shell: Shell, queue: FairQueue) -> None:
    """A run that reports nothing is not stuck."""
    _publish(queue, 2)
    lease, _ = queue.claim(["q"], 2).leases
    queue.store.note_progress(lease.fence, "acme", "120 300 rows")
    assert "120/300 rows, " in shell.run("ps").stdout
    found = shell.json("ps", "--stuck", "0s")["running"]
    assert [(job["job_id"], job["progress"]["current"]) for job in found] == [(lease.job.id, 120)]
    assert shell.json("ps", "--stuck", "10m")["total"] == 0
    assert "it says 120/300 rows" in shell.run("why", lease.job.id).stdout


def test_what_workers_know_is_shown(shell: Shell, queue: FairQueue) -> None:
    """In the lists of tasks and workers, by ``why``, and by the doctor."""
    queue.presence.describe("celery@one", queues=lambda: ["q"], tasks=lambda: ["shop.render"])
    queue.claim(["q"])
    job = queue.publish(b"", queue="q", workspace="acme", task="shop.rendr")
    assert "–, 1 waiting" in shell.run("tasks").stdout
    assert len(shell.json("workers", "--tasks", "shop.render")["workers"]) == 1
    assert shell.json("workers", "--tasks", "shop.rendr")["workers"] == []
    said = "no living worker of its queue knows task 'shop.rendr'; 'shop.render' is known"
    assert said in shell.run("why", job).stdout
    assert (
        "1 job of task 'shop.rendr', which no living worker of the queue knows"
        in shell.run("doctor").stdout
    )


def test_jobs_are_paged(shell: Shell, queue: FairQueue) -> None:
    """A page says how to go on; the last one does not."""
    _publish(queue, 5)
    queue.publish(b"", queue="q", workspace="acme", delay_seconds=90)
    page = shell.json("jobs", "--workspace", "acme", "--limit", "4")
    rest = shell.json("jobs", "--workspace", "acme", "--cursor", page["cursor"])
    assert [len(each["jobs"]) for each in (page, rest)] == [4, 2]
    assert rest["cursor"] == ""
    assert rest["jobs"][-1]["due"] is not None
    assert "--cursor '" in shell.run("jobs", "--workspace", "acme", "--limit", "4").stdout
    text = shell.run("jobs").stdout
    assert "due in 1 m" in text
    assert "--cursor" not in text
    assert "No matching job is waiting" in shell.run("jobs", "--longer-than", "5m").stdout


def test_queues_tasks_workers_and_pauses_are_listed(shell: Shell, queue: FairQueue) -> None:
    """Each with its numbers; names cannot steer the terminal."""
    _publish(queue, 3, queue=ODD)
    queue.publish(b"", queue="q", workspace="acme", task=ODD)
    queue.claim([ODD], 1)
    queue.limits.set(Scope.queue(ODD), concurrency=2)
    queue.limits.set(Scope.task("t"), rate="5/m")
    queue.pauses.pause(Scope.workspace("acme"))
    queue.pauses.drain(Scope.queue(ODD))
    assert "\\x1b[2J" in shell.run("queues").stdout
    (row,) = [row for row in shell.json("queues")["queues"] if row["queue"] == ODD]
    assert (row["waiting"], row["running"], row["concurrency"]) == (2, 1, 2)
    assert row["pause"] == "draining"
    assert (row["slots_wanted"], row["startable"], row["worker_slots"]) == (1, 0, None)
    assert "5/m" in shell.run("tasks").stdout
    (task,) = [row for row in shell.json("tasks")["tasks"] if row["task"] == "t"]
    assert (task["running"], task["rate"]) == (1, pytest.approx(5 / 60))
    assert "celery@one" in shell.run("workers").stdout
    (worker,) = shell.json("workers", "--all")["workers"]
    assert (worker["running"], worker["is_alive"]) == (1, True)
    assert worker["software"].endswith(" celery/5")
    assert (worker["queues"], worker["slots"], worker["more_queues"]) == ([ODD], None, 0)
    assert worker["software"].startswith("fairqueue/")
    assert shell.run("pauses").stdout.splitlines()[2].split()[:3] == ["workspace", "acme", "paused"]
    assert f":{os.getpid()}  " in shell.run("pauses").stdout
    assert {row["name"] for row in shell.json("pauses")["pauses"]} == {"acme", ODD}


def test_empty_lists_say_so(shell: Shell) -> None:
    """A workspace that has a limit and no job has no row."""
    shell.run("limits", "set", "concurrency=2", "--workspace", "acme")
    assert shell.run("stats", "--all").stdout.splitlines()[1:] == ["No workspace has jobs."]
    for command in ("ps", "jobs", "queues", "tasks", "workers", "pauses"):
        assert "No" in shell.run(command).stdout or "There are no" in shell.run(command).stdout


@pytest.mark.parametrize("command", ["ps", "jobs", "stats"])
def test_an_unseen_name_gets_a_hint(shell: Shell, queue: FairQueue, command: str) -> None:
    """Of the name that is meant; a known workspace gets none."""
    _publish(queue, 1)
    hint = "no job, limit or pause names the workspace 'acmee' now; did you mean 'acme'?"
    assert hint in shell.run(command, "--workspace", "acmee").output
    assert "names the" not in shell.run(command, "--workspace", "acme").output


def test_stats_say_where_they_looked_and_what_is_paused(shell: Shell, queue: FairQueue) -> None:
    """The URL, the namespace, pauses, and totals in JSON."""
    _publish(queue, 3)
    _publish(queue, 1, "globex")
    queue.claim(["q"], 1)
    queue.pauses.pause(Scope.workspace("acme"))
    queue.pauses.drain(Scope.total())
    first, *lines = shell.run("stats").stdout.splitlines()
    assert first == f"{shell.url}, namespace {shell.namespace}"
    assert re.match(r"paused: workspace acme, for [\d.]+ m?s, ", lines[0])
    assert lines[1].startswith("draining: everything")
    found = shell.json("stats")
    assert (found["url"], found["namespace"]) == (shell.url, shell.namespace)
    assert found["totals"] == {
        "waiting": 3,
        "scheduled": 0,
        "running": 1,
        "dead": 0,
        "lost": 0,
        "would_block": 0,
        "would_reject": 0,
        "queued": 3,
    }
    assert [row["scope"] for row in found["pauses"]] == ["workspace", "total"]
    assert (found["is_complete"], found["known_workspaces"]) == (True, 2)
    one = shell.json("stats", "--workspace", "globex", "--workspace", "acme")
    assert [row["workspace"] for row in one["workspaces"]] == ["acme", "globex"]
    assert one["workspaces"][0]["pause"] == "paused"
    top = shell.json("stats", "--top", "1")
    assert (len(top["workspaces"]), top["is_complete"], top["totals"]["dead"]) == (1, False, None)
    assert "1 of 2 workspaces; of all: 3 waiting" in shell.run("stats", "--top", "1").stdout


def test_stats_watch_until_they_are_interrupted(
    shell: Shell, queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They look again each time, and Ctrl-C ends them with exit code 0."""
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        _publish(queue, 1)
        if len(waited) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    text = shell.run("stats", "--watch", "5m").stdout
    assert text.count("namespace") == 3
    assert waited == [300.0] * 3


def test_schedules(shell: Shell, queue: FairQueue) -> None:
    """They are listed, and changed by name; one that is not there is exit code 1."""
    assert "There is no schedule." in shell.run("schedules").stdout
    queue.schedules.put(ODD, NewJob(b"x", queue="q", task="t"), workspace="acme", every=60)
    queue.schedules.put("n", NewJob(b"x", queue="q"), workspace="globex", cron="0 2 * * *")
    text = shell.run("schedules").stdout
    assert text.splitlines()[2].split()[:5] == ["acme", "\\x1b[2J", "every", "60", "s"]
    (row,) = shell.json("schedules", "--workspace", "globex")["schedules"]
    assert (row["schedule"], row["tz"], row["paused"]) == ("0 2 * * *", "UTC", False)
    assert row["task"] == ""  # as its job has it
    for action in ("pause", "resume", "trigger", "remove"):
        done = shell.json("schedules", action, "n", "--workspace", "globex")
        assert done == {"name": "n", "workspace": "globex", "done": True}
    gone = shell.run("schedules", "pause", "n", "--workspace", "globex", code=1)
    assert "there is none" in gone.stdout
    assert "--workspace" in shell.run("schedules", "pause", "n", code=2).output


def test_why_names_the_tick(shell: Shell, queue: FairQueue) -> None:
    """A job that a schedule has published says which, and for which time."""
    queue.schedules.put("nightly run.", NewJob(b"x", queue="q"), workspace="acme", every=60)
    queue.schedules.trigger("nightly run.", workspace="acme")
    ticker = queue.schedules.start()
    wait_for(lambda: queue.depth("q"))
    ticker.stop()
    (job,) = shell.json("jobs")["jobs"]
    text = shell.run("why", job["job_id"]).stdout
    assert "UTC of schedule nightly run." in text
