"""The Lua scripts, their headers and the store's methods agree in names and arguments."""

from __future__ import annotations

import inspect
import re

import pytest
import redis

from fairqueue._stores.library import load, operations, read_source, route_of
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.sharded.merges import MERGES
from fairqueue._stores.sharded.router import Router
from fairqueue._stores.store import Store, StoreBase

NOT_OPERATIONS = {
    "clone",
    "close",
    "dead_letters",
    "ended_permits",
    "export_jobs",
    "fleet",
    "forget_forwardings",
    "has_limits",
    "home",
    "is_leased",
    "is_parent",
    "is_stored",
    "keep_parent",
    "keep_forwarding",
    "look",
    "moving",
    "names",
    "names_parents",
    "shard_settings",
    "stored_limits",
    "waiter",
    "workers",
    "would_store",
}
"""These run no script, or those of others."""
OF_ONE_SHARD = {"due_schedules", "index_tasks", "rebuild"}
"""These no sharded store does, though every store has them."""
ROUTES = {"workspace", "ticket", "fence", "scope", "all", "first", "there", "turns"}


def _methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}


def _bound(text: str) -> list[str] | None:
    """Names to which a script binds its arguments; None if it takes none apart."""
    found = re.search(r"^local (.+?)\s*= unpack\(ARGV\)", text, re.MULTILINE | re.DOTALL)
    return re.split(r",\s*", found[1]) if found else None


def test_every_operation_is_a_script_and_a_method() -> None:
    """``lua/api/claim.lua`` is ``Store.claim``; the engine alone reads ``heads``."""
    assert _methods(Store) - NOT_OPERATIONS == set(operations()) - {"heads"}
    assert _methods(Store) >= NOT_OPERATIONS


@pytest.mark.parametrize("name", operations())
def test_a_header_names_what_the_script_binds(name: str) -> None:
    """ARGV in the header, and the names to which the script binds it, are the same."""
    text = read_source(name)
    arguments = load().arguments_of(name)
    assert arguments[0] == "now"
    bound = _bound(text)
    assert bound is not None or arguments == ("now",)
    for argument, local in zip(arguments[1:], (bound or [])[1:], strict=True):
        assert local in {argument, f"{argument}_name", "name", "_"}


@pytest.mark.parametrize("name", operations())
def test_a_script_says_what_it_is_for(name: str) -> None:
    """Its first line is prose; arguments and what it returns follow."""
    first, *rest = read_source(name).splitlines()
    assert re.fullmatch(r"-- [A-Z].*\.", first)
    assert any(line.startswith("-- RETURNS ") for line in rest[:6])


@pytest.mark.parametrize("name", operations())
def test_a_header_says_which_shards_are_asked(name: str) -> None:
    """Each operation of a sharded store has a ROUTE, and a method of its own only if it says so."""
    route, merge, _ = route_of(name)
    if hasattr(StoreBase, name) and name not in OF_ONE_SHARD:
        assert route in ROUTES
    else:
        assert not route
    assert merge in {*MERGES, "own"}
    is_routed = getattr(ShardedStore, name, None) is vars(Router).get(name)
    assert is_routed == (merge != "own")


@pytest.mark.parametrize("name", operations())
def test_no_operation_commits_by_itself(name: str) -> None:
    """The library adds the commit; what says that it writes nothing is registered so."""
    body = read_source(name)
    assert "Records.save()" not in body
    assert "Wakeups.settle_tokens()" not in body


def test_redis_compiles_every_operation(redis_client: redis.Redis) -> None:
    """As a library, and each by itself."""
    library = load()
    assert redis_client.function_load(library.text, replace=True)
    for name in operations():
        assert redis_client.script_load(library.script(name))


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_a_wrong_argument_is_refused(redis_client: redis.Redis, kind: str) -> None:
    """Callers pass arguments by name; a missing or unknown one is a TypeError."""
    engine = MemoryEngine() if kind == "memory" else RedisEngine(redis_client)
    with pytest.raises(TypeError, match="depth takes"):
        engine.call("depth", now="")
    with pytest.raises(TypeError, match="depth takes"):
        engine.call("depth", now="", queue="q", more=1)
