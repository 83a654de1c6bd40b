"""What becomes of publishes while the store is away: on_unavailable of the core."""

from __future__ import annotations

import errno
import gc
import logging
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairqueue import (
    CapacityExceeded,
    ConfigurationError,
    FairQueue,
    JobContext,
    JobId,
    Outcome,
    Settings,
    StoreUnavailable,
)
from fairqueue._publish.new_job import NewJob
from fairqueue._shards.placement import shard_of
from fairqueue._types import Admission, Job
from fairqueue.adapters import run_context
from fairqueue.buffer.outages import Outages
from fairqueue.buffer.spool import RETRY, Spool, _key, change, new_in, read_all
from fairqueue.errors import PublishInterrupted
from fairqueue.testing import EmbeddedServer
from tests.buffer.conftest import Open, drained, payloads
from tests.out_of_threads import out_of_threads
from tests.system.ledger import wait_for

pytestmark = pytest.mark.system

SOON_SECONDS = 0.25
"""Far below a time-out, far above the fraction of a millisecond that a buffered publish takes."""


@contextmanager
def two_servers() -> Iterator[tuple[str, EmbeddedServer]]:
    """Two servers of one password: their URL, and the second one."""
    with EmbeddedServer(tcp=True) as one, EmbeddedServer(tcp=True) as two:
        secret = two.tcp_address.rpartition("@")[0]
        for each in (one, two):
            with each.client() as client:
                client.config_set("requirepass", secret.removeprefix(":"))
        yield f"redis://{secret}@127.0.0.1:{one.port},127.0.0.1:{two.port}/0", two


def publish(queue: FairQueue, *texts: str, **options: object) -> list[Outcome]:
    return [queue.publish(t.encode(), queue="q", **options).outcome for t in texts]  # type: ignore[arg-type]


