"""Children of Celery tasks under SIGKILL, and more parents than there are processes or places."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairqueue import CapacityExceeded, Scope
from tests.system.ledger import wait_for
from tests.system.limits_of_one import limit_everything_to_one

POINTS = 8


@pytest.fixture
def family(shop: Any) -> Any:
    """A shop of parents and children, whose results are in the same Redis."""
    shop.app_name = "family"
    shop.config = {"result_backend": f"redis+socket://{shop._server.socket_path}"}
    return shop


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet"])
def test_three_levels_where_everything_is_limited_to_one(family: Any, pool: str) -> None:
    """One process, thread or greenlet, and limits of one at every level."""
    url = family.url(total_concurrency=1)
    with family.core() as core:
        limit_everything_to_one(core, "shop.root", "shop.parent", "shop.child")
    family.worker("-P", pool, "-c", "1", url=url).ready()
    for name in ("ada", "bea"):
        family.publisher(url).send("root", 3, workspace=name)
    family.ledger.wait("root", 2, seconds=25)  # no wait for a poll
    assert sorted(row["n"] for row in family.ledger.lines("effect")) == [0, 0, 1, 1, 2, 2]
    assert [row["values"] for row in family.ledger.lines("root")] == [[0, 1, 2]] * 2


def test_each_child_is_sent_once_wherever_the_worker_dies(family: Any, tmp_path: Path) -> None:
    """Around the publish, its note, the suspension, the child's end and the word of it."""
    died = tmp_path / "died"
    died.mkdir()
    url = family.url(lease_seconds=1, max_deliveries=99, workspace_concurrency=1)
    family.publisher().send("parent", 2, workspace="ada")
    for _ in range(POINTS):
        worker = family.worker("-P", "solo", url=url, SHOP_DIED=str(died))
        wait_for(lambda: worker.process.poll() is not None)  # noqa: B023
    assert len(list(died.iterdir())) == POINTS
    family.worker("-P", "solo", url=url, SHOP_DIED=str(died))
    family.ledger.wait("parent", 1)
    assert Counter(row["n"] for row in family.ledger.lines("effect")) == {0: 1, 1: 1}
    assert [row["values"] for row in family.ledger.lines("parent")] == [[0, 1]]


@pytest.mark.parametrize(
    ("parents", "children", "capacity"),
    [(24, 3, 8), pytest.param(200, 5, 50, marks=pytest.mark.long)],
)
def test_parents_that_fill_all_places_do_not_lock_out_their_children(
    family: Any, parents: int, children: int, capacity: int
) -> None:
    """Three levels, at a limit of one of a task and a capacity that suspended parents fill."""
    url = family.url(lease_seconds=10, workspace_capacity=capacity, total_concurrency=4)
    with family.core() as core:
        core.limits.set(Scope.task("shop.root"), concurrency=1)
    worker = family.worker("-P", "prefork", "-c", "4", url=url).ready()
    publisher = family.publisher(url)
    publisher.send("root", children, workspace="ada")
    sent = 0

    def send() -> bool:
        nonlocal sent
        with suppress(CapacityExceeded):
            while sent < parents:
                publisher.send("parent", children, workspace="ada")
                sent += 1
        return sent == parents

    wait_for(send, seconds=180)
    family.ledger.wait("parent", parents + 1, seconds=180)
    family.ledger.wait("root", 1)
    effects = Counter(row["key"] for row in family.ledger.lines("effect"))
    assert set(effects.values()) == {1}
    assert len(effects) == (parents + 1) * children
    assert len(family.ledger.lines("parent")) == parents + 1
    assert worker.process.poll() is None
