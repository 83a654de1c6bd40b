"""What operators see of buffered jobs: the command line and metrics."""

from __future__ import annotations

import sqlite3
from importlib import import_module
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from fairqueue import FairQueue, StoreUnavailable
from fairqueue.buffer import outages
from fairqueue.metrics import process_collector
from fairqueue.testing import EmbeddedServer
from tests.buffer.conftest import drained
from tests.system.ledger import wait_for
from tests.unit.conftest import Shell

pytestmark = pytest.mark.system


@pytest.fixture
def shell(server: EmbeddedServer, namespace: str) -> Shell:
    """A shell for the server that the test may kill."""
    return Shell(server.url, namespace)


def test_buffered_jobs_are_listed_sent_and_dropped(
    shell: Shell, queue: FairQueue, server: EmbeddedServer, folder: Path
) -> None:
    """Those of a living process stay with it; send sends what an ended one has left."""
    path = str(folder)
    assert "No job is buffered" in shell.run("buffer", path).output
    server.kill()
    for name in ("a", "b", "c\x1b[2J"):
        queue.publish(b"", queue="q", workspace="acme", job_id=name)
    assert "acme" in shell.run("buffer", path, "list").output
    [first, *_] = shell.json("buffer", path)["jobs"]
    assert (first["job_id"], first["workspace"], first["refused"]) == ("a", "acme", "")
    assert "--yes" in shell.run("buffer", path, "drop", code=2).output
    (folder / "0-0.other.spool").write_bytes(b"no database" * 1000)
    assert shell.run("buffer", path, code=1).stderr.count("read: file is not a database") == 1
    assert shell.json("buffer", path, "drop", "--job", "b", "--yes", code=1) == {"dropped": 1}
    assert shell.json("buffer", path, "drop", "--job", "b", "--yes", code=1) == {"dropped": 0}
    shell.run("buffer", path, "send", code=3)
    queue.outages.close()  # the process ends
    server.start()
    wait_for(lambda: not queue.store.shards[0].engine.breaker.publishes.is_shut)
    elsewhere = shell.run("buffer", path, "send", "--namespace", "other", code=1).output
    assert "0 jobs sent, 2 left: of living processes, of another --url" in elsewhere
    answer = shell.json("buffer", path, "send", code=1)
    assert answer == {"sent": 2, "left": 0}
    assert queue.depth("q") == 2
    assert {path.name[:2] for path in folder.iterdir()} == {"0-"}
    for each in folder.iterdir():
        each.unlink()
    shell.run("buffer", path, "send")


def test_the_files_of_many_ended_processes_are_taken_some_at_a_time(
    shell: Shell,
    queue: FairQueue,
    server: EmbeddedServer,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that held all of them open would run out of descriptors; send goes on."""
    monkeypatch.setattr(outages, "MOST_ADOPTED", 2)
    server.kill()
    for _ in range(5):
        queue.publish(b"", queue="q")
        queue.outages.close()
    assert [queue.outages.adopt(), queue.outages.adopt()] == [2, 0]
    queue.outages.close()
    server.start()
    wait_for(lambda: not queue.store.shards[0].engine.breaker.publishes.is_shut)
    assert shell.json("buffer", str(folder), "send") == {"sent": 5, "left": 0}


def test_what_an_ended_process_has_left_is_dropped_from_a_full_disk(
    shell: Shell,
    queue: FairQueue,
    server: EmbeddedServer,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To delete rows of a file takes room; the file goes."""

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    server.kill()
    for _ in range(2):
        queue.publish(b"", queue="q")
    queue.outages.close()
    monkeypatch.setattr(import_module("fairqueue.cli.buffer"), "change", full)
    assert shell.json("buffer", str(folder), "drop", "--yes") == {"dropped": 2}
    assert not [*folder.iterdir()]


def test_a_link_to_a_database_of_the_operator_is_not_emptied(shell: Shell, folder: Path) -> None:
    """Another user has put it among the spools, and their process is gone."""
    database = folder / "own.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE jobs (id, kept, refused, number)")
        db.execute("INSERT INTO jobs VALUES ('precious', 1, NULL, 1)")
    (folder / "1-a.b.spool").symlink_to(database)
    assert "a symbolic link" in shell.run("buffer", str(folder), "drop", "--yes", code=1).stderr
    assert db.execute("SELECT id FROM jobs").fetchall() == [("precious",)]
    db.close()


def test_metrics_of_a_process_tell_what_it_has_buffered(
    queue: FairQueue, server: EmbeddedServer, folder: Path
) -> None:
    """How many and for how long; how many were sent since; and what ran inline."""
    registry = CollectorRegistry()
    registry.register(process_collector(queue))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"fairqueue_{name}", labels)

    assert value("buffered_jobs") == 0
    server.kill()
    queue.publish(b"", queue="q")
    with pytest.raises(StoreUnavailable):
        queue.publish(b"", queue="q", on_unavailable="inline")
    queue.outages.ran_inline()
    assert (value("buffered_jobs"), value("buffer_refused")) == (1, 0)
    assert (value("buffer_oldest_seconds") or 0) > 0
    server.start()
    assert drained(queue, folder)
    assert value("buffer_sent_total", queue="q") == 1
    assert value("inline_runs_total") == 1