def test_jobs_of_an_outage_run_in_the_order_of_their_calls(
    queue: FairQueue, server: EmbeddedServer, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says when the outage begins and ends, and how many jobs were buffered."""
    caplog.set_level(logging.WARNING, logger="fairqueue.buffer")
    server.kill()
    texts = [f"n{n}" for n in range(250)]
    assert set(publish(queue, *texts)) == {Outcome.BUFFERED}
    assert queue.buffered == len(texts)
    server.start()
    assert drained(queue, folder)
    assert payloads(queue) == [text.encode() for text in texts]
    opened, closed = (record.getMessage() for record in caplog.records)
    assert "is away" in opened
    assert "250 jobs are buffered, 0 were run inline" in closed


def test_a_thread_that_could_not_be_started_is_started_by_the_next_publish(
    open_queue: Open, server: EmbeddedServer, folder: Path
) -> None:
    """A system may be out of threads for a moment; what is buffered is sent after it."""
    queue = open_queue()

    with out_of_threads(), pytest.raises(RuntimeError):
        publish(queue, "a")
    publish(queue, "b")
    server.kill()
    assert publish(queue, "c") == [Outcome.BUFFERED]
    server.start()
    assert drained(queue, folder)


@pytest.mark.parametrize("page", [0, 1, 3, 5, 7])
def test_a_damaged_spool_of_an_ended_process_harms_no_other(
    queue: FairQueue,
    server: EmbeddedServer,
    folder: Path,
    page: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """New jobs are kept beside it, and are sent; the log and the metric name it."""
    left = new_in(folder, queue.store.store_id)
    jobs = [Job(f"old {n}", "a", "old", "", b"x" * 500, 0, 0.0, None) for n in range(50)]
    left.put([(job, Admission()) for job in jobs])
    left._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    left._db.close()
    with left.path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(b"\xff" * 4096)
    left.unlock()
    publish(queue, "before")
    wait_for(lambda: str(left.path) in caplog.text)
    server.kill()
    assert set(publish(queue, *"abc")) == {Outcome.BUFFERED}
    server.start()
    wait_for(lambda: queue.depth("q") >= 3, seconds=20)
    assert payloads(queue)[-3:] == [b"a", b"b", b"c"]
    wait_for(lambda: [*folder.glob("*.spool")] == [left.path])


def test_only_the_first_publish_waits_for_a_silent_server(
    open_queue: Open, server: EmbeddedServer, folder: Path
) -> None:
    """It is stored once, although its first try reached the server; nothing else is asked."""
    queue = open_queue(on_unknown_task="reject")
    queue.publish(b"before", queue="q")
    payloads(queue)
    server.freeze()
    publish(queue, "first")
    queue.registry._answers.clear()
    queue.registry._looked_until = 0.0  # some seconds later
    began = time.monotonic()
    publish(queue, "a", "b", "c")
    assert time.monotonic() - began < SOON_SECONDS
    server.thaw()
    assert drained(queue, folder)
    assert payloads(queue) == [b"first", b"a", b"b", b"c"]


def test_a_process_that_starts_in_an_outage_buffers_at_once(
    open_queue: Open, server: EmbeddedServer, folder: Path
) -> None:
    """Its check of the server and its limits come when the server answers."""
    server.freeze()
    queue = open_queue(workspace_capacity=1)
    publish(queue, "a", "b")
    server.thaw()
    assert drained(queue, folder)
    assert payloads(queue) == [b"a", b"b"]


def test_a_buffered_publish_leaves_no_garbage(queue: FairQueue, server: EmbeddedServer) -> None:
    """Its collection would hold up a request for longer than anything else in the outage."""
    server.kill()
    publish(queue, "the first")
    gc.collect()
    gc.disable()
    try:
        publish(queue, *["x"] * 200)
        assert gc.collect() < 200
    finally:
        gc.enable()


def test_a_host_that_lets_no_caller_connect_is_found_as_soon(open_queue: Open) -> None:
    """Its packets are dropped, by a firewall say: only the probe waits for a connection."""
    with ExitStack() as closing:
        host = closing.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # none is accepted: behind these a connect has no answer
            caller = closing.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(host.getsockname())
        queue = open_queue(f"redis://127.0.0.1:{host.getsockname()[1]}/0")
        began = time.monotonic()
        assert publish(queue, "a", "b") == [Outcome.BUFFERED] * 2
        assert time.monotonic() - began < 3.0  # and not 5, the time-out of a connection
        queue.close()


def test_a_full_capacity_at_the_return_refuses_no_buffered_job(
    open_queue: Open, server: EmbeddedServer, folder: Path
) -> None:
    """Its caller was told that it is accepted. One whose key is held is still not repeated."""
    queue = open_queue(total_capacity=1)
    publish(queue, "kept", task="t", unique_key="k")
    with pytest.raises(CapacityExceeded):
        publish(queue, "refused")
    server.kill()
    publish(queue, "buffered", "another")
    publish(queue, "the same key", task="t", unique_key="k")
    publish(queue, "another key", task="t", unique_key="l")
    server.start()
    assert drained(queue, folder)
    assert publish(queue, "the other key", task="t", unique_key="l") == [Outcome.EXISTING]
    assert sorted(payloads(queue)) == [b"another", b"another key", b"buffered", b"kept"]


def test_due_times_and_expiries_count_from_the_call(
    queue: FairQueue, server: EmbeddedServer, folder: Path
) -> None:
    """A job that has expired meanwhile is a dead letter."""
    server.kill()
    publish(queue, "later", delay_seconds=3600)
    publish(queue, "now", delay_seconds=0.01)
    publish(queue, "expired", expires_seconds=0.01)
    server.start()
    assert drained(queue, folder)
    assert payloads(queue) == [b"now"]
    assert [letter.reason for letter in queue.dead.list()] == ["expired"]
    [waiting] = queue.views.waiting(queue="q").jobs
    assert waiting.due == pytest.approx(time.time() + 3600, abs=60)


def test_a_full_redis_is_an_outage(queue: FairQueue, server: EmbeddedServer, folder: Path) -> None:
    """It answers, but takes no job."""
    with server.client() as client:
        client.config_set("maxmemory", "1mb")
        assert publish(queue, "a", "b") == [Outcome.BUFFERED] * 2
        client.config_set("maxmemory", 0)
    assert drained(queue, folder)
    assert payloads(queue) == [b"a", b"b"]


def test_a_refused_user_is_no_outage(queue: FairQueue, server: EmbeddedServer) -> None:
    """The error of the ACL is raised."""
    with server.client() as client:
        client.acl_setuser("default", enabled=True, nopass=True, commands=["-@write"], keys="*")
        try:
            with pytest.raises(ConfigurationError, match="refuses this user"):
                publish(queue, "a")
        finally:
            client.acl_setuser("default", enabled=True, nopass=True, commands=["+@all"])
    assert queue.buffered == 0


def test_a_full_buffer_raises_the_error_of_the_outage(
    open_queue: Open, server: EmbeddedServer, folder: Path
) -> None:
    """What it has is sent."""
    queue = open_queue(buffer_jobs=2)
    server.kill()
    publish(queue, "a", "b")
    with pytest.raises(StoreUnavailable, match="the buffer is full: 2 of 2 jobs"):
        publish(queue, "c")
    server.start()
    assert drained(queue, folder)
    assert payloads(queue) == [b"a", b"b"]


def test_a_disk_that_cannot_keep_a_job_raises_the_error_of_the_outage(
    queue: FairQueue, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what the disk said."""

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Spool, "put", full)
    server.kill()
    with pytest.raises(StoreUnavailable, match="cannot keep the job: database or disk is full"):
        publish(queue, "a")


