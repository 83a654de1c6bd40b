"""Convert a Celery ``broker_url`` into a core URL."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from fairqueue import Settings
from fairqueue.adapters import BROKER_SCHEMES

_STOCK_SCHEMES = {
    "redis+socket": "unix",
    "redis": "redis",
    "rediss": "rediss",
    "sentinel": "redis+sentinel",
    "unix": "unix",
}

_CLIENT_OPTIONS = frozenset(
    {
        "client_name",
        "db",
        "health_check_interval",
        "master_name",
        "min_other_sentinels",
        "password",
        "username",
    }
)
_CLIENT_PREFIXES = ("socket_", "ssl_", "sentinel_")


def core_url(url: str) -> str:
    """Convert a fairqueue broker URL into a core URL; return any other URL unchanged.

    Options that only kombu understands are dropped, because the app itself checks them.
    """
    return _convert(url, BROKER_SCHEMES)


def stock_url(url: str) -> str:
    """Convert a broker URL of kombu's own Redis transport in the same way."""
    return _convert(url, _STOCK_SCHEMES)


def _convert(url: str, schemes: Mapping[str, str]) -> str:
    scheme, mark, rest = url.partition("://")
    if scheme not in schemes:
        return url
    head, question, query = rest.partition("?")
    options = dict(parse_qsl(query)) if "@" not in query else {}  # a "?" in a password
    kept = _kept(query, options) if options else query
    return f"{schemes[scheme]}{mark}{head}{question if kept else ''}{kept}"


def _kept(query: str, options: dict[str, str]) -> str:
    parts = [part for part in query.split("&") if _is_core_option(part)]
    if "virtual_host" in options:  # the database, because the path is a socket's
        parts.append(urlencode({"db": options["virtual_host"].strip("/")}))
    if "global_keyprefix" in options:
        own = options.get("namespace", Settings.model_fields["namespace"].default)
        parts = [part for part in parts if not part.startswith("namespace=")]
        parts.append(urlencode({"namespace": options["global_keyprefix"] + own}))
    return "&".join(parts)


def _is_core_option(part: str) -> bool:
    name = part.partition("=")[0]
    return (
        name in Settings.model_fields
        or name in _CLIENT_OPTIONS
        or name.startswith(_CLIENT_PREFIXES)
    )
