"""The memory engine: one URL is one store in one process."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from random import Random

import pytest

from fairqueue import ConfigurationError, FairQueue, Job, Settings
from fairqueue._stores import open_store, waiter
from fairqueue._stores.engine import Entry
from fairqueue._stores.memory import Database, MemoryEngine
from fairqueue._stores.memory.commands import Commands
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission
from fairqueue.testing import ManualClock
from tests.contract.world import World


def test_the_same_url_is_the_same_store(namespace: str) -> None:
    """Queues with one URL share their jobs within a process."""
    with FairQueue("memory://", namespace=namespace) as one:
        one.publish(b"x", queue="q")
    with FairQueue("memory://", namespace=namespace) as other:
        assert other.depth("q") == 1


def test_names_and_namespaces_are_separate_stores(namespace: str) -> None:
    """Each ``memory://name`` is a separate store, and so is each namespace."""
    stores = [
        open_store("memory://", settings=Settings.load({"namespace": namespace})),
        open_store("memory://one", settings=Settings.load({"namespace": namespace})),
        open_store("memory://two", settings=Settings.load({"namespace": namespace})),
        open_store("memory://", settings=Settings.load({"namespace": namespace + "x"})),
    ]
    for n, store in enumerate(stores):
        for queue in map(str, range(n)):
            store.declare(queue, plain=True)
    known = [sum(store.is_plain(str(q)) is True for q in range(4)) for store in stores]
    assert known == [0, 1, 2, 3]


# Where eventlet was imported before, it warns of every fork of this process.
@pytest.mark.filterwarnings("ignore:Using fork:DeprecationWarning")
def test_a_fork_cannot_use_its_copy() -> None:
    """In a forked child every call raises an error with the remedy, so that no job is lost."""
    store = Store(MemoryEngine())
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


@pytest.mark.parametrize("package", ["lupa", "sortedcontainers"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its extra, ``memory://`` says what to install; all else works without it."""
    for name in [name for name in sys.modules if name.startswith("fairqueue._stores.memory")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=rf"package {package}: .*fairqueue\[memory\]"):
        FairQueue("memory://")
    FairQueue("redis://localhost:1").close()


def test_an_unreferenced_store_is_freed() -> None:
    """Its jobs and its Lua state are freed with the last reference."""
    others = [id(each) for each in gc.get_objects() if type(each) is Commands]
    store = Store(MemoryEngine())
    store.declare("q", plain=True)
    found = (each for each in gc.get_objects() if type(each) is Commands)
    (commands,) = [weakref.ref(each) for each in found if id(each) not in others]
    del store
    gc.collect()
    assert commands() is None


def _keys_of_a_day(seed: int) -> list[Entry]:
    """Return all keys after some simulated hours of publishes and claims."""
    clock = ManualClock()
    engine = MemoryEngine(Database(clock=clock, random=Random(seed)))
    world = World(Store(engine, clock=clock), clock)
    worker, choose = world.worker(), Random(seed)
    for n in range(200):
        key = f"k{choose.randrange(20)}"
        job = Job(f"j{n}", f"w{choose.randrange(9)}", "q", "t", b"")
        world.store.publish(job, Admission(unique_key=key, unique_for=60.0))
        clock.advance(choose.expovariate(1))
        for lease in worker.take(2):
            worker.finish(lease, choose.random())
    return list(engine.dump())


def test_a_simulation_can_be_repeated_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same clock and random seed, all keys and their order are the same."""
    monkeypatch.setattr(waiter, "JITTER", (1.0, 1.0))
    one, again, other = map(_keys_of_a_day, (1, 1, 2))
    assert one == again != other
