"""Takes out of kombu's connection what it would show to anybody, or not understand.

kombu keeps a URL that a transport reads itself whole, as its hostname, and Celery shows that to
``inspect stats``. It takes the query of a failover URL for arguments of its own.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from fairqueue_celery.address import Address


def hide_login(client: Any, address: Address) -> None:
    """Move user and password out of the hostname, to where kombu masks them."""
    hostname = client.hostname or ""
    place = urlsplit(hostname).netloc if "://" in hostname else ""
    if "@" in place:
        client.hostname = hostname.replace(place, place.rpartition("@")[2], 1)
        client.userid, client.password = address.user, address.password


def part_alternates(client: Any) -> None:
    """Keep the settings of all failover URLs as options; the first URL that names one counts."""
    alternates = getattr(client, "alt", None) or []
    if not any("?" in url for url in alternates):
        return
    found: dict[str, str] = {}
    for number, url in enumerate(alternates):
        head, _, query = url.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        of_tls = [(name, value) for name, value in pairs if name.startswith("ssl_")]
        found = {**dict(pair for pair in pairs if pair not in of_tls), **found}
        alternates[number] = f"{head}?{urlencode(of_tls)}" if of_tls else head
    client.transport_options = {**found, **(client.transport_options or {})}
    client.cycle = client.failover_strategy(alternates)
    next(client.cycle)
