"""What looks after a store does so on every shard, and says which one it speaks of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairqueue import FairQueue, Settings
from fairqueue._stores.engine import Engine, Level, Remark
from fairqueue.audit import audit
from fairqueue.errors import StoreUnavailable
from fairqueue.operate.unseen_names import hint_of_unseen
from fairqueue.rows import Durability
from tests.shards.conftest import Both


def _lose_a_token(engine: Engine) -> None:
    engine.command("DEL", engine.keys.key("token", "q"))


@pytest.fixture
def damaged(both: Both) -> Both:
    """Jobs on every shard; two shards have the same damage."""
    for n in range(9):
        both.publish(f"w{n}", f"j{n}")
    for shard in both.sharded.shards[1:]:
        _lose_a_token(shard.engine)
    return both


def test_a_finding_says_on_which_shard_it_is(damaged: Both) -> None:
    """In a store of one shard it does not."""
    sharded, plain = damaged.admins
    texts = [finding.text for finding in sharded.doctor.audit()]
    assert [text.partition(": ")[0] for text in texts] == ["shard 1", "shard 2"]
    _lose_a_token(damaged.plain.engine)
    (finding,) = plain.doctor.audit()
    assert finding.text == texts[0].removeprefix("shard 1: ")


def test_every_shard_is_mended(damaged: Both) -> None:
    """Each repair says where; afterwards all is sound."""
    mended = damaged.admins[0].doctor.rebuild()
    assert [one.text.partition(": ")[0] for one in mended.repairs] == ["shard 1", "shard 2"]
    assert all(one.is_mended for one in mended.repairs)
    assert not mended.findings
    assert [audit(shard.engine) for shard in damaged.sharded.shards] == [[], [], []]


def test_a_checkup_looks_at_every_shard(damaged: Both) -> None:
    """Its remarks say which; the fleet is that of all, and told once."""
    damaged.sharded.shards[0].suspend_imports(1e9)  # the checkup has the server's clock
    damaged.sharded.heartbeat("o", "n", "fairqueue/1")
    checkup = damaged.admins[0].doctor.checkup(repair=True)
    assert not checkup.findings
    assert len(checkup.repairs) == 2
    told = {remark.about: remark.text for remark in checkup.remarks if remark.about != "queues"}
    assert told["imports"].startswith("shard 0: imports are suspended")
    assert told["workers"] == "alive: 1 × fairqueue/1"


def test_each_server_is_asked_once(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are several its remarks name it; several shards may be on one."""

    def remarks(engine: Engine) -> Iterator[Remark]:
        yield Remark(Level.INFO, "server", f"asked as shard {engine.shard}")

    kind = type(both.sharded.shards[0].engine)
    monkeypatch.setattr(kind, "remarks", remarks)

    def told() -> list[str]:
        return [
            one.text for one in both.admins[0].doctor.checkup().remarks if one.about == "server"
        ]

    assert told() == ["asked as shard 0"]
    monkeypatch.setattr(kind, "server", property(lambda engine: f"h{engine.shard % 2}:6379"))
    assert told() == ["h0:6379: asked as shard 0", "h1:6379: asked as shard 1"]


def test_a_name_is_known_that_any_shard_knows(both: Both) -> None:
    """A similar one on another shard is pointed out."""
    for n in range(9):
        both.publish(f"w{n}", f"j{n}", queue="mails", task="send")
    known = [("workspace", f"w{n}") for n in range(9)] + [("queue", "mails"), ("task", "send")]
    assert [hint_of_unseen(both.sharded, *each) for each in known] == [None] * 11
    assert "did you mean 'mails'?" in (hint_of_unseen(both.sharded, "queue", "mail") or "")


@pytest.mark.usefixtures("servers_apart")
def test_a_queue_is_full_if_all_its_servers_are(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for a job whose workspace is not known: one that is full or away stops no other.

    What is published to that one is refused there.
    """
    queue = FairQueue(settings=Settings(), store=both.sharded)
    monkeypatch.setattr(queue, "_connected", lambda: both.sharded)

    def full(*_: object) -> None:
        raise StoreUnavailable("out of memory")

    for shard in both.sharded.shards:
        queue.refuse_if_full()
        monkeypatch.setattr(shard.engine, "command", full)
    with pytest.raises(StoreUnavailable, match="out of memory"):
        queue.refuse_if_full()


def test_of_several_servers_the_least_durable_is_told(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that drops jobs, and whether any has no append-only file."""
    queue = FairQueue(settings=Settings(), store=both.sharded, brings_limits=False)
    answers: list[Durability | None] = [
        Durability("noeviction", evicts_jobs=False, appends=False),
        Durability("allkeys-lru", evicts_jobs=True, appends=True),
        None,
    ]
    for shard, answer in zip(both.sharded.shards, answers, strict=True):
        monkeypatch.setattr(shard.engine, "durability", lambda answer=answer: answer)
    assert queue.views.durability() == Durability("allkeys-lru", evicts_jobs=True, appends=False)
