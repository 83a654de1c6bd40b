"""The Lua modules stand in an order, and each idea has one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from fairqueue._stores.library import MODULES, load, operations, read_source, table_of

MOST_MODULES = 36
"""Modules that a claim reaches."""
LIBRARY = load()
PLACE = {table_of(module): place for place, module in enumerate(MODULES)}
SOURCES = [*operations(), "calls/base", *MODULES]


def _table(function: str) -> str:
    return function.partition(".")[0]


def _references(text: str) -> Iterator[str]:
    """Each function of a module that a text names."""
    for table, name in re.findall(r"\b([A-Z]\w*)\.(\w+)", text):
        if table in PLACE:
            yield f"{table}.{name}"


def _calls() -> Iterator[tuple[str, str]]:
    """Every function of a module, and each function or value of a module that it names."""
    for name, text in LIBRARY.functions.items():
        for called in _references(text):
            yield name, called


def test_the_order_names_every_module() -> None:
    """There is no file that the order leaves out, and none that it names and is not there."""
    folder = Path(str(files("fairqueue"))) / "lua"
    found = {str(file.relative_to(folder))[:-4] for file in folder.glob("*/*.lua")}
    assert {name for name in found if not name.startswith("api/")} == {"calls/base", *MODULES}


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
        named |= set(_references(read_source(operation)))
    values = re.findall(r"^(\w+\.\w+) = ", "\n".join(map(read_source, SOURCES)), re.MULTILINE)
    assert named <= {*LIBRARY.functions, *values}


def test_every_function_is_called() -> None:
    """No function is left over."""
    reached = LIBRARY.reached("".join(map(read_source, operations())) + "Commit.run()")
    assert reached == LIBRARY.functions.keys()


@pytest.mark.parametrize("module", MODULES)
def test_a_module_keeps_nothing_between_calls(module: str) -> None:
    """The library keeps its variables: but for constants, a call's state is in ``S``."""
    text = read_source(module)
    names = re.findall(r"^local (?!function )(\w+(?:, \w+)*)", text, re.MULTILINE)
    assert [name for name in names if not re.fullmatch(r"[A-Z_]+(, [A-Z_]+)*", name)] == []
    constants = "|".join(re.findall(r"[A-Z_]+", " ".join(names)) or ["-"])
    written = rf"{table_of(module)}\.\w+|(?<![\w.])(?:{constants})(?:\.\w+|\[.*?\])?"
    assert re.findall(rf"^ +(?:.*, )?(?:{written})(?:, .*)? = ", text, re.MULTILINE) == []


def test_the_state_of_a_call_is_named_once() -> None:
    """What a module keeps in ``S`` is told, with how it begins, in ``calls/base``."""
    used = {name for source in SOURCES for name in re.findall(r"\bS\.(\w+)", read_source(source))}
    told = read_source("calls/base").partition("-- What S has")[2].partition("local NEW_STATE")[0]
    assert used == set(re.findall(r"\b([a-z_]+) = ", told))


def test_a_function_is_in_its_module() -> None:
    """``Lanes.push`` stands in ``state/lanes.lua``."""
    for module in MODULES:
        names = re.findall(r"^function (\w+)\.", read_source(module), re.MULTILINE)
        assert set(names) == {table_of(module)}


def test_a_claim_reaches_few_modules() -> None:
    """A reader of the longest script meets a bounded number of modules."""
    reached = {_table(name) for name in LIBRARY.reached(read_source("claim"))}
    assert len(reached) <= MOST_MODULES


def _sources_with(pattern: str) -> set[str]:
    return {name for name in SOURCES if re.search(pattern, read_source(name))}


def test_settle_alone_decides_where_a_flow_stands() -> None:
    """No other module takes a flow into a ready set or out of one."""
    assert _sources_with(r"\bOrder\.(enter|leave)\(ws|\bOrder\.(enter|leave)\(b") == {
        "scheduler/settle"
    }
    assert _sources_with(r"'Z(ADD|REM|INCRBY)', K\.(ready|reserved)\(") == {"scheduler/order"}


def test_a_record_has_one_codec() -> None:
    """A job's record is read and written by one module, as are leases and dead letters."""
    assert _sources_with(r"'HGET', K\.jobs\(|'HSET', K\.jobs\(") == {"state/jobs"}
    assert _sources_with(r"'H[GS]ET', K\.leases\(") == {"state/lease_records"}
    assert _sources_with(r"'H[GS]ET', K\.dead_letters\(") == {"state/dead_letters"}
    assert _sources_with(r"\[\^:\]\+\)?:\(\.\*\)") == {"state/jobs"}


SMALL = {"token", "permit_token"}
"""Kinds of which a key is a word, or the reply to one call."""


def test_only_small_keys_are_deleted_in_the_foreground() -> None:
    """All calls wait while a deleted key is freed: what may be large is unlinked."""
    deleted = [found for name in SOURCES for found in re.findall(r"'DEL', (.*)", read_source(name))]
    kinds = {match[1] for text in deleted if (match := re.match(r"K\.(\w+)\(", text))}
    assert len(deleted) == len(re.findall(r"K\.", " ".join(deleted)))
    assert kinds == SMALL
