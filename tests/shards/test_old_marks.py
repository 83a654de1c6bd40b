"""A change of the number of shards that an older process has begun: marks had no count then."""

from __future__ import annotations

import pytest

from fairqueue._stores.layout import Mark, mark_of
from tests.shards.test_reshard import FROM, NAMES, TO, Namespace, processes

__all__ = ["processes"]


@pytest.mark.parametrize("mark", [f"{FROM}>{TO}", str(TO)], ids=["under way", "all but ended"])
def test_a_change_that_an_older_process_began_is_ended(processes: Namespace, mark: str) -> None:
    """It wrote ``3>5``, and ``5`` where this one writes ``5.1``; publishes go on meanwhile."""
    queue = processes.open(FROM)
    for name in NAMES:
        queue.publish(b"", queue="q", workspace=name, task="t")
    shards = [processes.shard(n) for n in range(TO)]
    for shard in shards:
        keys = shard.engine.keys
        shard.engine.command("SET", keys.key("shards"), f"{FROM}>{TO}")
        shard.engine.command("HSET", keys.key("limits"), "moves", FROM, "spread", TO)
        shard.engine.command("HDEL", keys.key("tasks"), "#plain")
    if mark == str(TO):
        for shard in shards:
            shard.engine.command("SET", shard.engine.keys.key("shards"), mark)
    assert queue.admin.reshard(TO).is_done
    for name in NAMES:
        queue.publish(b"", queue="q", workspace=name, task="t")
        processes.open(TO).publish(b"", queue="q", workspace=name, task="t")
    assert {mark_of(shard.engine) for shard in shards} == {Mark(TO, 1)}
    assert processes.findings(TO) == []
