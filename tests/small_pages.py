"""A build of the scripts in which a workspace has many flows as soon as it has two."""

from __future__ import annotations

from fairqueue._stores.library import read_source

SMALLER = {
    "state/records": ("MANY_FLOWS = 4000", "MANY_FLOWS = 150"),
    "scheduler/follow": ("FOLLOW_AT_ONCE = 10", "FOLLOW_AT_ONCE = 1"),
    "upkeep/rebuild": ("COMPARED_AT_ONCE = 8", "COMPARED_AT_ONCE = 1"),
}
"""By file, a constant as it is, and as it is here."""


def with_small_pages(name: str) -> str:
    """Read a Lua file of which one flow of a workspace follows with each call."""
    text = read_source(name)
    if name in SMALLER:
        usual, small = SMALLER[name]
        assert text.count(usual) == 1, name
        text = text.replace(usual, small)
    return text
