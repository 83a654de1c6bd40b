"""Helpers for the reports' SVG: elements and escaped text."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def element(tag: str, *content: str, **attributes: object) -> str:
    """One element. Content is markup; attribute values are escaped, and ``_`` becomes ``-``."""
    pairs = "".join(
        f" {name.rstrip('_').replace('_', '-')}={quoteattr(_clean(value))}"
        for name, value in attributes.items()
    )
    inside = "".join(content)
    return f"<{tag}{pairs}>{inside}</{tag}>\n" if inside else f"<{tag}{pairs}/>\n"


def text(x: float, y: float, words: str, **attributes: object) -> str:
    """One line of escaped text; characters that XML does not allow become ``�``."""
    return element("text", escape(_clean(words)), x=_short(x), y=_short(y), **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> str:
    """A straight line."""
    ends = {"x1": _short(x1), "y1": _short(y1), "x2": _short(x2), "y2": _short(y2)}
    return element("line", **ends, **attributes)


def rect(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    """A rectangle."""
    box = {"x": _short(x), "y": _short(y), "width": _short(width), "height": _short(height)}
    return element("rect", **box, **attributes)


def dot(x: float, y: float, **attributes: object) -> str:
    """A small disc."""
    return element("circle", cx=_short(x), cy=_short(y), **attributes)


def _short(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _clean(value: object) -> str:
    return _NOT_XML.sub("�", str(value))
