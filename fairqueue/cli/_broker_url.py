"""Reads what stands in a Celery app's ``broker_url`` as the URL of a Redis."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from fairqueue import Settings

_SCHEMES = {
    "fairqueue+socket": "unix",
    "fairqueues": "rediss",
    "fairqueue": "redis",
}
_STOCK_SCHEMES = {"redis+socket": "unix", "redis": "redis", "rediss": "rediss", "unix": "unix"}

_OF_CLIENT = frozenset({"client_name", "db", "health_check_interval", "password", "username"})
_OF_CLIENTS = ("socket_", "ssl_")


def core_url(url: str) -> str:
    """The core URL of what may be a broker URL on fairqueue; any other is left as it is.

    Options that mean something to kombu only are left out: the app itself checks them.
    """
    return _read(url, _SCHEMES)


def stock_url(url: str) -> str:
    """The same of a broker URL of kombu's own Redis transport."""
    return _read(url, _STOCK_SCHEMES)


def _read(url: str, schemes: dict[str, str]) -> str:
    scheme, mark, rest = url.partition("://")
    if scheme not in schemes:
        return url
    head, question, query = rest.partition("?")
    options = dict(parse_qsl(query)) if "@" not in query else {}  # a "?" in a password
    kept = _kept(query, options) if options else query
    return f"{schemes[scheme]}{mark}{head}{question if kept else ''}{kept}"


def _kept(query: str, options: dict[str, str]) -> str:
    parts = [part for part in query.split("&") if _means_something(part)]
    if "virtual_host" in options:  # the database, where the path is that of a socket
        parts.append(urlencode({"db": options["virtual_host"].strip("/")}))
    if "global_keyprefix" in options:
        own = options.get("namespace", Settings.model_fields["namespace"].default)
        parts = [part for part in parts if not part.startswith("namespace=")]
        parts.append(urlencode({"namespace": options["global_keyprefix"] + own}))
    return "&".join(parts)


def _means_something(part: str) -> bool:
    name = part.partition("=")[0]
    return name in Settings.model_fields or name in _OF_CLIENT or name.startswith(_OF_CLIENTS)
