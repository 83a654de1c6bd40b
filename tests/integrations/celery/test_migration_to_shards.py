"""``fairqueue migrate celery`` where the workspaces are spread over shards, and in a Cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from click.testing import CliRunner

from fairqueue import FairQueue
from fairqueue._stores.store import Store
from fairqueue.cli import main
from fairqueue.testing import EmbeddedServer
from fairqueue_celery._kombu_lists import adopt, transfer
from fairqueue_celery._kombu_lists.adopt import SpreadAdoption
from fairqueue_celery._kombu_lists.lists import KombuLists, Layout
from tests.integrations.celery.test_migration import (
    SOURCES,
    Interrupted,
    claimed,
    hold_all,
    interrupted,
    migrate,
    old,
    send,
    server,
)
from tests.nodes import Spread, cluster

__all__ = ["old", "server"]
SHARDS = 4
WORKSPACES = [f"workspace-{n}" for n in range(8)]


@pytest.fixture
def spread() -> Iterator[str]:
    """The URL of two servers with four shards."""
    servers = Spread()
    try:
        yield f"{servers.url}?shards={SHARDS}"
    finally:
        servers.close()


def send_all(old: Celery, each: int = 3) -> dict[str, list[str]]:
    """Send some tasks for each workspace; return their ids."""
    return {name: send(old, each, name) for name in WORKSPACES}


def waiting(core: FairQueue) -> Counter[str]:
    return Counter({row.workspace: row.waiting for row in core.views.stats().workspaces})


def test_messages_go_to_the_shards_of_their_workspaces(
    server: EmbeddedServer, old: Celery, spread: str
) -> None:
    """Those that wait or have a time, and what a killed worker held; each workspace in order."""
    send(old, 1, WORKSPACES[0], queue="other")
    hold_all(server)
    ids = send_all(old)
    send(old, 1, WORKSPACES[1], countdown=600)

    found = migrate("--from", server.url, "--to", spread, *SOURCES)

    assert found["complete"]
    assert found["queues"]["celery"] == len(WORKSPACES) * 3 + 1
    assert found["scheduled"] == 1
    with FairQueue(spread) as core:
        got = claimed(core)
        assert len(core.store.shards) == SHARDS
        assert sum(shard.depth("celery", running=True) > 0 for shard in core.store.shards) > 1
    for mine in ids.values():
        assert [one for one in got if one in mine] == mine
    with server.client() as client:
        assert not client.exists("celery", adopt.ASIDE)


def test_and_back(server: EmbeddedServer, old: Celery, spread: str) -> None:
    """All come back to the old lists, each once, and nothing is left on the shards."""
    sent = {one for ids in send_all(old).values() for one in ids}
    migrate("--from", server.url, "--to", spread, *SOURCES)

    found = migrate("--back", "--from", spread, "--to", server.url)

    assert (found["moved"], found["complete"]) == (len(sent), True)
    with server.client() as client:
        messages = client.lrange("celery", 0, -1)
        assert len(messages) == len(sent)
        assert all(any(one.encode() in message for message in messages) for one in sent)
    with FairQueue(spread) as core:
        assert core.depth("celery") == 0
        for shard in core.store.shards:
            prefix = shard.engine.keys.exported()
            assert not list(shard.engine.client.scan_iter(f"{prefix}*"))  # type: ignore[attr-defined]


def test_a_cluster_both_ways(server: EmbeddedServer, old: Celery, namespace: str) -> None:
    """The same on three primaries, whose scripts may touch keys of one slot only."""
    sent = sum(map(len, send_all(old).values()))
    with cluster() as nodes:
        url = f"{nodes.url.replace('redis+cluster', 'fairqueue+cluster')}?shards=8"
        arguments = ("--namespace", namespace)
        moved = migrate("--from", server.url, "--to", url, *arguments, *SOURCES)
        assert (moved["moved"], moved["without_workspace"]) == (sent, 0)
        with FairQueue(nodes.url, namespace=namespace, shards=8) as core:
            assert waiting(core) == dict.fromkeys(WORKSPACES, 3)
        back = migrate("--back", "--from", url, "--to", server.url, *arguments)
        assert (back["moved"], back["complete"]) == (sent, True)
    with server.client() as client:
        assert client.llen("celery") == sent


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["take", "import", "forget"])
def test_an_interrupted_import_neither_loses_nor_doubles_messages(
    server: EmbeddedServer,
    old: Celery,
    spread: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    step: str,
    when: str,
) -> None:
    """Wherever it is interrupted, a repeat imports the rest, each message once."""
    sent = {one for ids in send_all(old, each=1).values() for one in ids}
    owner: Any = {"take": transfer.Aside, "import": Store, "forget": transfer.Aside}[step]
    name = "import_message" if step == "import" else step
    stopped = interrupted(getattr(owner, name), when, 3)
    with FairQueue(spread, workspace_from=["kwarg:tenant_id"]) as core, server.client() as client:
        moving = SpreadAdoption(core, KombuLists(client, Layout()))
        monkeypatch.setattr(owner, name, stopped)
        with pytest.raises(Interrupted):
            moving.adopt("celery", most=100)
        monkeypatch.undo()

        migrate("--from", server.url, "--to", spread, *SOURCES)

        assert sorted(claimed(core)) == sorted(sent)
        assert not client.exists("celery", adopt.ASIDE)


def test_back_waits_for_another_number_of_shards(server: EmbeddedServer, spread: str) -> None:
    """Jobs of a workspace that moves are on two shards for a moment."""
    with FairQueue(spread) as core:
        core.publish(b"x", queue="celery", workspace="w")
        for shard in core.store.shards:
            shard.engine.command("HSET", shard.engine.keys.key("shard"), "shards", f"{SHARDS}>5")

    said = printed("--back", "--from", spread, "--to", server.url, code=2)

    assert "let 'fairqueue reshard' end first" in said


def printed(*arguments: str, code: int) -> str:
    """Run the command, which ends with this exit code; return what it prints."""
    result = CliRunner().invoke(main, ["migrate", "celery", *arguments])
    assert result.exit_code == code, result.output
    return result.output
