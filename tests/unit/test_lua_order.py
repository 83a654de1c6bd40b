"""The Lua modules stand in an order, and each idea has one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

import pytest

from fairqueue._stores.linker import MODULES, Modules, operations, read_source, table_of

MOST_LINES = 300
MOST_MODULES = 34
"""Modules that a claim reaches."""
LONGEST_LINE = 100

LINKED = Modules()
PLACE = {table_of(module): place for place, module in enumerate(MODULES)}
SOURCES = [*operations(), "modules/base", *(f"modules/{module}" for module in MODULES)]


def _table(function: str) -> str:
    return function.partition(".")[0]


def _calls() -> Iterator[tuple[str, str]]:
    """Every function of a module, and each function or value of a module that it names."""
    for name, text in LINKED.functions.items():
        for _, called in LINKED.references(text):
            yield name, called


def test_the_order_names_every_module() -> None:
    """There is no file that the order leaves out, and none that it names and is not there."""
    folder = files("fairqueue") / "lua" / "modules"
    assert {entry.name for entry in folder.iterdir()} == {
        f"{module}.lua" for module in ("base", *MODULES)
    }


def test_a_call_goes_down() -> None:
    """A function names only functions of its own module or of a lower one: there is no cycle."""
    upward = [
        f"{name} calls {called}"
        for name, called in _calls()
        if PLACE[_table(called)] > PLACE[_table(name)]
    ]
    assert upward == []


def test_every_name_is_there() -> None:
    """What a module or an operation names is a function, or a value of a module's opening."""
    named = {called for _, called in _calls()}
    for operation in operations():
        named |= {called for _, called in LINKED.references(read_source(operation))}
    openings = " ".join(LINKED.openings.values())
    values = {name for _, name in LINKED.references(openings)}
    assert named <= set(LINKED.functions) | values


def test_every_function_is_called() -> None:
    """No function is left over."""
    reached: set[str] = set()
    for operation in operations():
        reached |= LINKED.reached(read_source(operation))
    reached |= LINKED.reached("Wakeups.settle_tokens() Records.save() Rescue.after()")
    assert set(LINKED.functions) <= reached


def test_a_constant_has_one_meaning() -> None:
    """All modules of a script share one scope: of two locals of a name the last would count."""
    found = re.findall(
        r"^local ([\w, ]+?)(?: =|$)", "\n".join(LINKED.openings.values()), re.MULTILINE
    )
    names = [name for names in found for name in names.split(", ")]
    assert sorted(set(names)) == sorted(names)


def test_a_function_is_in_its_module() -> None:
    """``Lanes.push`` stands in ``modules/lanes.lua``."""
    for module in MODULES:
        names = re.findall(r"^function (\w+)\.", read_source(f"modules/{module}"), re.MULTILINE)
        assert set(names) == {table_of(module)}


def test_a_claim_reaches_few_modules() -> None:
    """A reader of the longest script meets a bounded number of modules."""
    reached = {_table(name) for name in LINKED.reached(read_source("claim"))}
    assert len(reached) <= MOST_MODULES


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_is_short(name: str) -> None:
    """At most 300 lines, no long one, and the first says what the file is for."""
    lines = read_source(name).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= LONGEST_LINE
    assert re.match(r"-- [A-Z]", lines[0])


def _sources_with(pattern: str) -> set[str]:
    return {name for name in SOURCES if re.search(pattern, read_source(name))}


def test_settle_alone_decides_where_a_flow_stands() -> None:
    """No other module takes a flow into a ready set or out of one."""
    assert _sources_with(r"\bOrder\.(enter|leave)\(ws|\bOrder\.(enter|leave)\(b") == {
        "modules/settle"
    }
    assert _sources_with(r"'Z(ADD|REM|INCRBY)', K\.(ready|reserved)\(") == {"modules/order"}


def test_a_record_has_one_codec() -> None:
    """A job's record is read and written by one module, as are leases and dead letters."""
    assert _sources_with(r"'HGET', K\.jobs\(|'HSET', K\.jobs\(") == {"modules/jobs"}
    assert _sources_with(r"'H[GS]ET', K\.leases\(") == {"modules/lease_records"}
    assert _sources_with(r"'H[GS]ET', K\.dead_letters\(") == {"modules/dead_letters"}
    assert _sources_with(r"%d\+\)?:\(\.\*\)") == {"modules/jobs"}


SMALL = {"token", "imports_suspended", "retention", "claimer"}
"""Kinds of which a key is a word, or the reply to one call."""


def test_only_small_keys_are_deleted_in_the_foreground() -> None:
    """All calls wait while a deleted key is freed: what may be large is unlinked."""
    deleted = [found for name in SOURCES for found in re.findall(r"'DEL', (.*)", read_source(name))]
    kinds = {match[1] for text in deleted if (match := re.match(r"K\.(\w+)\(", text))}
    assert len(deleted) == len(re.findall(r"K\.", " ".join(deleted)))
    assert kinds == SMALL
