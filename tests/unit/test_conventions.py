"""Conventions of this project that no linter checks: sizes, imports, public names, vocabulary."""

from __future__ import annotations

import ast
import inspect
import re
import statistics
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution
from inspect import ismodule
from pathlib import Path

import pytest

import fairqueue
from fairqueue import FairQueue, adapters
from tests import vocabulary

ROOT = Path(__file__).parents[2]
CODE = sorted([*ROOT.glob("fairqueue/**/*.py"), *ROOT.glob("integrations/**/*.py")])
LUA = sorted(ROOT.glob("fairqueue/lua/**/*.lua"))
TESTS = sorted(ROOT.glob("tests/**/test_*.py"))

PRAGMA = re.compile(r"\s+# (noqa|type: ignore)\b.*")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@pytest.fixture(autouse=True, scope="module")
def _no_trees_left() -> Iterator[None]:
    """A million nodes would make each later collection of garbage slow."""
    yield
    _tree.cache_clear()


def _code_lines(path: Path) -> int:
    """Count lines that are neither blank nor a comment; docstrings count."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return sum(bool(line) and not line.startswith(("#", "--")) for line in lines)


def _function_lengths() -> list[int]:
    functions = [n for p in CODE for n in ast.walk(_tree(p)) if isinstance(n, ast.FunctionDef)]
    return sorted((f.end_lineno or 0) - f.body[0].lineno + 1 for f in functions)


def test_functions_are_short() -> None:
    """Half of them have six lines or fewer, 19 of 20 at most 25, docstrings included."""
    lengths = _function_lengths()
    assert statistics.median(lengths) <= 6
    assert lengths[len(lengths) * 95 // 100] <= 25


@pytest.mark.parametrize("path", CODE, ids=_name)
def test_a_python_file_is_short_and_says_what_it_is_for(path: Path) -> None:
    """It begins with a docstring and has at most 400 lines of code."""
    assert ast.get_docstring(_tree(path))
    assert _code_lines(path) <= 400


@pytest.mark.parametrize("path", LUA, ids=_name)
def test_a_lua_file_is_short_and_says_what_it_is_for(path: Path) -> None:
    """It begins with a comment and has at most 300 lines of code."""
    assert path.read_text().startswith("--")
    assert _code_lines(path) <= 300


@pytest.mark.parametrize("path", [*CODE, *LUA], ids=_name)
def test_lines_are_short(path: Path) -> None:
    """No line is longer than 100 characters, pragmas for linters apart."""
    lines = [PRAGMA.sub("", line) for line in path.read_text().splitlines()]
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.parametrize("path", TESTS, ids=_name)
def test_every_test_states_its_claim(path: Path) -> None:
    """Every test function has a docstring."""
    functions = [n for n in ast.walk(_tree(path)) if isinstance(n, ast.FunctionDef)]
    tests = [f for f in functions if f.name.startswith("test_")]
    assert [f.name for f in tests if not ast.get_docstring(f)] == []


def _module(path: Path) -> str:
    """Return the name under which a product file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "integrations" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path): path for path in CODE}
REFERENCE = re.compile(r"([A-Za-z_][\w.]*)(:[\w.]+)?")


def _parents(module: str) -> list[str]:
    """Return a module and the packages that are imported with it."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _imported(path: Path) -> Iterator[str]:
    """Yield full names of what a file imports, in functions and as ``"module:object"``, too."""
    package = _module(path).split(".")
    package = package if path.name == "__init__.py" else package[:-1]
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            reference = REFERENCE.fullmatch(node.value)
            if reference and reference[1] in MODULES:
                yield reference[1]


def _entry_points() -> set[str]:
    """Return the modules that the wheel's scripts and entry points name."""
    modules = {point.module for point in distribution("fairqueue").entry_points}
    assert {"fairqueue.cli", "fairqueue_kombu_alias"} <= modules
    return modules


