"""``doctor --repair`` runs while workers work: it takes nothing from them, and mends the rest."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from fairqueue.cli import main
from tests.system.ledger import wait_for

WORKSPACES = ("ada", "bob", "cleo", "dan")
EACH = 50


def _damage(core: Any, random: Random) -> None:
    """Take away what says where a workspace stands, or write what means nothing; no job is hurt."""
    engine = core.store.shards[0].engine
    key, name = engine.keys.key, random.choice(WORKSPACES)
    damages: tuple[tuple[str | float, ...], ...] = (
        ("HDEL", key("workspaces"), name),
        ("DEL", key("ready", "celery")),
        ("DEL", key("indebted", "celery")),
        ("DEL", key("token", "celery")),
        ("HSET", key("progress"), "77", "nonsense"),
        ("ZADD", key("timer"), 1, "ghost"),
        ("SADD", key("slots", "ghost"), 77),
        ("ZADD", key("indebted", "celery"), 3, "ghost"),
    )
    engine.command(*random.choice(damages))


@pytest.mark.parametrize("is_damaged", [False, True], ids=["sound", "damaged"])
def test_it_takes_nothing_from_busy_workers(shop: Any, *, is_damaged: bool) -> None:
    """Each job runs once, within its workspace's limit, and at the end everything is sound."""
    url, random = shop.url(workspace_concurrency=2), Random(7)
    publisher, where = shop.publisher(url), ["--namespace", shop.namespace, "--url", url]
    for n in range(EACH):
        for w, workspace in enumerate(WORKSPACES):
            kwargs = {"seconds": 0.1}
            publisher.send("work_late", n + w * EACH, kwargs=kwargs, workspace=workspace)
    shop.worker("-P", "threads", "-c", "6", url=url).ready()
    runs, mended = 0, list[str]()
    with shop.core(brings_limits=False) as core:
        while len(shop.ledger.lines("end")) < EACH * len(WORKSPACES):
            for _ in range(3 * is_damaged):
                _damage(core, random)
            told = CliRunner().invoke(main, ["doctor", "--repair", "--json", *where])
            assert told.exit_code in {0, 1}, told.output
            mended += [one["text"] for one in json.loads(told.stdout)["repairs"]]
            runs += 1
        wait_for(lambda: not any(map(shop.running, WORKSPACES)))
        CliRunner().invoke(main, ["doctor", "--repair", *where])
        wait_for(lambda: core.doctor.audit() == [], seconds=10)

    assert runs >= 3
    assert bool(mended) == is_damaged, mended
    ended = [line["n"] for line in shop.ledger.lines("end")]
    assert sorted(ended) == list(range(EACH * len(WORKSPACES)))
    assert len(shop.ledger.lines("start")) == len(ended)
    for workspace in WORKSPACES:
        assert shop.ledger.most_at_once(workspace=workspace) <= 2
