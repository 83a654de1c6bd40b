"""Commands that change something: what they print, and what they reject."""

from __future__ import annotations

import pytest

from fairqueue import CapacityExceeded, FairQueue, Job
from fairqueue._keys import encode
from fairqueue.operate.views import Views
from tests.unit.conftest import Shell


def test_cancel_one(shell: Shell, queue: FairQueue) -> None:
    """A waiting job is removed, a running one signalled; an unknown one is exit code 1."""
    queue.publish(b"", queue="q", job_id="runs")
    queue.publish(b"", queue="q", job_id="waits \x1b[2J")
    queue.claim(["q"], 1)
    assert shell.json("cancel", "runs")["outcome"] == "signalled"
    assert "\x1b" not in shell.run("cancel", "waits \x1b[2J", "--queue", "q").stdout
    assert shell.json("cancel", "--task-id", "waits \x1b[2J", code=1)["outcome"] == "not_found"
    assert queue.depth("q") == 0


def test_cancel_all_that_match(shell: Shell, queue: FairQueue) -> None:
    """Of a workspace, or by task, too; --all and --yes must say so; a JOB does not go with it."""
    for workspace, task in (("acme", "t"), ("acme", "t"), ("acme", "u"), ("globex", "t")):
        queue.publish(b"", queue="q", workspace=workspace, task=task)
    for bad in (["--task", "t"], ["--queue", "q"], ["--all"], ["j", "--task", "t", "--all"]):
        assert "--all with" in shell.run("cancel", *bad, "--yes", code=2).output
    answer = shell.json("cancel", "--workspace", "acme", "--task", "t", "--all", "--yes")
    assert answer == {"workspace": "acme", "task": "t", "removed": 2, "signalled": 0}
    assert "--yes" in shell.run("cancel", "--workspace", "acme", code=2).output
    answer = shell.json("cancel", "--workspace", "acme", "--yes")
    assert answer == {"workspace": "acme", "removed": 1, "signalled": 0}
    assert queue.depth("q") == 1


@pytest.fixture
def dead_letters(queue: FairQueue) -> None:
    """Of three workspaces and two tasks; one with an id and an error that would clear a screen."""
    for job_id, workspace, task in (
        ("\x1b[2J", "a", "mail"),
        ("p1", "b", "mail"),
        ("p2", "c", "x"),
    ):
        queue.publish(b"pay\x1bload", queue="q", workspace=workspace, task=task, job_id=job_id)
        (lease,) = queue.claim(["q"], 1).leases
        queue.reject(lease, reason="bad\n", details="in mail:\n  \x1b[2J\nValueError: no\n")


@pytest.mark.usefixtures("dead_letters")
def test_dead_letters_are_listed(shell: Shell) -> None:
    """Of all workspaces, by task, reason and time; as JSON with the history, and counted."""

    def found(*options: str) -> list[str]:
        letters = shell.json("dead", "list", *options)["dead_letters"]
        return [letter["job"] for letter in letters]

    assert found() == ["\x1b[2J", "p1", "p2"]
    assert found("--limit", "2") == ["\x1b[2J", "p1"]
    assert found("--task", "mail", "--reason", "bad\n", "--since", "1h") == ["\x1b[2J", "p1"]
    assert found("--task-id", "p1") == ["p1"]
    assert shell.json("dead", "count", "--task-id=p1")["total"] == 1
    assert found("--until", "2020-01-31T12:00") == []
    shell.run("dead", "list", "--since", "yesterday", code=2)
    assert "\\x1b[2J" in shell.run("dead", "list").stdout
    assert "No dead letters" in shell.run("dead", "list", "--workspace", "other").stdout
    counts = shell.json("dead", "count")
    assert (counts["total"], counts["counts"][0]["task"]) == (3, "mail")
    assert "ValueError: no" in shell.run("dead", "count", "--workspace", "c").stdout


