"""Writes a Lua function that is one expression in place of its calls.

A call costs some hundred instructions, and to create the function a thousand at every run of its
script. A call stays one where an argument would be computed twice, or not, or where a name of the
expression means something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

_EXPRESSION = re.compile(r"^function [\w.]+\(([^)]*)\)\n  return ([^\n]+(?:\n    [^\n]+)*)\nend$")
_NOT_INLINED = re.compile(r"\.\.\.|\bfunction\b|\{ \w+ =")
_CALL = re.compile(r"^[\w.]+(?=\()")
_BOUND = re.compile(
    r"\blocal (?!function)([\w, ]+)|\bfunction ?[\w.]*\(([^)]*)\)|\bfor ([\w, ]+) (?:in|=) "
)
_SIMPLE = re.compile(r"[\w.]+|'[^']*'")
_BRANCH = re.compile(r"\b(and|or)\b")
_WORD = re.compile(r"'[^']*'|(?<![\w.:])[A-Za-z_]\w*")


@dataclass(frozen=True)
class Expression:
    """What a function returns that has no other statement."""

    parameters: Sequence[str]
    text: str

    def called_with(self, arguments: Sequence[str], bound: frozenset[str]) -> str | None:
        """Write it with these arguments; None if that would change what it says.

        ``bound``: names that mean something else where it is called.
        """
        given = dict(zip_longest(self.parameters, arguments, fillvalue="nil"))
        words = _WORD.findall(self.text)
        if not bound.isdisjoint(set(words) - set(self.parameters)):
            return None
        for name, argument in given.items():
            is_simple = _SIMPLE.fullmatch(argument) is not None
            may_be_skipped = "(" in argument and _BRANCH.search(self.text) is not None
            if not is_simple and (words.count(name) != 1 or may_be_skipped):
                return None
        text = _WORD.sub(lambda word: _operand(given.get(word[0], word[0])), self.text)
        return text if _is_one_call(text) else f"({text})"


def expressions(functions: Mapping[str, str]) -> Iterator[tuple[str, Expression]]:
    """Give the functions that are one expression, by name."""
    for name, text in functions.items():
        found = _EXPRESSION.match(text)
        if found and not _NOT_INLINED.search(f"{found[1]} {found[2]}"):
            yield name, Expression(re.findall(r"\w+", found[1]), found[2])


def _operand(text: str) -> str:
    return text if _SIMPLE.fullmatch(text) or _is_one_call(text) else f"({text})"


def _is_one_call(text: str) -> bool:
    found = _CALL.match(text)
    return found is not None and arguments_of_call(text, found.end() + 1)[1] == len(text)


def names_bound(text: str) -> frozenset[str]:
    """Name the variables that a text has of its own."""
    lists = (names for found in _BOUND.findall(text) for names in found)
    return frozenset(name.strip() for names in lists for name in names.split(",")) - {""}


def arguments_of_call(text: str, start: int) -> tuple[list[str], int]:
    """Split the arguments that start here; return them and where the call ends."""
    parts, depth, begin = [], 1, start
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 or (depth == 1 and text[at] == ","):
            parts.append(text[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return [part for part in parts if part], at + 1
    raise ValueError(f"unclosed bracket in {text[start - 40 : start + 40]!r}")
