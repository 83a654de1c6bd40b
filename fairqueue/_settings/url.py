"""Takes settings out of URLs, and masks passwords in them."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qs

from fairqueue._settings import problems
from fairqueue._settings.model import Settings
from fairqueue.errors import ConfigurationError

ENCODED = (
    "its host or port cannot be read; in a user or password '/', '?', '#' and '@' must be "
    "percent-encoded"
)
_STRAY_AT = re.compile(r"[^/?#]*[/?#].*@", re.DOTALL)
_SCHEME = re.compile(r"(?:--[\w-]+=)?[\w.+-]+://")
_USER = re.compile(r"[\w.+-]*")
_SECRET_OPTION = re.compile(
    r"([?&;][^=&]*(?:pas|pwd|secret|token|auth)[^=&]*=)[^&]*(?:&[^=&]*(?=&|$))*", re.IGNORECASE
)


def mask_password(url: str) -> str:
    """Return the URL, or several joined by ``;``, with ``**`` in place of every password.

    A password may hold any character, so no part is told from another before the last ``@``: of
    what stands there, only the first scheme and the first user are shown. Text without a scheme is
    taken for a URL if it has a ``:`` before the ``@``.
    """
    head, at, rest = url.rpartition("@")
    scheme = _SCHEME.match(head)
    shown = scheme[0] if scheme else ""
    user, colon, _ = head[len(shown) :].partition(":")
    if any(found.end() == len(head) for found in _SECRET_OPTION.finditer(head)):
        rest = "**" + "".join(rest.partition("&")[1:])  # the "@" stands in an option's password
    if shown or colon:
        head = f"{shown}{user}:**" if colon and _USER.fullmatch(user) else f"{shown}**"
    return head + at + _SECRET_OPTION.sub(r"\1**", rest)


def servers_of(url: str) -> list[str]:
    """Split a URL that names several servers; each gets the same login, database and query."""
    scheme, mark, rest = url.partition("://")
    if scheme not in {"redis", "rediss"}:  # Sentinels are several hosts of one primary
        return [url]
    end = min((at for at in map(rest.find, "/?") if at >= 0), default=len(rest))
    login, at, given = rest[:end].rpartition("@")
    hosts = given.split(",")
    if len(hosts) > 1 and "" in hosts:  # it would be a server on this machine
        raise ConfigurationError(
            f"bad URL {mask_password(url)!r}: a server between commas is empty"
        )
    return [f"{scheme}{mark}{login}{at}{host}{rest[end:]}" for host in hosts]


def split_settings(url: str) -> tuple[str, dict[str, Any]]:
    """Take settings out of a URL's query; return the remaining URL and the settings.

    ``redis://h/0?workspace_concurrency=2&socket_timeout=5`` gives ``redis://h/0?socket_timeout=5``
    and ``{"workspace_concurrency": "2"}``. A name that occurs twice gives a list.
    Raises ConfigurationError for a name that looks like a misspelt setting, and for an ``@`` behind
    the host: what stands before it belongs to a password, and would be shown and used as something
    else.
    """
    scheme = _SCHEME.match(url)
    if _STRAY_AT.match(url, scheme.end() if scheme else 0):
        raise ConfigurationError(f"bad URL {mask_password(url)!r}: {ENCODED}")
    head, mark, query = url.partition("?")
    if not mark:
        return url, {}
    kept, settings = [], list[str]()
    for part in query.split("&"):
        names = parse_qs(part, keep_blank_values=True)
        if names and _is_setting(*names):
            settings.append(part)
        elif names:
            kept.append(part)  # unchanged: masking a password needs a stray "@" as it was written
    found = parse_qs("&".join(settings), keep_blank_values=True)
    given = {name: values if len(values) > 1 else values[0] for name, values in found.items()}
    return (f"{head}?{'&'.join(kept)}" if kept else head), given


def _is_setting(name: str) -> bool:
    names: Collection[str] = Settings.model_fields
    if name in names:
        return True
    if f"workspace_{name}" in names or name in problems.OF_WORKSPACES:
        remedy = problems.remedy_for(name, list(names))
        raise ConfigurationError(f"unknown setting {name!r} in the URL; {remedy}")
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.85)
    if close:
        raise ConfigurationError(f"unknown setting {name!r} in the URL; did you mean {close[0]!r}?")
    return False