ROOTS = {
    "fairqueue": "imported by users",
    "fairqueue.adapters": "imported by integrations",
    "fairqueue.rows": "imported by users",
    "fairqueue.testing": "imported by users' tests",
    "fairqueue.cli.__main__": "run with python -m",
    "fairqueue_celery": "imported by users",
    "fairqueue_dramatiq": "imported by users",
    "fairqueue_web": "imported by users",
    "fairqueue_web.asgi": "imported by users",
    "fairqueue_web.wsgi": "imported by users",
    "fairqueue_web.fastapi": "imported by users",
    "fairqueue_web.flask": "imported by users",
    "fairqueue_web.django": "named in INSTALLED_APPS",
    "fairqueue_web.django.apps": "found by Django",
    "fairqueue_web.django.middleware": "named in MIDDLEWARE",
    "fairqueue_web.django.management.commands.fairqueue": "found by Django",
    "fairqueue.demo.shop.customers": "the demo's app, run as a script in its folder",
    "fairqueue.demo.shop.tasks": "the demo's app, run as a script in its folder",
}


def _reached(roots: set[str]) -> set[str]:
    """Return all modules that these import, directly or indirectly."""
    reached: set[str] = set()
    waiting = [parent for root in roots for parent in _parents(root)]
    while waiting:
        module = waiting.pop()
        if module in MODULES and module not in reached:
            reached.add(module)
            waiting += [p for name in _imported(MODULES[module]) for p in _parents(name)]
    return reached


def test_no_product_module_is_for_tests_only() -> None:
    """Each one is reached from a public module or an entry point of the wheel."""
    assert set(MODULES) - _reached(ROOTS.keys() | _entry_points()) == set()


ADAPTERS = [
    path for path in CODE if {"integrations", "cli", "demo"} & set(path.relative_to(ROOT).parts)
]


@pytest.mark.parametrize("path", ADAPTERS, ids=_name)
def test_adapters_command_line_and_demo_use_public_modules(path: Path) -> None:
    """They import nothing private of fairqueue's, however the import is written."""
    own = f"{_module(path).rpartition('.')[0]}."
    private = {name for name in _imported(path) if re.match(r"fairqueue\._(?!_)", name)}
    assert {name for name in private if not name.startswith(own)} == set()


def test_public_names_exist_and_stand_in_one_list() -> None:
    """All can be imported, none is private, users have few, and adapters have others."""
    assert len(fairqueue.__all__) <= 40
    assert all(hasattr(fairqueue, name) for name in fairqueue.__all__)
    of_adapters = [name for name, what in vars(adapters).items() if not ismodule(what)]
    both = {*fairqueue.__all__} & {*of_adapters}
    assert not both
    assert not [name for name in fairqueue.__all__ if name.startswith("_")]


def _public(owner: type) -> list[str]:
    return [name for name in vars(owner) if not name.startswith("_")]


def test_a_queue_has_few_methods() -> None:
    """FairQueue has at most 25 public methods, each documented; the rest is in its parts."""
    assert len(_public(FairQueue)) <= 25
    assert [n for n in _public(FairQueue) if not inspect.getdoc(getattr(FairQueue, n))] == []


def test_no_retired_name_is_used() -> None:
    """Code, messages and docs use no retired name."""
    found = vocabulary.hits()
    assert not found, "\n" + "\n".join(map(str, found))


def test_the_programs_in_tests_typing_are_checked() -> None:
    """Mypy reads them with the rest: the folder is neither left out nor empty."""
    config = (ROOT / "pyproject.toml").read_text()
    assert 'files = ["fairqueue", "integrations", "tests"]' in config
    excluded = re.findall(r'^exclude = \["(.*)"\]', config, re.MULTILINE)
    programs = [_name(path) for path in ROOT.glob("tests/typing/*.py")]
    assert len(programs) >= 4
    assert not [p for p in programs for pattern in excluded if re.search(pattern, p)]


def test_a_number_of_things_is_told_by_one_helper() -> None:
    """``counted``, or of one of them it would be told as of several."""
    plural = re.compile(r"\{[^{}]*:,\} (?:more )?(?!bytes)[a-z]{2,}s\b")
    code = [path for path in CODE if "demo" not in path.parts]
    assert [hit for path in code for hit in plural.findall(path.read_text())] == []
