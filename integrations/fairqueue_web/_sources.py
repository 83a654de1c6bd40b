"""Where a request says its workspace: a header, its path, its user, or a function's answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any, NamedTuple
from uuid import UUID

from fairqueue import ConfigurationError
from fairqueue.adapters import check_name, load_function
from fairqueue_web._answers import BadWorkspace

Source = str | Callable[[Any], Any]
"""``header:NAME``, ``path:/t/{workspace}``, ``user:ATTRIBUTE``, ``package.module:function``, or a
function. A function gets the framework's request and returns a str, an int, a UUID or None."""

EXPECTED = "expected 'header:NAME', 'path:/…/{workspace}', 'user:ATTRIBUTE' or a function"
PLACEHOLDER = "{workspace}"
_UNCLEAR = frozenset({"Cc", "Zl", "Zp"})
"""Categories of control characters and line ends."""


class View(NamedTuple):
    """What the sources read of a request, whichever framework it came through."""

    raw: Any
    """The framework's own request: what a function is given."""
    path: str
    """Its decoded path."""
    header: Callable[[str], str | None]
    """Returns the value of a header; those of a repeated one are joined by commas."""
    user: Callable[[], Any]
    """Returns the authenticated user; None: there is none."""


Read = Callable[[View], Any]


def readers(sources: Source | Sequence[Source]) -> tuple[Read, ...]:
    """Check the sources; ConfigurationError says which is wrong."""
    if isinstance(sources, str) or callable(sources):
        sources = (sources,)
    return tuple(map(_reader, sources))


def _reader(source: Source) -> Read:
    if callable(source):
        return lambda view: source(view.raw)
    kind, _, what = source.partition(":")
    if not what:
        raise ConfigurationError(f"workspace_from: {source!r} says nothing; {EXPECTED}")
    if kind == "header":
        return lambda view: _header_text(view.header(what), source)
    if kind == "path":
        return _path_reader(what)
    if kind == "user":
        return lambda view: _attribute(view.user(), what)
    function = load_function(source, setting="workspace_from")
    return lambda view: function(view.raw)


def _path_reader(template: str) -> Read:
    if template.count(PLACEHOLDER) != 1:
        raise ConfigurationError(
            f"workspace_from: the path {template!r} must contain {PLACEHOLDER} once"
        )
    before, after = (
        re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(part)) for part in template.split(PLACEHOLDER)
    )
    pattern = re.compile(f"{before}([^/]+){after}")

    def read(view: View) -> str | None:
        found = pattern.match(one_slash(view.path))
        return _client_text(found[1], f"path:{template}") if found else None

    return read


def one_slash(path: str) -> str:
    """Return a path as routers see it that skip or merge repeated slashes; others find no page."""
    return re.sub("/+", "/", path)


def _header_text(text: str | None, source: str) -> str | None:
    """Return a header's value. Servers join repeated ones by commas, and disagree on encodings."""
    if text and ("," in text or not text.isascii()):
        raise BadWorkspace(f"{source!r}: the header is repeated, or has a comma or no ASCII")
    return _client_text(text, source)


def _client_text(text: str | None, source: str) -> str | None:
    """Return a text that a client has sent, as it is; empty text is no answer.

    What an application may read as another name is refused, so that none is charged for another.
    """
    if not text:
        return None
    if text != text.strip() or _UNCLEAR.intersection(map(unicodedata.category, text)):
        raise BadWorkspace(f"{source!r}: {text!r} has blanks at its ends or control characters")
    if "\ufffd" in text or not unicodedata.is_normalized("NFC", text):
        raise BadWorkspace(f"{source!r}: {text!r} is not UTF-8 in Unicode's normal form C")
    try:
        return check_name("workspace", text)
    except ConfigurationError as error:
        raise BadWorkspace(f"{source!r}: {error}") from None


def _attribute(user: Any, path: str) -> Any:
    """Read an attribute; one that is not there is a mistake, unless the user is anonymous."""
    value = user
    for name in path.split("."):
        if value is None:
            return None
        if not hasattr(value, name):
            if getattr(user, "is_authenticated", True):
                raise ConfigurationError(
                    f"workspace_from: 'user:{path}': a {type(value).__name__} has no {name!r}"
                )
            return None
        value = getattr(value, name)
    return value


def name_of(value: Any) -> str | None:
    """Return what a source said as a name; None and blank text are no answer."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str | int | UUID) or isinstance(value, bool):
        hint = ": use the ASGI middleware for an async function" if isawaitable(value) else ""
        raise ConfigurationError(
            f"workspace_from: a workspace must be a str, an int or a UUID, "
            f"not {type(value).__name__}{hint}"
        )
    return check_name("workspace", value)