@pytest.mark.usefixtures("dead_letters")
def test_a_dead_letter_is_shown(shell: Shell, queue: FairQueue) -> None:
    """Its start, its payload and its traceback, escaped; an unknown one is exit code 1."""
    queue.publish(b"", queue="q", workspace="d", job_id="p3")
    queue.reject(queue.claim(["q"], 1).leases[0], reason="failed")
    assert "of work, failed" in shell.run("dead", "show", "p3").stdout
    text = shell.run("dead", "show", "p1", "--workspace", "b").stdout
    assert "pay\\x1bload" in text
    assert "rejected" in text
    assert "in mail:\n  \\x1b[2J\nValueError: no\n" in text
    found = shell.json("dead", "show", "--task-id=p2")
    assert (found["workspace"], found["reason"]) == ("c", "bad\n")
    assert (found["arguments"], found["payload_bytes"]) == ("pay\x1bload", 8)
    assert found["details"].endswith("ValueError: no\n")
    assert found["history"][0]["outcome"] == "rejected"
    shell.run("dead", "show", "p1", "--workspace", "acme", code=1)


@pytest.mark.usefixtures("dead_letters")
def test_dead_letters_are_replayed_and_purged(shell: Shell, queue: FairQueue) -> None:
    """One, or all that match, at a rate: the first at once. A script must pass --yes."""
    assert "--yes" in shell.run("dead", "replay", "--all", "--task", "mail", code=2).output
    done = shell.json("dead", "replay", "--all", "--rate", "0.1", "--task", "mail", "--yes")
    assert done == {"workspace": None, "replayed": 2}
    rows = queue.views.stats().workspaces
    assert [(row.waiting, row.scheduled, row.dead) for row in rows] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
    ]
    shell.run("dead", "replay", "--task", "mail", code=2)
    shell.run("dead", "replay", "p2", "--all", code=2)
    shell.run("dead", "replay", "p1", "--workspace", "b", code=1)
    shell.run("dead", "purge", "--task-id", "nothing", code=1)
    shell.run("dead", "purge", "--all", code=2)
    assert "1 job purged" in shell.run("dead", "purge", "p2").stdout
    assert shell.json("dead", "purge", "--all", "--yes")["purged"] == 0


@pytest.mark.usefixtures("dead_letters")
@pytest.mark.parametrize(
    "option", ["task-id", "workspace", "queue", "task", "reason", "error", "since", "until"]
)
def test_an_empty_option_does_not_choose_all_dead_letters(
    shell: Shell, queue: FairQueue, option: str
) -> None:
    """It is a shell's variable that was not set; nothing is deleted, replayed or listed."""
    for command in ("purge --all --yes", "replay --all --yes", "list", "count"):
        said = shell.run("dead", *command.split(), f"--{option}", "", code=2).output
        assert f"--{option} must not be empty" in said
    assert sum(row.count for row in queue.dead.count()) == 3


@pytest.mark.usefixtures("dead_letters")
@pytest.mark.parametrize("job", [[""], ["--task-id", ""]])
@pytest.mark.parametrize(
    "command",
    [
        "why",
        "cancel",
        "cancel --workspace acme --yes",
        "dead show",
        "dead replay",
        "dead purge",
        "dead purge --all --yes",
    ],
)
def test_an_empty_job_is_none(shell: Shell, queue: FairQueue, command: str, job: list[str]) -> None:
    """Neither the first one, nor all."""
    assert "must not be empty" in shell.run(*command.split(), *job, code=2).output
    assert sum(row.count for row in queue.dead.count()) == 3
    assert queue.dead.get("a", "") is None


def test_an_empty_namespace_is_not_the_default_one(shell: Shell) -> None:
    """Its jobs are of another app."""
    said = shell.run("purge", "--all", "--yes", "--namespace", "", code=2).output
    assert "a namespace name must not be empty" in said


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("why", "why [OPTIONS] {JOB|--task-id ID}"),
        ("why", "pass either JOB or --task-id"),
        ("dead show", "show [OPTIONS] {JOB|--task-id ID}"),
        ("dead replay", "pass a JOB, --task-id or --all"),
        ("dead purge", "pass a JOB, --task-id or --all"),
        ("cancel", "pass a JOB or --task-id (--workspace"),
    ],
)
def test_a_missing_job_is_told_how_it_may_be_given(shell: Shell, command: str, told: str) -> None:
    """By its id, and by that of its framework."""
    text = shell.run(*command.split(), code=2).output
    assert told in " ".join(text.split())


