"""Where the broker is: a kombu connection or a URL, read as the address of a Redis.

kombu keeps a URL that a transport parses itself as the hostname, password and query included.
Celery shows that hostname in ``inspect stats``, and takes a failover URL's query for arguments of
its own. So both are taken out of kombu's connection here.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from fairqueue import ConfigurationError

CERT_REQS = {ssl.CERT_NONE: "none", ssl.CERT_OPTIONAL: "optional", ssl.CERT_REQUIRED: "required"}
ENCODED = "in a user or password '/', '?', '#', '@' and ';' must be percent-encoded"
TLS_SCHEMES = frozenset({"fairqueues", "rediss"})
KINDS = {
    "cluster": "redis+cluster",
    "memory": "memory",
    "sentinel": "redis+sentinel",
    "socket": "unix",
    "unix": "unix",
}
"""The core's schemes for those behind ``fairqueue+``; any other is that of a Redis."""


class Address(NamedTuple):
    """Where a broker is."""

    scheme: str = "redis"
    """Of the core's URL, as without TLS."""
    hosts: tuple[str, ...] = ()
    """As in a URL. Of several Redis servers, each of which has shards, kombu uses the first."""
    path: str = "/0"
    """Of a unix socket; else the service of Sentinels, if the URL names it, and the database."""
    user: str | None = None
    password: str | None = None
    db: str = "0"
    tls: Mapping[str, Any] | None = None
    query: Mapping[str, str] = MappingProxyType({})
    """The URL's query, without what is about TLS."""

    def core_url(self, options: Mapping[str, Any]) -> str:
        """The core's URL, with ``options`` for the client in its query."""
        of_socket = {"db": self.db} if self.scheme == "unix" and self.db != "0" else {}
        of_tls = {name: str(value) for name, value in (self.tls or {}).items() if value is not None}
        query = urlencode({**options, **of_socket, **of_tls})
        scheme = self.scheme if self.tls is None else self.scheme.replace("redis", "rediss")
        where = f"{_login(self.user, self.password)}{','.join(self.hosts)}{self.path}"
        return f"{scheme}://{where}" + (f"?{query}" if query else "")

    @property
    def is_resolved(self) -> bool:
        """Whether Sentinels or a Cluster say which server it is."""
        return self.scheme in {"redis+sentinel", "redis+cluster"}


def read_address(client: Any) -> Address:
    """Read a kombu connection, which holds a whole URL or its parts."""
    hostname = client.hostname or ""
    if "://" in hostname:
        return _read(hostname, client)
    scheme = client.transport_cls if isinstance(client.transport_cls, str) else "fairqueue"
    host = f"[{hostname}]" if ":" in hostname else quote(hostname, safe="")
    port = f":{client.port}" if client.port else ""
    path = quote(str(client.virtual_host or "").lstrip("/"))
    return _read(f"{scheme}://{host}{port}/{path}", client)


def read_url(url: str, *, tls: bool = False) -> Address:
    """Read a URL; ``tls``: its scheme, which is not in it, asks for TLS."""
    return _read(url, SimpleNamespace(userid=None, password=None, ssl=tls, transport_cls=""))


def _read(url: str, client: Any) -> Address:
    parts = _split(url)
    scheme = KINDS.get(parts.scheme.rpartition("+")[2], "redis")
    hosts, path = tuple(parts.netloc.rpartition("@")[2].split(",")), unquote(parts.path)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    of_tls = {name: query.pop(name) for name in list(query) if name.startswith("ssl_")}
    user, password = query.pop("username", client.userid), query.pop("password", client.password)
    login = _decoded(parts.username) or user, _decoded(parts.password) or password
    if scheme == "memory":
        return Address(scheme, hosts, path="", query=query)
    if scheme == "unix":
        db = _database(query.pop("virtual_host", query.pop("db", "0")))
        return Address(scheme, (), quote(path), *login, db, query=query)
    service = ""
    if scheme == "redis+sentinel":  # a service, a database, or both
        first, _, second = path.strip("/").partition("/")
        service, path = (first, second) if second or not first.isdecimal() else ("", first)
    elif scheme == "redis":
        hosts = tuple(_host(parts._replace(netloc=host), len(hosts)) for host in hosts)
    db = _database(path)
    path = f"/{quote(service, safe='')}/{db}" if service else f"/{db}"
    schemes = {parts.scheme.partition("+")[0], client.transport_cls}
    is_secured = client.ssl or not TLS_SCHEMES.isdisjoint(schemes)
    tls = _tls(client.ssl, of_tls) if is_secured or of_tls else None
    return Address(scheme, hosts, path, *login, db, tls, query)


