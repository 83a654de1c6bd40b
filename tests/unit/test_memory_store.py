"""The memory store: who names the same URL has the same store."""

from __future__ import annotations

import os

import pytest

from fairqueue import ConfigurationError, FairQueue
from fairqueue._stores.memory import MemoryStore, open_memory
from fairqueue._stores.memory.ordered import Ordered


def test_the_same_url_is_the_same_store(namespace: str) -> None:
    """Within a process, for whoever opens it."""
    with FairQueue("memory://", namespace=namespace) as one:
        one.publish(b"x", queue="q")
    with FairQueue("memory://", namespace=namespace) as other:
        assert other.depth("q") == 1


def test_names_and_namespaces_are_apart(namespace: str) -> None:
    """``memory://name`` is a store of its own, and so is each namespace."""
    stores = [
        open_memory("memory://", namespace=namespace),
        open_memory("memory://one", namespace=namespace),
        open_memory("memory://two", namespace=namespace),
        open_memory("memory://", namespace=namespace + "x"),
    ]
    for n, store in enumerate(stores):
        for queue in map(str, range(n)):
            store.declare(queue, plain=True)
    known = [sum(store.is_plain(str(q)) is True for q in range(4)) for store in stores]
    assert known == [0, 1, 2, 3]


def test_stores_without_a_url_are_apart() -> None:
    """A store made directly is nobody else's."""
    one, other = MemoryStore(), MemoryStore()
    one.declare("q", plain=True)
    assert other.is_plain("q") is None


# Where eventlet was imported before, it warns of every fork of this process.
@pytest.mark.filterwarnings("ignore:Using fork:DeprecationWarning")
def test_a_fork_is_told_that_it_has_a_copy() -> None:
    """In a forked child every call is refused with the remedy, so that no job is lost unseen."""
    store = MemoryStore()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.depth("q")
        except ConfigurationError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"lives in one process" in os.read(read, 1000)
    os.close(read)
    os.close(write)


def test_production_never_brings_a_clock(namespace: str) -> None:
    """Without a clock a job that is due in a moment comes in a moment."""
    with FairQueue("memory://", namespace=namespace) as queue:
        queue.publish(b"x", queue="q", delay_seconds=0.01)
        assert len(queue.claim(["q"], wait_seconds=5).leases) == 1


def test_ordered_keeps_scores_and_members() -> None:
    """By score, then member; moving and taking out keep the order."""
    order: Ordered[str] = Ordered()
    for member, score in {"b": 1.0, "a": 1.0, "c": 0.5, "d": 9.0}.items():
        order.put(member, score)
    order.put("d", 0.1)
    assert order.until(1.0, 9) == ["d", "c", "a", "b"]
    assert (order.until(0.5, 1), order.highest(), order.first()) == (["d"], 1.0, (0.1, "d"))
    assert order.take("c")
    assert not order.take("c")
    assert len(order) == 3


def test_an_unknown_scheme_is_refused() -> None:
    """A misspelt URL is no memory store."""
    with pytest.raises(ConfigurationError, match="memory"):
        FairQueue("memoria://")
