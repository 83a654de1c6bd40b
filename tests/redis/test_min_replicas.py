"""With ``min_replicas`` a call that returns is on as many replicas as the setting says."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairqueue import ConfigurationError, FairQueue, Outcome, Settings, StoreUnavailable
from fairqueue.adapters import Ending, Finish, released
from fairqueue.testing import EmbeddedServer
from tests.nodes import MovedName, data_node, moved_name
from tests.system.ledger import wait_for
from tests.unit.conftest import Shell

pytestmark = pytest.mark.system


@pytest.fixture
def name() -> Iterator[MovedName]:
    """A primary with a replica."""
    with moved_name() as name:
        wait_for(name.is_replicated)
        yield name


def _open(name: MovedName, *, replica_wait_seconds: float = 2.0) -> FairQueue:
    waits = {"replica_wait_seconds": replica_wait_seconds}
    settings = Settings.load({"min_replicas": 1, **waits})
    return FairQueue(f"redis://127.0.0.1:{name.primary.port}/0", settings=settings)


@pytest.mark.usefixtures("_traced_or_not")
def test_what_was_confirmed_survives_its_primary(name: MovedName) -> None:
    """Killed right after each call: the replica has the job, its lease, and its end."""
    with _open(name) as queue:
        for _ in range(20):
            queue.publish(b"x", queue="q", workspace="w")
        leases = queue.claim(["q"], 10).leases
        for lease in leases[:5]:
            queue.ack(lease)
        name.primary.kill()
    name.replica.replicate(None)
    with FairQueue(f"redis://127.0.0.1:{name.replica.port}/0") as after:
        (row,) = after.views.stats().workspaces
        assert (row.waiting, row.running) == (10, 5)


@pytest.mark.usefixtures("_traced_or_not")
def test_a_replica_that_is_silent(name: MovedName) -> None:
    """The first call says that it may be lost; the next ones are not sent until it is back."""
    with _open(name) as queue:
        queue.publish(b"x", queue="q", workspace="w", job_id="one")
        name.replica.freeze()
        with pytest.raises(StoreUnavailable, match=r"0 of min_replicas=1.*the primary has it"):
            queue.publish(b"x", queue="q", workspace="w", job_id="two")
        assert queue.depth("q") == 2
        name.replica.thaw()
        wait_for(lambda: name.replica.follows(name.primary))
        queue.publish(b"x", queue="q", workspace="w", job_id="two")
        assert queue.depth("q") == 2


def test_a_publish_is_repeated_by_another_process(name: MovedName) -> None:
    """It finds the job of the first, which no replica has, and says so."""
    with _open(name) as one, _open(name) as two:
        one.connect()
        two.connect()
        name.replica.freeze()
        for queue in (one, two):
            with pytest.raises(StoreUnavailable, match=r"0 of min_replicas=1.*the primary has it"):
                queue.publish(b"x", queue="q", workspace="w", job_id="two")
        name.replica.thaw()


def test_buffered_jobs_wait_for_the_replica(name: MovedName, tmp_path: Path) -> None:
    """No publish waits for a replica that is known to be silent; none is refused by then."""
    url = f"redis://127.0.0.1:{name.primary.port}/0"
    how = {"on_unavailable": "buffer", "buffer_path": tmp_path}
    settings = Settings.load({"min_replicas": 1, "replica_wait_seconds": 0.1, **how})
    with FairQueue(url, settings=settings) as queue:
        queue.publish(b"x", queue="q", workspace="w")
        name.replica.freeze()
        queue.publish(b"x", queue="q", workspace="w")
        slowest, until = 0.0, time.monotonic() + 4.0
        while (began := time.monotonic()) < until:
            assert queue.publish(b"x", queue="q", workspace="w").outcome is Outcome.BUFFERED
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.05)
        assert slowest < 0.1
        name.replica.thaw()
        wait_for(lambda: not queue.buffered and not [*tmp_path.iterdir()])


def test_a_slow_replica_is_no_outage(name: MovedName, tmp_path: Path) -> None:
    """It has the time that the setting gives it, also where jobs may be buffered."""
    url = f"redis://127.0.0.1:{name.primary.port}/0"
    how = {"on_unavailable": "buffer", "buffer_path": tmp_path}
    settings = Settings.load({"min_replicas": 1, "replica_wait_seconds": 3.0, **how})
    with FairQueue(url, settings=settings) as queue:
        queue.connect()
        name.replica.freeze()
        threading.Timer(1.2, name.replica.thaw).start()
        assert queue.publish(b"x", queue="q", workspace="w").outcome is Outcome.CREATED


@pytest.mark.usefixtures("_traced_or_not")
def test_a_replica_that_is_gone(name: MovedName) -> None:
    """No job is leased that its worker would not get, and none is stored after the first."""
    with _open(name) as queue:
        queue.publish(b"x", queue="q", workspace="w")
        name.replica.kill()
        with pytest.raises(StoreUnavailable, match="the primary has it"):
            queue.publish(b"x", queue="q", workspace="w")
        with pytest.raises(StoreUnavailable, match="nothing was sent"):
            queue.publish(b"x", queue="q", workspace="w")
        with pytest.raises(StoreUnavailable, match="nothing was sent"):
            queue.claim(["q"], 2)
        assert queue.depth("q", running=True) == 2
        (row,) = queue.views.stats().workspaces
        assert (row.waiting, row.running) == (2, 0)
        name.replica.start()
        name.replica.replicate(name.primary)
        wait_for(lambda: name.replica.follows(name.primary))
        assert len(queue.claim(["q"], 2).leases) == 2


@pytest.mark.usefixtures("_traced_or_not")
def test_a_full_primary(name: MovedName) -> None:
    """Jobs are claimed and ended, as without replicas, and free its memory."""
    with _open(name) as queue:
        for _ in range(3):
            queue.publish(b"x" * 1000, queue="q", workspace="w")
        name.primary.run("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="out of memory"):
            queue.publish(b"x", queue="q", workspace="w")
        for lease in queue.claim(["q"], 3).leases:
            queue.ack(lease)
        assert queue.depth("q", running=True) == 0
        assert queue.doctor.audit() == []


def test_a_policy_that_evicts_what_expires(name: MovedName) -> None:
    """Is refused here: without its reply, a repeated claim would take other jobs."""
    name.primary.run("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    with _open(name) as queue, pytest.raises(ConfigurationError, match="what min_replicas needs"):
        queue.connect()


def test_a_claim_that_was_not_confirmed_is_got_by_the_next_one(name: MovedName) -> None:
    """It leased a job; its worker gets that one when the replica is back."""
    with _open(name) as queue:
        job = queue.publish(b"x", queue="q", workspace="w")
        name.replica.freeze()
        with pytest.raises(StoreUnavailable, match="the primary has it"):
            queue.claim(["q"], 1)
        name.replica.thaw()
        wait_for(lambda: name.replica.follows(name.primary))
        assert [lease.job.id for lease in queue.claim(["q"], 1).leases] == [job]


def test_a_call_that_only_reads_waits_for_no_replica(redis_server: EmbeddedServer) -> None:
    """Where there is none, reads are answered, and a write fails in the time that is set."""
    settings = Settings.load({"min_replicas": 1, "replica_wait_seconds": 0.1})
    with FairQueue(redis_server.url, brings_limits=False, settings=settings) as queue:
        assert queue.depth("q") == 0
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="0 of min_replicas=1"):
            queue.publish(b"x", queue="q", workspace="w")
        assert time.monotonic() - begun < 2


def test_operators_are_told_which_replicas_are_missing(name: MovedName, namespace: str) -> None:
    """Every publish is refused then: ``status`` and ``doctor`` say so, of each server."""
    with contextlib.closing(data_node().start()) as alone:
        ports = name.primary.port, alone.port
        urls = [f"redis://127.0.0.1:{port}/0?min_replicas=1" for port in ports]
        both = Shell(f"redis://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/0?min_replicas=1", "two")
        good, bad = (Shell(url, namespace) for url in urls)

        enough = "in step: 1 of 1 connected replica"
        missing = "in step: 0 of 0 connected replicas; min_replicas is 1, so publishes and claims"
        assert _of_replicas(good.json("status")) == [("info", enough)]
        for command in ("status", "doctor"):
            ((level, text),) = _of_replicas(bad.json(command, code=1))
            assert level == "problem"
            assert text.startswith(missing)
            told = [text for _, text in _of_replicas(both.json(command, code=1))]
            assert told[0] == f"127.0.0.1:{ports[0]}: {enough}"
            assert told[1].startswith(f"127.0.0.1:{ports[1]}: {missing}")


def _of_replicas(found: dict[str, Any]) -> list[tuple[str, str]]:
    told = found["remarks"]
    return [(one["level"], one["text"]) for one in told if one["about"] == "replicas"]


@pytest.mark.usefixtures("_traced_or_not")
@pytest.mark.parametrize("first", ["claim", "publish"])
def test_a_stop_reports_to_a_primary_without_replicas(name: MovedName, first: str) -> None:
    """What has ended does not run again, and what was claimed in vain waits, also acked early."""
    with _open(name) as queue:
        for _ in range(3):
            queue.publish(b"x", queue="q", workspace="w", task="t")
        ended, back = queue.claim(["q"], 2).leases
        name.replica.kill()
        calls: dict[str, Callable[[], object]] = {
            "claim": lambda: queue.claim(["q"], 1, acks_early=["t"]),
            "publish": lambda: queue.publish(b"x", queue="q", workspace="w"),
        }
        for call in (calls[first], lambda: queue.ack(ended), lambda: queue.release(back)):
            with pytest.raises(StoreUnavailable, match="of min_replicas=1"):
                call()
    with FairQueue(f"redis://127.0.0.1:{name.primary.port}/0") as after:
        (row,) = after.views.stats().workspaces
        assert (row.waiting, row.running) == (2 if first == "claim" else 3, 0)
        assert after.doctor.audit() == []


@pytest.mark.parametrize("by_claim", [True, False])
def test_a_stop_reports_all_ends_to_a_primary_without_replicas(
    name: MovedName, *, by_claim: bool
) -> None:
    """Also those that only a claim has reported, more than one call's, and early acks."""
    with _open(name) as queue:
        for _ in range(60):
            queue.publish(b"x", queue="q", workspace="w", task="t")
        leases = queue.claim(["q"], 60).leases
        name.replica.kill()
        ends = [Finish(lease.fence, seconds=0.0) for lease in leases[:40]]
        ends += [Finish(lease.fence, Ending.ACK_EARLY) for lease in leases[40:]]
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="of min_replicas=1"):
                queue.claim(["q"], 0, finishes=ends) if by_claim else queue.finish(ends)
        back = [released(lease.fence) for lease in leases[40:]]
        with pytest.raises(StoreUnavailable, match="of min_replicas=1"):
            queue.finish(back)
    with FairQueue(f"redis://127.0.0.1:{name.primary.port}/0") as after:
        (row,) = after.views.stats().workspaces
        assert (row.waiting, row.running) == (20, 0)


def test_a_stop_reports_to_a_new_primary_without_replicas(name: MovedName) -> None:
    """Also where the old one answered the last claim no more, which takes no job there now."""
    settings = Settings.load({"min_replicas": 1})
    with FairQueue(f"redis://127.0.0.1:{name.port}/0", settings=settings) as queue:
        for _ in range(2):
            queue.publish(b"x", queue="q", workspace="w")
        (lease,) = queue.claim(["q"], 1).leases
        name.promote()
        with pytest.raises(StoreUnavailable, match="read-only"):
            queue.claim(["q"], 1)
        name.replica.kill()
        name.move()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                queue.publish(b"x", queue="q", workspace="w")
        with pytest.raises(StoreUnavailable, match="of min_replicas=1"):
            queue.ack(lease)
    with FairQueue(f"redis://127.0.0.1:{name.port}/0") as after:
        (row,) = after.views.stats().workspaces
        assert row.running == 0
