"""What becomes of a publish that names no workspace: the setting on_missing_workspace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fairqueue
from fairqueue import FairQueue, WorkspaceUnresolved
from fairqueue._publish.workspace_from import looked_for, workspace_of
from fairqueue.adapters import Call
from tests.unit.conftest import Shell


@pytest.fixture(autouse=True)
def _warnings_are_seen(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that another test ran in this process may have raised the root logger's level."""
    caplog.set_level("WARNING", logger="fairqueue.publish")


@pytest.fixture
def queue(request: pytest.FixtureRequest, namespace: str) -> Iterator[FairQueue]:
    """A queue in memory; an indirect parameter gives its settings."""
    with FairQueue(f"memory://{namespace}", **getattr(request, "param", {})) as queue:
        yield queue


def missing(queue: FairQueue) -> dict[str, int]:
    counts = queue.views.stats().without_workspace
    return {task: found.jobs for task, found in counts.items()}


def test_one_warning_per_task(queue: FairQueue, caplog: pytest.LogCaptureFixture) -> None:
    """The job goes to the default workspace; a warning names the task, once."""
    for task in ("mail", "mail", "render"):
        queue.publish(b"", queue="q", task=task)
    assert [row.workspace for row in queue.views.stats().workspaces] == ["default"]
    warnings = [record.getMessage() for record in caplog.records]
    assert [text.split(" names no workspace")[0] for text in warnings] == [
        "task 'mail'",
        "task 'render'",
    ]
    assert missing(queue) == {"mail": 2, "render": 1}


def test_a_named_workspace_is_no_reason(queue: FairQueue, caplog: pytest.LogCaptureFixture) -> None:
    """Named by the call or by its surroundings, even the default one, nothing is missing."""
    queue.publish(b"", queue="q", workspace="default")
    with fairqueue.workspace("acme"):
        queue.publish(b"", queue="q")
    assert (missing(queue), caplog.records) == ({}, [])


@pytest.mark.parametrize("queue", [{"on_missing_workspace": "reject"}], indirect=True)
def test_reject(queue: FairQueue, caplog: pytest.LogCaptureFixture) -> None:
    """It raises, and nothing is stored; what must not be lost is published with a warning."""
    with pytest.raises(WorkspaceUnresolved, match=r"'mail' names no workspace.*workspace=…"):
        queue.publish(b"", queue="q", task="mail")
    assert queue.depth("q") == 0
    queue.publish(b"", queue="q", task="mail", exempt=True)
    assert (queue.depth("q"), missing(queue)) == (1, {"mail": 1})
    assert "names no workspace" in caplog.text


@pytest.mark.parametrize("queue", [{"on_missing_workspace": "default"}], indirect=True)
def test_default(queue: FairQueue, caplog: pytest.LogCaptureFixture) -> None:
    """It is accepted, neither logged nor counted."""
    queue.publish(b"", queue="q", task="mail")
    assert (queue.depth("q"), missing(queue), caplog.records) == (1, {}, [])


def test_a_clone_does_not_warn_again(queue: FairQueue, caplog: pytest.LogCaptureFixture) -> None:
    """Background threads of a process warn of a task once."""
    queue.publish(b"", queue="q", task="mail")
    with queue.clone() as clone:
        clone.publish(b"", queue="q", task="mail")
    assert len(caplog.records) == 1


def test_why_counts_them(queue: FairQueue) -> None:
    """Of a job of the default workspace: its task; of that workspace: all; of others: none."""
    job = queue.publish(b"", queue="q", task="mail")
    queue.publish(b"", queue="q", task="render")
    queue.publish(b"", queue="q", workspace="acme", task="mail")
    assert set(queue.views.why(job).without_workspace) == {"mail"}
    assert set(queue.views.why(workspace="default").without_workspace) == {"mail", "render"}
    assert queue.views.why(workspace="acme").without_workspace == {}


def test_the_command_line_shows_them(shell: Shell, redis_url: str, namespace: str) -> None:
    """``stats`` and ``why`` name the task and the count, as text and as JSON."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        job = queue.publish(b"", queue="q", task="mail\x1b")
    assert shell.json("stats")["without_workspace"]["mail\x1b"]["jobs"] == 1
    for command in (("stats",), ("why", job), ("workspace", "default")):
        text = shell.run(*command).stdout
        assert "without a workspace: 1 job of task mail\\x1b, the last at " in text
    shell.run("purge", "--all", "--yes")
    text = shell.run("stats").stdout
    assert "No workspace has jobs" in text
    assert "without a workspace: 1 job of task mail\\x1b, the last at " in text


def work(day: str, tenant_id: str | None = None, *, force: bool = False) -> None:
    """A user's function."""


class Known(Call):
    """A call of a task that this process knows."""

    def function(self) -> object:  # type: ignore[override]
        return work


@pytest.mark.parametrize(
    ("source", "args", "kwargs", "said"),
    [
        ("kwarg:tenantid", (), {"tenant_id": 1}, "no such argument; did you mean 'tenant_id'?"),
        ("kwarg:TENANT_ID", ("May", "acme"), {}, "no such argument; did you mean 'tenant_id'?"),
        ("kwarg:customer", (), {}, "no such argument"),
        ("kwarg:tenant_id", ("May",), {}, "it is not passed"),
        ("kwarg:tenant_id", (), {"tenant_id": None}, "it is None"),
        ("kwarg:tenant_id", (), {"tenant_id": "  "}, "it is '  '"),
        ("kwarg:tenant_id", ("May", ""), {}, "it is ''"),
        ("arg:2", ("May",), {}, "it is not there"),
        ("header:customer", (), {}, "it is not there"),
    ],
)
def test_what_was_looked_for(
    source: str, args: tuple[object, ...], kwargs: dict[str, object], said: str
) -> None:
    """The text names each source, and why it named none; a close name is suggested."""
    made = Known("shop.work", args, kwargs, {})
    assert workspace_of(made, [source]) is None
    assert looked_for(made, [source]) == f"header:workspace (it is not there), {source} ({said})"


def similar(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = (record.getMessage() for record in caplog.records)
    return [text.partition(" differ")[0] for text in texts if "differ only in case" in text]


@pytest.mark.parametrize("queue", [{"workspaces": {"Acme": {"weight": 2}}}], indirect=True)
def test_similar_names_are_pointed_out(queue: FairQueue, caplog: pytest.LogCaptureFixture) -> None:
    """Once each: similar to a configured name, or to that of an earlier publish."""
    for name in ("Acme", "acme", "acme", "zeta", "zeta ", "other"):
        queue.publish(b"", queue="q", workspace=name)
    assert similar(caplog) == ["workspaces 'Acme' and 'acme'", "workspaces 'zeta' and 'zeta '"]
