"""Names that this project has retired, and where they are still found."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

ROOT = Path(__file__).parents[1]

COVERED = ("*.md", "benchmarks", "docs", "examples", "fairqueue", "integrations", "tests")
"""What the test reads."""

SUFFIXES = {".py", ".lua", ".md"}

WORDS = {
    r"parked": "blocked, at_limit",
    r"minted": "created",
    r"graves?": "dead letters",
    r"bury|buries|buried": "move to the dead letters",
    r"comebacks?": "redelivery",
    r"unheard": "unreported",
    r"house": "conventions",
    r"rooms": "modules",
    r"(?:a|the|this|that|each|every|own|new|private) room": "module, or capacity",
    r"floors": "layers",
    r"janitors?": "flusher",
    r"crew": "pool",
    r"gates?": "shared limit",
    r"branch(?:es)?": "node",
    r"climb": "unmark_idle",
    r"dues": "(gone)",
    r"caps": "limits",
    r"(?<!multi-)tenants?": "workspace",
}
"""Retired names of things, and what comments, docstrings, messages and docs say instead."""

ALWAYS = sys.maxsize
ALLOWED = {
    ("tests/vocabulary.py", "*"): (ALWAYS, "it lists the words"),
    ("README.md", "tenant"): (1, "says that a workspace is a tenant"),
    ("docs/index.md", "tenant"): (1, "says that a workspace is a tenant"),
    ("docs/concepts.md", "tenant"): (1, "says that a workspace is a tenant"),
    ("docs/recipes.md", "*"): (4, "a Django package's name"),
    ("CHANGELOG.md", "*"): (ALWAYS, "names what was renamed"),
}
"""(pattern of paths, word): how often the word may stand there, and why."""

_RETIRED = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_LUA = re.compile(r"""--.*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_ESCAPE = re.compile(r"\\[nrt]")
_PROSE_TOKENS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}


@dataclass(frozen=True)
class Hit:
    """One place where a word stands."""

    path: PurePath
    line: int
    found: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r}, say: {self.instead}"


def files() -> list[Path]:
    """Return all readable files that the test covers."""
    found: set[Path] = set()
    for path in COVERED:
        for match in ROOT.glob(path):
            inside = match.rglob("*") if match.is_dir() else [match]
            found |= {file for file in inside if file.suffix in SUFFIXES}
    return sorted(found)


def hits() -> list[Hit]:
    """Return every place where a file says a word that is not allowed."""
    return [hit for path in files() for hit in _hits_in(path)]


def _hits_in(path: Path) -> Iterator[Hit]:
    name, seen = path.relative_to(ROOT), Counter[str]()
    for first, text in _prose(path):
        for match in _RETIRED.finditer(text):
            word = match[0].lower()
            seen[word] += 1
            if seen[word] > _allowed(name, word):
                line = first + text.count("\n", 0, match.start())
                yield Hit(name, line, match[0], _instead(word))


def _instead(found: str) -> str:
    return next(say for word, say in WORDS.items() if re.fullmatch(word, found))


@cache
def _allowed(path: PurePath, word: str) -> int:
    rules = ((said, count) for (at, said), (count, _) in ALLOWED.items() if path.match(at))
    return max((count for said, count in rules if said == "*" or word.startswith(said)), default=0)


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, strings and pages, with the line on which each begins."""
    text = path.read_text()
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _PROSE_TOKENS:
                yield token.start[0], _ESCAPE.sub("  ", token.string)
    elif path.suffix == ".lua":
        for number, line in enumerate(text.splitlines(), 1):
            yield from ((number, prose) for prose in _LUA.findall(line))
    else:
        yield 1, text
