"""Limits over all shards while their number changes: they hold, and all of each is used after."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import ConfigurationError, FairQueue, Lease, Scope
from fairqueue._stores.engine import Engine
from fairqueue._stores.layout import Mark
from fairqueue._stores.store import Store
from tests.shards.conftest import Namespace
from tests.shards.test_reshard import FROM, NAMES, TO
from tests.unit.conftest import Shell

LIMIT = 4


class Runs:
    """Jobs that run in several processes, never more than the limit."""

    def __init__(self) -> None:
        self.leases: list[tuple[FairQueue, Lease]] = []
        self.done: list[str] = []

    def claim(self, queue: FairQueue) -> None:
        for _ in range(3):  # one that was refused takes a call more
            self.leases += [(queue, lease) for lease in queue.claim(["q"], 10).leases]
        assert len(self.leases) <= LIMIT

    def end(self, n: int = 1) -> None:
        for queue, lease in self.leases[:n]:
            queue.ack(lease)
            self.done.append(lease.job.id)
        del self.leases[:n]


@pytest.mark.parametrize(
    "limits", [{"total_concurrency": LIMIT}, {"queues": {"q": {"concurrency": LIMIT}}}]
)
@pytest.mark.parametrize("to", [TO, 2])
def test_a_limit_holds_while_the_number_changes(
    processes: Namespace, monkeypatch: pytest.MonkeyPatch, to: int, limits: dict[str, Any]
) -> None:
    """Jobs run all the while, in processes that know the old number and in those that know it."""
    monkeypatch.setattr("fairqueue._claim.permits.REFUSED_SECONDS", 0.0)
    old = processes.open(FROM, **limits)
    put = [
        old.publish(b"", queue="q", workspace=name, job_id=f"{name}-{n}")
        for name in NAMES
        for n in range(4)
    ]
    runs = Runs()
    runs.claim(old)
    assert len(runs.leases) == LIMIT
    new: list[FairQueue] = []
    call, calls = Engine.call, 0

    def beside(engine: Engine, operation: str, /, **given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 40 == 0:
            with pytest.MonkeyPatch.context() as inside:
                inside.setattr(Engine, "call", call)
                new[:] = new or [processes.open(to, **limits)]
                runs.end(2)
                for queue in (*new, old):
                    runs.claim(queue)
                runs.end(LIMIT)
        return call(engine, operation, **given)

    runs.end(LIMIT)
    monkeypatch.setattr(Engine, "call", beside)
    assert old.doctor.reshard(to).is_done
    monkeypatch.setattr(Engine, "call", call)
    assert new
    while len(runs.done) < len(put):
        runs.claim(old)
        assert len(runs.leases) == min(LIMIT, len(put) - len(runs.done))
        runs.end(LIMIT)
    assert sorted(runs.done) == sorted(put)
    assert processes.findings(to) == []


def test_jobs_that_run_while_one_shard_becomes_several_count(
    processes: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They began without permits."""
    old = processes.open(1, total_concurrency=LIMIT)
    for name in NAMES:
        old.publish(b"", queue="q", workspace=name)
    runs = Runs()
    runs.claim(old)
    assert len(runs.leases) == LIMIT
    set_moves = Store.set_moves

    def claim_then(shard: Store, change: Mark | None, **how: bool) -> None:
        set_moves(shard, change, **how)
        runs.claim(old)
        runs.claim(processes.open(2, total_concurrency=LIMIT))

    monkeypatch.setattr(Store, "set_moves", claim_then)
    old.doctor.reshard(2, wait_seconds=0.1)
    assert len(runs.leases) == LIMIT


@pytest.mark.parametrize("new_engine", ["memory"], indirect=True)
def test_more_shards_than_a_capacity_are_refused(processes: Namespace) -> None:
    """Nothing has changed then."""
    queue = processes.open(FROM)
    queue.limits.set(Scope.queue("q"), capacity=4)
    with pytest.raises(ConfigurationError, match="queue 'q': capacity is 4, and each of 5 shards"):
        queue.doctor.reshard(TO)
    assert queue.doctor.reshard(4).is_done


@pytest.fixture
def url(redis_url: str) -> str:
    return f"{redis_url}?shards=1"


def test_a_second_command_is_refused(url: str, namespace: str) -> None:
    """With exit code 4, while the first may be at work; one that was killed is forgotten."""
    shell = Shell(url, namespace)
    with FairQueue(url, namespace=namespace) as queue:
        queue.connect()
        assert queue.store.shards[0].hold_moves("another", 30.0)
    found = shell.run("reshard", "--to", "4", code=4)
    assert "another process changes the number of shards" in found.stderr


def test_the_plan_changes_nothing(url: str, namespace: str) -> None:
    """``--dry-run`` counts; what is refused is a sentence."""
    shell = Shell(url, namespace)
    with FairQueue(url, namespace=namespace) as queue:
        for n in range(30):
            queue.publish(b"", queue="q", workspace=f"w{n}")
    told = shell.json("reshard", "--to", "4", "--dry-run")
    assert told["dry_run"] is True
    assert told["jobs"] == told["workspaces"]
    assert 15 < told["workspaces"] < 30
    assert "would move" in shell.run("reshard", "--to", "4", "--dry-run").stdout
    assert shell.json("stats")["totals"]["waiting"] == 30
    assert "never become one" in shell.run("reshard", "--to", "1", code=2).stderr