def test_pause_and_resume(shell: Shell, queue: FairQueue) -> None:
    """Each scope separately; resume lists the other pauses."""
    queue.publish(b"", queue="q", workspace="acme")
    assert shell.json("pause", "--workspace", "acme")["previous_state"] is None
    shell.run("pause", "--queue", "other\x1b")
    assert queue.claim(["q"], 1).leases == ()
    text = shell.run("resume", "--workspace", "acme").stdout
    assert "resumed" in text
    assert "still paused: queue other\\x1b" in text
    assert len(queue.claim(["q"], 1).leases) == 1
    assert shell.json("resume", "--all")["previous_state"] is None
    shell.run("pause", "--workspace", "acme", "--all", code=2)
    shell.run("pause", "--workspace", code=2)


@pytest.mark.parametrize("given", [["--workspace=--all"], ["--workspace", "--all"]])
def test_a_workspace_may_have_the_name_of_an_option(
    shell: Shell, queue: FairQueue, given: list[str]
) -> None:
    """A script may have the name from elsewhere: only that workspace is paused."""
    shell.run("pause", *given)
    assert [row.name for row in queue.pauses.list()] == ["--all"]


def test_a_task_is_drained(shell: Shell, queue: FairQueue) -> None:
    """Without a count, then purged."""
    queue.publish(b"", queue="q", workspace="acme", task="send\x1b")
    where = ["--task", "send\x1b"]
    shell.run("drain", *where, code=2)
    drained = shell.json("drain", *where, "--no-wait")
    assert (drained["task"], drained["remaining"]) == ("send\x1b", None)
    assert "still draining: task send\\x1b" in shell.run("resume", "--all").stdout
    assert shell.json("resume", *where)["previous_state"] == "draining"
    assert shell.json("purge", *where, "--yes")["purged"] == 1


