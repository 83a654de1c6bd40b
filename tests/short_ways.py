"""A build of the scripts without the short way of a publish: each takes the general one."""

from __future__ import annotations

from fairqueue._stores.library import read_source

SHORT_WAYS = {
    "publish": (("= of == shards and is_simple and", "= false and is_simple and"),),
}
"""By file, what opens a short way, and what closes it."""


def without_short_ways(name: str) -> str:
    """Read a Lua file with its short ways closed."""
    text = read_source(name)
    for opened, closed in SHORT_WAYS.get(name, ()):
        assert text.count(opened) == 1, (name, opened)
        text = text.replace(opened, closed)
    return text
