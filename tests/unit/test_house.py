"""The house keeps its own rules where no linter does."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

import fairqueue

ROOT = Path(__file__).parents[2]
CODE = sorted([*ROOT.glob("fairqueue/**/*.py"), *ROOT.glob("integrations/**/*.py")])
TESTS = sorted(ROOT.glob("tests/**/test_*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _code_lines(path: Path) -> int:
    """Lines that are neither empty, comment nor docstring."""
    source = path.read_text()
    lines = {n for n, line in enumerate(source.splitlines(), 1) if line.strip()}
    lines -= {n for n, line in enumerate(source.splitlines(), 1) if line.lstrip().startswith("#")}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _function_lengths() -> list[int]:
    trees = [ast.parse(path.read_text()) for path in CODE]
    functions = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return sorted((f.end_lineno or 0) - f.body[0].lineno + 1 for f in functions)


def test_functions_are_short() -> None:
    """Half of them have six lines or fewer, 19 of 20 at most 25, docstrings counted."""
    lengths = _function_lengths()
    assert statistics.median(lengths) <= 6
    assert lengths[len(lengths) * 95 // 100] <= 25


@pytest.mark.parametrize("path", CODE, ids=_name)
def test_a_room_says_what_it_is_for(path: Path) -> None:
    """Every file begins with a docstring and holds at most 250 lines of code."""
    assert ast.get_docstring(ast.parse(path.read_text()))
    assert _code_lines(path) <= 250


@pytest.mark.parametrize("path", TESTS, ids=_name)
def test_every_test_states_its_claim(path: Path) -> None:
    """Every test function has a docstring."""
    tree = ast.parse(path.read_text())
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    tests = [f for f in functions if f.name.startswith("test_")]
    assert [f.name for f in tests if not ast.get_docstring(f)] == []


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    return found | {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}


ADAPTERS = [path for path in CODE if {"integrations", "cli", "demo"} & set(path.parts)]


@pytest.mark.parametrize("path", ADAPTERS, ids=_name)
def test_adapters_use_the_public_face(path: Path) -> None:
    """No adapter, command or part of the demo imports a private room of fairqueue's, new or old."""
    assert {name for name in _imports(path) if name.startswith("fairqueue._")} == set()


def test_the_public_face_holds() -> None:
    """All that is promised can be imported, sorted, and nothing private is in it."""
    assert list(fairqueue.__all__) == sorted(fairqueue.__all__)
    assert all(hasattr(fairqueue, name) for name in fairqueue.__all__)
    assert not [name for name in fairqueue.__all__ if name.startswith("_")]
