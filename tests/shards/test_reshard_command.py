"""The command that changes the number of shards, beside processes of its own on a real Redis."""

from __future__ import annotations

import json

import pytest

from fairqueue import FairQueue, StoreUnavailable
from tests.resharded import reshard
from tests.system.ledger import wait_for
from tests.unit.conftest import Shell

NAMES = [f"w{n}" for n in range(30)]


@pytest.fixture
def url(redis_url: str) -> str:
    return f"{redis_url}?shards=1"


@pytest.mark.slow
def test_a_live_system_changes_its_shards(url: str, namespace: str) -> None:
    """Jobs are published and run before, while and after; each runs once. A kill changes nothing.

    The command is killed while it moves and started again, and a second one is refused.
    """
    put: list[str] = []
    run: list[str] = []
    refused: list[str] = []
    with FairQueue(url, namespace=namespace) as queue:

        def publish() -> None:
            for name in (*NAMES, f"new-{len(put)}"):
                try:
                    put.append(queue.publish(b"", queue="q", workspace=name, task="t"))
                except StoreUnavailable as error:
                    refused.append(str(error))

        def work() -> None:
            leases = queue.claim(["q"], 8).leases
            run.extend(lease.job.id for lease in leases)
            for lease in leases:
                queue.ack(lease)

        for _ in range(40):
            publish()
        first = reshard(url, namespace, "--to", "5")
        marks = queue.store.shards[0].engine
        while not marks.command("HEXISTS", marks.keys.key("limits"), "moves"):
            publish()
            work()
            assert first.poll() is None
        first.kill()
        first.communicate()
        second = reshard(url, namespace, "--to", "5")
        assert "another process changes the number of shards" in second.communicate()[1]
        assert second.returncode == 4
        wait_for(lambda: marks.command("HDEL", marks.keys.key("moved"), ""))  # not for 30 s
        third = reshard(url, namespace, "--to", "5")
        while third.poll() is None:
            publish()
            work()
        told = json.loads(third.communicate()[0])
        assert (told["shards"], told["to"], told["late"], told["is_done"]) == (1, 5, [], True)
        publish()
        assert len(queue.store.shards) == 5
        while len(run) < len(put):
            n = len(run)
            work()
            assert len(run) > n
    assert sorted(run) == sorted(put)
    assert all("moves to another shard" in text for text in refused)
    shell = Shell(f"{url.partition('?')[0]}?shards=5", namespace)
    assert shell.json("doctor")["findings"] == []
    assert (
        "on 5 shards, and this process is set up for 1"
        in Shell(url, namespace).run("stats", code=2).stderr
    )


def test_the_plan_changes_nothing(url: str, namespace: str) -> None:
    """``--dry-run`` counts; what is refused is a sentence."""
    shell = Shell(url, namespace)
    with FairQueue(url, namespace=namespace) as queue:
        for name in NAMES:
            queue.publish(b"", queue="q", workspace=name)
    told = shell.json("reshard", "--to", "4", "--dry-run")
    assert told["dry_run"] is True
    assert told["jobs"] == told["workspaces"]
    assert 15 < told["workspaces"] < 30
    assert "would move" in shell.run("reshard", "--to", "4", "--dry-run").stdout
    assert shell.json("stats")["totals"]["waiting"] == len(NAMES)
    assert "never become one" in shell.run("reshard", "--to", "1", code=2).stderr