def test_a_process_without_descriptors_takes_its_own_error_for_no_answer(
    queue: FairQueue,
    server: EmbeddedServer,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither for one of a server that is away, nor for the refusal of a job."""
    asked = list[None]()

    def none_left(*_: object) -> None:
        asked.append(None)
        raise OSError(errno.EMFILE, "Too many open files")

    server.kill()
    publish(queue, "a")
    with monkeypatch.context() as patch:
        patch.setattr("fairqueue.buffer.outages.refuse_if_full", none_left)
        wait_for(lambda: len(asked) > 1)
    assert "answers again" not in caplog.text
    with monkeypatch.context() as patch:
        patch.setattr(queue.outages, "_clone", none_left)
        server.start()
        wait_for(lambda: "cannot be sent: [Errno" in caplog.text)
        assert queue.outages.counts()[:2] == (1, 0)
    assert drained(queue, folder)


def test_jobs_of_a_directory_that_has_gone_are_sent_and_no_more_are_kept(
    queue: FairQueue, server: EmbeddedServer, folder: Path
) -> None:
    """What the process has open it sends; what no other could find is not accepted."""
    server.kill()
    publish(queue, "a")
    folder.rename(folder.with_name("away"))
    with pytest.raises(StoreUnavailable, match=r"cannot keep the job: .*No such file"):
        publish(queue, "lost")
    queue.clone().close()
    folder.mkdir()
    publish(queue, "b")
    assert len([*folder.glob("*.spool")]) == 1
    server.start()
    assert drained(queue, folder)
    assert sorted(payloads(queue)) == [b"a", b"b"]


def test_a_relative_directory_outlives_the_working_directory(
    open_queue: Open, server: EmbeddedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a release, which a deploy removes while its processes end."""
    monkeypatch.chdir(folder)
    Path("release/spool").mkdir(parents=True)
    monkeypatch.chdir("release")
    queue = open_queue(buffer_path="spool")
    server.kill()
    publish(queue, "a")
    shutil.rmtree(folder / "release")
    server.start()
    assert drained(queue, folder)
    assert payloads(queue) == [b"a"]


def test_no_job_is_kept_beside_a_lock_that_has_gone(
    queue: FairQueue, server: EmbeddedServer, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process would not send it, but tell so; what cleans /tmp may take the one file."""
    server.kill()
    publish(queue, "a")
    [lock] = folder.glob("*.lock")
    lock.unlink()
    publish(queue, "b")
    queue.outages.close()
    server.start()
    queue.outages._start()
    wait_for(lambda: b"b" in payloads(queue))
    wait_for(lambda: "its .lock file has gone" in caplog.text)
    lock.touch()
    assert drained(queue, folder)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing but new jobs finds room on the disk of the spools, until this is undone."""
    keeps = Spool.change

    def full(spool: Spool, statement: str, *values: Any) -> None:
        if "jobs" in statement and not statement.startswith("INSERT"):
            raise sqlite3.OperationalError("database or disk is full")
        keeps(spool, statement, *values)

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "change", full)
        yield patch


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("has_ended", [False, True])
def test_jobs_that_fill_their_disk_are_sent_once(
    queue: FairQueue, server: EmbeddedServer, folder: Path, has_ended: bool
) -> None:
    """If nothing else is on the disk, only sending them frees it: this process, or another one."""
    server.kill()
    publish(queue, *map(str, range(150)))
    if has_ended:
        queue.outages.close()
    server.start()
    queue.outages._start()
    assert drained(queue, folder)
    assert payloads(queue) == [b"%d" % n for n in range(150)]


def test_a_disk_that_keeps_no_change_sends_nothing(
    queue: FairQueue, server: EmbeddedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job would be sent again and again. No process holds a spool in vain."""

    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    server.kill()
    publish(queue, "a", "b")
    queue.outages.close()
    server.start()
    wait_for(lambda: not queue.store.shards[0].engine.breaker.publishes.is_shut)
    outages = Outages(queue.settings, queue.store, queue.clone, queue.tally)
    monkeypatch.setattr(Spool, "change", broken)
    outages.adopt()
    assert outages.counts()[0] == 0
    monkeypatch.undo()
    outages.adopt()
    assert outages.counts()[0] == 2
    monkeypatch.setattr(Spool, "change", broken)
    outages.send()
    assert not queue.depth("q")
    monkeypatch.undo()
    outages.send()
    assert not [*folder.iterdir()]
    assert payloads(queue) == [b"a", b"b"]


def test_a_process_that_ends_while_it_sends_tells_no_error(
    queue: FairQueue,
    server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another process sends the rest, as after each deploy."""
    server.kill()
    publish(queue, "a")
    queue.outages.close()
    server.start()
    wait_for(lambda: not queue.store.shards[0].engine.breaker.publishes.is_shut)
    outages = Outages(queue.settings, queue.store, queue.clone, queue.tally)
    outages.adopt()
    settle = Spool.settle

    def ends(spool: Spool, *values: Any) -> None:
        outages.close()
        settle(spool, *values)

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "settle", ends)
        outages.send()
    assert "cannot be sent" not in caplog.text
    outages.adopt()
    outages.send()
    assert payloads(queue) == [b"a"]


def test_a_queue_whose_files_cannot_be_removed_at_its_close_begins_again(
    queue: FairQueue, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its disk has become read-only; the thread that sends may wait for the lock."""
    server.kill()
    publish(queue, "a")
    close, lock = Spool.close, queue.outages._lock

    def read_only(spool: Spool) -> None:
        close(spool)
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "close", read_only)
        queue.close()
    assert publish(queue, "b") == [Outcome.BUFFERED]
    assert queue.outages._lock is lock


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_is_forked_while_its_parent_ends_keeps_nothing_locked(
    queue: FairQueue, server: EmbeddedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process sends what the parent has left, however long the child lives."""
    server.kill()
    publish(queue, "a")
    close, children = Spool.close, list[int]()

    def forks(spool: Spool) -> None:
        child = os.fork()
        if not child:
            try:
                signal.pause()
            finally:
                os._exit(1)  # no second run of the tests
        children.append(child)
        close(spool)

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "close", forks)
        queue.outages.close()
    try:
        [path] = folder.glob("*.spool")
        wait_for(lambda: _is_free(path), seconds=5)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_is_forked_after_its_parent_has_closed_a_file_can_buffer(
    queue: FairQueue, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the parent has closed is not its to close: another file may have that descriptor."""
    server.kill()
    publish(queue, "a")
    close, children = Spool.close, list[int]()

    def forks(spool: Spool) -> None:
        close(spool)
        child = os.fork()
        if not child:
            signal.alarm(5)
            try:
                publish(queue, "b")
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)

    with monkeypatch.context() as patch:
        patch.setattr(Spool, "close", forks)
        queue.outages.close()
    assert os.waitpid(children[0], 0)[1] == 0


def _is_free(path: Path) -> bool:
    try:
        Spool(path).close()
    except BlockingIOError:
        return False
    return True


def test_a_running_job_buffers_nothing(queue: FairQueue, server: EmbeddedServer) -> None:
    """Its publish depends on its lease, and one that must not be lost is tried until it is in."""
    server.kill()
    job = JobContext("id", "default", 1, 1, store_id=queue.store.store_id)
    with run_context(job), pytest.raises(StoreUnavailable):
        publish(queue, "a")
    with pytest.raises(StoreUnavailable):
        publish(queue, "a", exempt=True)
    with pytest.raises(StoreUnavailable):
        publish(queue, "a", on_unavailable="raise")


def test_jobs_sent_together_are_buffered_together(
    queue: FairQueue, server: EmbeddedServer, folder: Path
) -> None:
    """Unless one of them may not be."""
    server.kill()
    jobs = [NewJob(b"%d" % n, "q") for n in range(3)]
    for _ in range(2):  # the first attempt finds the outage, the second knows of it
        outcomes = queue.publish_many(jobs)
        assert [each.outcome for each in outcomes] == [Outcome.BUFFERED] * 3  # type: ignore[union-attr]
    with pytest.raises(StoreUnavailable):
        queue.publish_many([*jobs, replace(jobs[0], on_unavailable="raise")])
    server.start()
    assert drained(queue, folder)
    assert payloads(queue) == [b"0", b"1", b"2"] * 2


def test_what_the_store_refuses_for_good_stays_with_its_reason(
    queue: FairQueue, open_queue: Open, server: EmbeddedServer, folder: Path
) -> None:
    """Jobs before and after it are sent. The next process tries it again."""
    server.kill()
    publish(queue, "a")
    publish(queue, "b" * 2_000_000)
    publish(queue, "c")
    server.start()
    with server.client() as client:
        client.config_set("proto-max-bulk-len", 1024 * 1024)
        wait_for(lambda: queue.outages.counts()[:2] == (0, 1))
        assert payloads(queue) == [b"a", b"c"]
        client.config_set("proto-max-bulk-len", 512 * 1024 * 1024)
    [path] = folder.glob("*.spool")
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT refused FROM jobs").fetchone()[0]
    db.close()
    queue.close()
    other = open_queue()
    publish(other, "d")
    assert drained(other, folder)
    assert sorted(map(len, payloads(other))) == [1, 2_000_000]


def test_what_is_refused_on_a_full_disk_holds_up_no_other(
    queue: FairQueue, server: EmbeddedServer, folder: Path, full_disk: pytest.MonkeyPatch
) -> None:
    """Its mark finds no room there. Once there is room, an operator can have it tried again."""
    server.kill()
    publish(queue, "a" * 2_000_000, "b", "c")
    server.start()
    with server.client() as client:
        client.config_set("proto-max-bulk-len", 1024 * 1024)
        wait_for(lambda: queue.outages.counts()[0] == 1)
        assert payloads(queue) == [b"b", b"c"]
        [path] = folder.glob("*.spool")
        full_disk.undo()
        wait_for(lambda: [each.refused for each in read_all(path) if each.refused])
        client.config_set("proto-max-bulk-len", 512 * 1024 * 1024)
    change(path, RETRY)
    assert drained(queue, folder)
    assert [len(each) for each in payloads(queue)] == [2_000_000]


def test_jobs_of_a_shard_that_answers_go_there_while_another_is_away(
    open_queue: Open, server: EmbeddedServer, folder: Path
) -> None:
    """Single jobs go to their shard; a batch for both is buffered, and its part for one is sent."""
    with two_servers() as (url, two):
        queue = open_queue(url)
        names = [next(n for n in map(str, range(99)) if shard_of(n, 2) == i) for i in (0, 1)]
        for name in names:
            publish(queue, "before", workspace=name)
        two.freeze()
        there, away = ([], [])
        for n in range(120):  # more than are read at once
            there += publish(queue, f"there {n}", workspace=names[0])
            away += publish(queue, f"away {n}", workspace=names[1])
        assert there == [Outcome.CREATED] * 120
        assert away == [Outcome.BUFFERED] * 120
        queue.publish_many([NewJob(b"together", "q", name) for name in names])
        wait_for(lambda: queue.buffered == 121)
        (spool,) = folder.glob("*.spool")  # what an operator changes is looked at again
        change(spool, "UPDATE jobs SET workspace = ? WHERE number IN (9, 10)", names[0])
        wait_for(lambda: queue.buffered == 119)
        two.thaw()
        assert drained(queue, folder)
        assert len(payloads(queue)) == 244


def test_what_a_full_buffer_leaves_of_a_batch_is_told(open_queue: Open, folder: Path) -> None:
    """One shard has its job; the buffer has no room for the others, and the error says so."""
    with two_servers() as (url, two):
        queue = open_queue(url, buffer_jobs=1)
        names = [next(n for n in map(str, range(99)) if shard_of(n, 2) == i) for i in (0, 1, 1)]
        for name in names:
            publish(queue, "before", workspace=name)
        two.kill()
        jobs = [NewJob(b"", "q", name) for name in names]
        with pytest.raises(PublishInterrupted, match="the buffer is full: 0 of 1") as caught:
            queue.publish_many(jobs)
        [done] = caught.value.outcomes
        assert isinstance(done, JobId)
        assert done.outcome is Outcome.CREATED


CHILD = """
import os, sys
from fairqueue import FairQueue
queue = FairQueue(sys.argv[1], namespace=sys.argv[2], buffer_path=sys.argv[3],
                  on_unavailable="buffer", on_missing_workspace="default")
for n in range(3):
    queue.publish(b"%d of parent" % n, queue="q")
if os.fork() == 0:
    queue.publish(b"of child", queue="q")
    print("kept", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_and_its_child_have_kept_is_sent_by_another(
    open_queue: Open, server: EmbeddedServer, folder: Path, namespace: str
) -> None:
    """Each has a file of its own, which no other takes while it lives."""
    server.kill()
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD, server.url, namespace, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"kept\n"
        other = open_queue()
        publish(other, "own")
        other.outages.adopt()
        assert other.buffered == 1  # the others live
        os.killpg(process.pid, signal.SIGKILL)
    assert len([*folder.glob("*.spool")]) == 3
    server.start()
    assert drained(other, folder)
    found = payloads(other)
    assert sorted(found) == [b"0 of parent", b"1 of parent", b"2 of parent", b"of child", b"own"]
    assert [text for text in found if b"parent" in text] == sorted(found)[:3]


def test_a_spool_of_another_store_is_left_alone(
    queue: FairQueue, open_queue: Open, server: EmbeddedServer, folder: Path
) -> None:
    """It is not sent to this one, and not removed."""
    server.kill()
    publish(queue, "a")
    other = Outages(queue.settings, open_queue(namespace="other").store, queue.clone, queue.tally)
    queue.outages.close()
    other.adopt()
    assert other.counts()[:2] == (0, 0)
    assert len([*folder.glob("*.spool")]) == 1


def test_a_damaged_file_holds_up_no_other(
    queue: FairQueue, server: EmbeddedServer, folder: Path
) -> None:
    """It stays; a queue that was closed and is used again sends what it had kept before."""
    key = _key(queue.store.store_id)
    damaged, locked = f"0-0.{key}", f"0-1.{key}"
    (folder / f"{damaged}.spool").write_bytes(b"no database" * 1000)
    (folder / f"{damaged}.lock").touch()
    (folder / f"{locked}.spool").touch()
    (folder / f"{locked}.lock").mkdir()  # as one of another user, which cannot be opened
    server.kill()
    publish(queue, "a")
    queue.close()
    publish(queue, "b")
    server.start()
    wait_for(lambda: {path.stem for path in folder.glob("*.spool")} == {damaged, locked})
    assert queue.depth("q") == 2


def test_a_file_of_another_user_is_a_failure_only_where_none_is_expected(
    open_queue: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a directory such as /tmp each user has its own."""

    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    queue, told = open_queue(), list[str]()
    (folder / f"0-0.{_key(queue.store.store_id)}.spool").touch()
    monkeypatch.setattr(os, "open", denied)  # root may open all
    monkeypatch.setattr(queue.outages, "_tell", lambda text, *_: told.append(text))
    folder.chmod(0o1777)
    queue.outages.adopt()
    assert not told
    folder.chmod(0o770)
    queue.outages.adopt()
    assert told


def test_two_queues_of_a_process_share_a_directory(
    queue: FairQueue, server: EmbeddedServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each names it in its own way: neither takes what the other is using."""
    server.kill()
    publish(queue, "a")
    monkeypatch.chdir(folder)
    settings = Settings.load({**queue.settings.given, "buffer_path": Path()})
    other = Outages(settings, queue.store, queue.clone, queue.tally)
    other.adopt()
    assert other.counts()[:2] == (0, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on_unavailable": "buffer"}, "needs the setting 'buffer_path': a directory"),
        ({"buffer_path": "/dev/null"}, "'/dev/null' is no directory that this process may write"),
        ({"buffer_path": "a\0b"}, "setting 'buffer_path': embedded null byte"),
        ({"buffer_path": "a" * 300}, "setting 'buffer_path': .* is no directory"),
        ({"on_unavailable": "bufer"}, "'raise', 'buffer', 'inline'"),
        ({"buffer_jobs": 0}, "largest number of jobs that one process buffers"),
    ],
)
def test_a_bad_setting_is_refused_at_the_start(settings: dict[str, Any], message: str) -> None:
    """The error says what to set."""
    with pytest.raises(ConfigurationError, match=message):
        FairQueue("memory://bad", **settings)


def test_a_bad_option_of_a_call_is_refused_at_the_call() -> None:
    """Also while the store answers."""
    with FairQueue("memory://bad") as queue:
        for asked, message in (
            ("bufer", "must be 'raise', 'buffer', 'inline'"),
            ("buffer", "needs"),
        ):
            with pytest.raises(ConfigurationError, match=message):
                publish(queue, "a", on_unavailable=asked)


def test_a_directory_that_cannot_be_written_is_refused_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the first outage."""
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(ConfigurationError, match="is no directory that this process may write to"):
        FairQueue("memory://bad", buffer_path=folder)


def test_another_job_of_the_same_message_is_sent_under_another_id(
    queue: FairQueue, server: EmbeddedServer, folder: Path
) -> None:
    """A framework may send a message twice. Two tries of one job are one job."""
    server.kill()
    for text in (b"one", b"two", b"two"):
        new = NewJob(text, "q", job_id="message", other_id=f"other.{text.decode()}")
        assert queue.publish_job(new, is_new=True).outcome is Outcome.BUFFERED
    server.start()
    assert drained(queue, folder)
    assert sorted(payloads(queue)) == [b"one", b"two"]