def test_one_workspace_is_counted_without_the_others(
    shell: Shell, queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command for one workspace costs the same beside 100,000 others."""
    monkeypatch.delattr(Views, "stats")
    queue.publish(b"", queue="q", workspace="acme")
    queue.publish(b"", queue="q", workspace="other")
    where = ["--workspace", "acme"]
    assert shell.json("drain", *where, "--no-wait")["remaining"] == 1
    assert shell.json("purge", *where, "--yes")["purged"] == 1


def test_drain_waits_until_no_job_remains(shell: Shell, queue: FairQueue) -> None:
    """Jobs that remain after the timeout are exit code 1; new jobs are rejected."""
    queue.publish(b"", queue="q", workspace="acme")
    where = ["--workspace", "acme"]
    assert shell.json("drain", *where, "--timeout", "0", code=1)["remaining"] == 1
    assert shell.json("drain", *where, "--no-wait")["remaining"] == 1
    (lease,) = queue.claim(["q"], 1).leases
    queue.ack(lease)
    assert shell.json("drain", *where)["remaining"] == 0
    with pytest.raises(CapacityExceeded):
        queue.publish(b"", queue="q", workspace="acme")


def test_purge(shell: Shell, queue: FairQueue) -> None:
    """A workspace on a queue, then all; a script must pass --yes."""
    for workspace in ("acme", "globex"):
        queue.publish(b"", queue="q", workspace=workspace)
    assert shell.json("purge", "--workspace", "acme", "--queue", "q", "--yes")["purged"] == 1
    shell.run("purge", "--all", code=2)
    assert "1 job purged" in shell.run("purge", "--all", "--yes").stdout
    shell.run("purge", "--yes", code=2)


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("limits set --workspace acme --concurrency 3", "without dashes: concurrency=VALUE"),
        ("limits set --default --workspace-rate=3/m", "without dashes: workspace_rate=VALUE"),
        ("limits set acme concurrency=3", "not 'acme'; options name what the limit is of"),
        ("limits get acme", "--workspace NAME, --queue NAME, --task NAME"),
        ("pause acme", "--workspace NAME, --queue NAME, --task NAME"),
        ("drain acme --no-wait", "--workspace NAME"),
        ("stats acme", "--workspace NAME"),
        (
            "limits set rate=100/d --workspace acme",
            "per second, or N/s, N/m or N/h",
        ),
    ],
)
def test_a_wrong_form_is_told_the_right_one(shell: Shell, command: str, hint: str) -> None:
    """A limit as an option, a name without what it names, a rate of a day."""
    text = " ".join(shell.run(*command.split(), code=2).stderr.split())
    assert hint in text.replace("│ ", "").replace(" │", "")


def test_finished_steps(shell: Shell, queue: FairQueue) -> None:
    """``why`` and ``dead show`` name them; a replay keeps them unless it is from the start."""
    queue.publish(b"", queue="q", workspace="acme", task="t", job_id="j")

    def fail() -> None:
        (lease,) = queue.claim(["q"], 1).leases
        of = lease.fence, "acme", "j"
        for name in ("one", "\x1b[2J"):
            queue.store.note_step(*of, name, f"{encode(name)} 2.5 null", early=False)
        queue.reject(lease, reason="broken")

    fail()
    said = "steps: one (2.5 s), \\x1b[2J (2.5 s); the next run continues after '\\x1b[2J'"
    for command in (("why", "j", "--workspace", "acme"), ("dead", "show", "j")):
        assert said in shell.run(*command).stdout
    assert [one["name"] for one in shell.json("dead", "show", "j")["steps"]] == ["one", "\x1b[2J"]
    assert shell.json("dead", "replay", "j")["replayed"] == 1
    assert len(queue.store.steps("acme", "j")) == 2
    fail()
    assert shell.json("dead", "replay", "j", "--from-start")["replayed"] == 1
    assert queue.store.steps("acme", "j") == {}


def test_acts_are_listed(shell: Shell) -> None:
    """The newest first, with the user, host and process that did them."""
    shell.run("pause", "--workspace", "acme \x1b")
    shell.run("limits", "set", "--workspace", "acme", "concurrency=3")
    newest, paused = shell.json("acts")["acts"]
    assert (newest["act"], newest["new"]) == ("limits set", "concurrency 3")
    assert (paused["act"], paused["of"]) == ("pauses pause", r"workspace acme \x1b")
    assert "@" in newest["by"]
    text = shell.run("acts", "--limit", "1").stdout
    assert "limits set" in text
    assert "pauses" not in text


def test_stats_of_the_past(shell: Shell) -> None:
    """What happened, by workspace, queue or task; nothing of it reaches the terminal as it is."""
    with FairQueue(shell.url, namespace=shell.namespace) as queue:
        for name in ("acme \x1b", "b"):
            queue.publish(b"", queue="q", workspace=name, task="t")
        first, second = queue.claim(["q"], 2).leases
        queue.ack(first, seconds=2.0)
        queue.tally.ran(second.job, "failed", 1.0)
    (row,) = shell.json("stats", "--since", "1h", "--workspace", "b")["rows"]
    assert (row["name"], row["starts"], row["failures"], row["ends"]) == ("b", 1, 1, 0)
    assert row["wait_p95_seconds"] <= 5
    (row,) = shell.json("stats", "--since", "8d", "--by", "task", "--queue", "q")["rows"]
    assert (row["name"], row["starts"], row["worker_seconds"]) == ("t", 2, 2.0)
    text = shell.run("stats", "--since", "10m").stdout
    assert "starts/min" in text
    assert "\x1b" not in text
    for task in ("other", ""):
        assert "Nothing happened" in shell.run("stats", "--since", "1h", "--task", task).stdout
    for wrong in (["--by", "task"], ["--since", "1h", "--top", "3"], ["--since", "9d"]):
        shell.run("stats", *wrong, code=2)


def test_the_history_is_listed(shell: Shell) -> None:
    """By workspace, task, id and outcome; nothing of it reaches the terminal as it is."""
    assert "history=N" in shell.run("history").stdout
    with FairQueue(shell.url, namespace=shell.namespace, history=9) as queue:
        queue.history.note(Job("m1", "acme \x1b", "q", "t", b""), "succeeded", 0.25)
        queue.history.note(Job("m2", "b", "q", "t", b""), "failed", 1.0, "away \x1b[2J")
    rows = shell.json("history")["jobs"]
    assert [(row["task_id"], row["outcome"]) for row in rows] == [
        ("m2", "failed"),
        ("m1", "succeeded"),
    ]
    assert [row["error"] for row in shell.json("history", "--id", "m2")["jobs"]] == ["away \x1b[2J"]
    for option in (["--outcome", "failed"], ["--workspace", "b"]):
        text = shell.run("history", *option).stdout
        assert "m2" in text
        assert "m1" not in text