def _host(parts: SplitResult, count: int) -> str:
    """A server of a URL as ``host:port``; without others it may be the default one."""
    port, host = _port(parts), _decoded(parts.hostname) or ""
    if not host and count > 1:
        raise ConfigurationError("the broker URL has a comma where no other host follows")
    shown = f"[{host}]" if ":" in host else quote(host or "localhost", safe="")
    return f"{shown}:{port or 6379}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if "@" not in parts.path + parts.query + parts.fragment:
            return parts
    except ValueError:  # its text may quote a password
        pass
    raise ConfigurationError(f"the broker URL's host cannot be read; {ENCODED}") from None


def _decoded(text: str | None) -> str | None:
    return unquote(text) if text else None


def _port(parts: Any) -> int | None:
    try:
        return parts.port  # type: ignore[no-any-return]
    except ValueError:
        raise ConfigurationError(
            f"the broker URL's port must be a number from 0 to 65535; {ENCODED}"
        ) from None


def _database(virtual_host: Any) -> str:
    text = str(virtual_host or "").strip("/") or "0"
    if not text.isdecimal():
        raise ConfigurationError(
            f"the broker URL ends in {text!r}, but a Redis database is a number, such as /0"
        )
    return text


def _tls(given: Any, query: Mapping[str, str]) -> Mapping[str, Any]:
    """TLS options. Certificates are checked by default."""
    options = {**(given if isinstance(given, Mapping) else {}), **query}
    options["ssl_cert_reqs"] = _cert_reqs(options.get("ssl_cert_reqs", "required"))
    return options


def _cert_reqs(value: Any) -> str:
    """The core's word for it; apps write the constant, its name or the word."""
    text = CERT_REQS.get(value, str(value)).lower().removeprefix("cert_")
    if text not in CERT_REQS.values():
        raise ConfigurationError(
            f"ssl_cert_reqs is {value!r}; it must be one of {', '.join(CERT_REQS.values())}"
        )
    return text


def _login(user: str | None, password: str | None) -> str:
    if not user and not password:
        return ""
    return f"{quote(user or '', safe='')}:{quote(password or '', safe='')}@"


class ParsedClient:
    """kombu's connection as the stock Redis transport expects it, with its URL parsed."""

    def __init__(self, client: Any, address: Address, options: Mapping[str, Any]) -> None:
        self._client = client
        self.transport_options = dict(options)
        self.hostname, self.port = None, None
        self.userid = address.user
        self.password = address.password
        self.virtual_host = address.db
        self.ssl = dict(address.tls) if address.tls is not None else False
        if address.scheme == "unix":
            self.hostname = f"socket://{_login(address.user, address.password)}{address.path}"
        elif address.scheme == "redis":
            first = urlsplit(f"//{address.hosts[0]}")
            self.hostname, self.port = _decoded(first.hostname), first.port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def check_failover_urls(client: Any) -> None:
    """Refuse parts that are no URLs, before kombu quotes them: a ``;`` in a password made them."""
    for url in getattr(client, "alt", None) or []:
        if "://" not in url:
            raise ConfigurationError(f"behind a ';' the broker URL has no other URL; {ENCODED}")
        parts = _split(url)
        if "," not in parts.netloc:
            _port(parts)


def hide_login(client: Any, address: Address) -> None:
    """Move user and password out of the hostname to attributes that kombu masks."""
    hostname = client.hostname or ""
    netloc = urlsplit(hostname).netloc if "://" in hostname else ""
    if "@" in netloc:
        client.hostname = hostname.replace(netloc, netloc.rpartition("@")[2], 1)
        client.userid, client.password = address.user, address.password


def join_sentinels(client: Any) -> None:
    """Make one URL of stock kombu's ``…+sentinel://a;…+sentinel://b``: no switch leads to either.

    Each is asked whenever a connection is opened.
    """
    alternates = getattr(client, "alt", None) or []
    if len(alternates) < 2 or not client.hostname.startswith("sentinel://"):  # noqa: PLR2004
        return
    parts = _split(client.hostname)
    others = [_split(url).netloc.rpartition("@")[2] for url in alternates[1:]]
    joined = ",".join([parts.netloc, *others])
    client.hostname = parts._replace(netloc=joined).geturl()
    client.alt, client.cycle = [], None


def collect_failover_settings(client: Any) -> None:
    """Move the settings in failover URLs to the options; the first URL that names one counts."""
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
