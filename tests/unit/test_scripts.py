"""Lua is source code: its interface is its header, and three sets of names agree."""

from __future__ import annotations

import inspect
import re

import pytest
import redis

from fairqueue._keys import Keys
from fairqueue._linker import file_names, read_source
from fairqueue._scripts import Scripts, load, operations
from fairqueue._store import Store
from fairqueue._stores.memory import MemoryStore
from fairqueue._stores.redis import RedisStore

NOT_OPERATIONS = {"check", "waiter", "clone", "close"}  # these run no script
MOST_LINES = 80


def _methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}


def _bound(text: str) -> list[str] | None:
    """Names to which a script binds its arguments; None if it takes none apart."""
    found = re.search(r"^local (.+?)\s*= unpack\(ARGV\)", text, re.MULTILINE | re.DOTALL)
    return re.split(r",\s*", found[1]) if found else None


def test_every_operation_is_a_script_and_a_method() -> None:
    """``Store.claim``, ``lua/claim.lua`` and ``RedisStore.claim`` are one thing."""
    assert set(Store.__abstractmethods__) - NOT_OPERATIONS == set(operations())
    assert set(operations()) <= _methods(RedisStore)


@pytest.mark.parametrize("kind", [RedisStore, MemoryStore])
def test_a_store_adds_no_operation(kind: type[Store]) -> None:
    """What a store can do beyond the contract is how it is opened."""
    assert _methods(kind) - set(Store.__abstractmethods__) <= {"from_url"}


@pytest.mark.parametrize("kind", [RedisStore, MemoryStore])
@pytest.mark.parametrize("name", sorted(Store.__abstractmethods__))
def test_a_method_takes_what_the_contract_says(kind: type[Store], name: str) -> None:
    """Names, kinds and defaults of every argument are those of the contract."""
    contract = inspect.signature(getattr(Store, name)).parameters.values()
    own = inspect.signature(getattr(kind, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in own] == [
        (p.name, p.kind, p.default) for p in contract
    ]


@pytest.mark.parametrize("name", operations())
def test_a_header_names_what_the_script_binds(name: str) -> None:
    """ARGV in the header, and the names to which the script binds it, are the same."""
    text = read_source(name)
    arguments = load()[name].arguments
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


@pytest.mark.parametrize("name", file_names())
def test_a_lua_file_is_short(name: str) -> None:
    """At most 80 lines, and its first line says what it is for."""
    lines = read_source(name).splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[0].startswith("-- ")


@pytest.mark.parametrize("name", operations())
def test_redis_takes_every_script(name: str, redis_client: redis.Redis) -> None:
    """Each linked script is compiled by the server without complaint."""
    assert redis_client.script_load(load()[name].text)


def test_a_wrong_argument_is_refused(redis_client: redis.Redis, namespace: str) -> None:
    """Callers pass names, not positions: what is missing or too much is a TypeError."""
    scripts = Scripts(redis_client, Keys(namespace))
    with pytest.raises(TypeError, match="depth takes"):
        scripts.call("depth", now="")
    with pytest.raises(TypeError, match="depth takes"):
        scripts.call("depth", now="", queue="q", more=1)
