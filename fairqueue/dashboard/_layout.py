"""Renders pages: the templates, and their filters for names and numbers."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request

from fairqueue import tables
from fairqueue._types import Scope
from fairqueue.audit import remedy_of
from fairqueue.dashboard._access import Role
from fairqueue.dashboard._guard import base_of
from fairqueue.dashboard._pages import PAGES
from fairqueue.dashboard._view import Context, View
from fairqueue.plain import counted, cut, duration, moment, printable
from fairqueue.shares import state_of

STATIC = {
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
MOST_OF_NAME = 300
"""Most characters of a text; only reasons of dead letters and ids of jobs may have more."""
MOST_OF_TEXT = 4000


def static_file(name: str) -> bytes:
    return files("fairqueue.dashboard").joinpath(f"static/{name}").read_bytes()


VERSION = hashlib.sha256(b"".join(map(static_file, STATIC))).hexdigest()[:12]
"""Part of those files' addresses, so that browsers may cache them for ever."""


def _name(text: object) -> str:
    """Show a name without characters that reorder or hide text; the page escapes it."""
    return printable(cut(str(text), MOST_OF_NAME)) or "(none)"


def _lines(text: str) -> str:
    """Show a payload or a longer text, line by line."""
    return "\n".join(printable(line) for line in cut(text, MOST_OF_TEXT).splitlines())


ENVIRONMENT = Environment(
    loader=PackageLoader("fairqueue.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "name": _name,
    "limit": lambda value, name="": tables.limit_value(name, value),
    "lines": _lines,
    "n": lambda number: f"{number:,}",
    "counted": counted,
    "duration": duration,
    "moment": lambda seconds: "" if seconds is None else moment(seconds),
    "percent": lambda value: f"{100 * value:.0f} %",
    "query": urlencode,
    "remedy": remedy_of,
    "cut": lambda text: cut(text, MOST_OF_NAME),
}
ENVIRONMENT.globals |= {
    "state_of": state_of,
    "navigation": [(path, page.title, page.key) for path, page in PAGES.items() if page.key],
    "version": VERSION,
    "Scope": Scope,
    "tables": tables,
}


def home_of(base: str, view: View) -> str:
    """Return the path below which the dashboards of several queues are; of one, its own."""
    return base.removesuffix(f"/{view.name}") if view.names else base


def context_of(request: Request, view: View, *, path: str) -> Context:
    """Return the variables of every page."""
    visitor, page = request.scope["fairqueue"], PAGES.get(path)
    query = dict(request.query_params)
    return {
        "base": base_of(request),
        "home": home_of(base_of(request), view),
        "queue_name": view.name,
        "queue_names": view.names,
        "path": path,
        "section": (page and page.inside) or path,
        "back": f"{path}?{urlencode(query)}" if query else path,
        "title": page.title if page else "fairqueue",
        "label": view.label,
        "namespace": view.queue.settings.namespace,
        "csrf": visitor["csrf"],
        "is_operator": visitor["role"] is Role.OPERATOR,
        "role": visitor["role"].value if visitor["role"] else "",
        "notice": "",
    }


def whole(template: str, context: Context) -> str:
    return ENVIRONMENT.get_template(template).render(context)


def live_part(template: str, context: Context) -> str:
    """Render the part that changes while a page is open."""
    found: Any = ENVIRONMENT.get_template(template)
    return Markup("").join(map(Markup, found.blocks["live"](found.new_context(context))))
