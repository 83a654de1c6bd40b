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


class Address(NamedTuple):
    """One Redis."""

    host: str | None = None
    port: int | None = None
    others: tuple[str, ...] = ()
    """More servers, ``host:port``, on which fairqueue has shards; kombu uses the first one."""
    user: str | None = None
    password: str | None = None
    db: str = "0"
    path: str | None = None
    """Of a unix socket."""
    memory: bool = False
    sentinels: str | None = None
    """Hosts of Sentinels, separated by commas."""
    service: str | None = None
    """What they call the primary."""
    cluster: str | None = None
    """Hosts of nodes of a Cluster, separated by commas."""
    tls: Mapping[str, Any] | None = None
    query: Mapping[str, str] = MappingProxyType({})
    """The URL's query, without what is about TLS."""

    def core_url(self, options: Mapping[str, Any]) -> str:
        """The core's URL, with ``options`` for the client in its query."""
        if self.memory:
            return f"memory://{quote(self.host or '', safe='')}"
        query = urlencode({**options, **_tls_query(self.tls)})
        return self._without_query() + (f"?{query}" if query else "")

    def _without_query(self) -> str:
        login = _login(self.user, self.password)
        if self.path is not None:
            return f"unix://{login}{quote(self.path)}"
        scheme = "rediss" if self.tls is not None else "redis"
        return f"{scheme}{self.kind}://{login}{self.place}"

    @property
    def kind(self) -> str:
        """What its scheme ends in."""
        if self.sentinels is not None:
            return "+sentinel"
        return "" if self.cluster is None else "+cluster"

    @property
    def place(self) -> str:
        """The hosts and the path of its URL."""
        if self.sentinels is not None:
            return f"{self.sentinels}/{self.path_of_service}"
        hosts = ",".join(self.servers) if self.cluster is None else self.cluster
        return f"{hosts}/{self.db}"

    @property
    def servers(self) -> list[str]:
        """Each as ``host:port``, the first one and the others."""
        host = self.host or "localhost"
        shown = f"[{host}]" if ":" in host else quote(host, safe="")
        return [f"{shown}:{self.port or 6379}", *self.others]

    @property
    def path_of_service(self) -> str:
        """The service and the database; without a service, an option names it."""
        return f"{quote(self.service, safe='')}/{self.db}" if self.service else self.db

    @property
    def client_db(self) -> dict[str, str]:
        """The database of a unix socket, whose URL's path cannot name it."""
        return {"db": self.db} if self.path is not None and self.db != "0" else {}


def read_address(client: Any) -> Address:
    """Read a kombu connection, which holds a whole URL or its parts."""
    hostname = client.hostname or ""
    if "://" in hostname:
        return _from_url(hostname, client)
    scheme = client.transport_cls if isinstance(client.transport_cls, str) else ""
    if scheme.endswith("+socket"):
        return Address(user=client.userid, password=client.password, path=_rooted(client))
    if scheme.endswith("+memory"):
        return Address(memory=True)
    return Address(
        host=hostname or None,
        port=client.port,
        user=client.userid,
        password=client.password,
        db=_database(client.virtual_host),
        tls=_tls(scheme, client.ssl, {}),
    )


def read_url(url: str, *, tls: bool = False) -> Address:
    """Read a URL; ``tls``: its scheme, which is not in it, asks for TLS."""
    return _from_url(url, SimpleNamespace(userid=None, password=None, ssl=tls))


def _rooted(client: Any) -> str:
    return "/" + str(client.virtual_host or "").lstrip("/")


def _from_url(url: str, client: Any) -> Address:
    parts = _split(url)
    scheme = parts.scheme.removeprefix("fairqueue+")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls_query = {name: query.pop(name) for name in list(query) if name.startswith("ssl_")}
    user, password = query.pop("username", client.userid), query.pop("password", client.password)
    login, at, hosts = parts.netloc.rpartition("@")
    found = Address(
        user=_decoded(parts.username) or user,
        password=_decoded(parts.password) or password,
        query=query,
    )
    if scheme == "memory":
        return Address(memory=True, host=_decoded(parts.hostname), query=query)
    if scheme in {"sentinel", "cluster"}:
        given = client.ssl or str(getattr(client, "transport_cls", "")) in TLS_SCHEMES
        found = found._replace(tls=_tls(scheme, given, tls_query))
        path = unquote(parts.path)
        if scheme == "cluster":
            return found._replace(cluster=hosts, db=_database(path))
        first, _, second = path.strip("/").partition("/")  # a service, a database, or both
        service, db = (first, second) if second or not first.isdecimal() else ("", first)
        return found._replace(sentinels=hosts, service=service or None, db=_database(db))
    if scheme in {"socket", "unix"}:
        db = query.pop("virtual_host", query.pop("db", "0"))
        return found._replace(path=unquote(parts.path), db=_database(db))
    first, *others = hosts.split(",")
    for other in others:
        _port(parts._replace(netloc=other))
        if not other:
            raise ConfigurationError("the broker URL has a comma where no other host follows")
    parts = parts._replace(netloc=f"{login}{at}{first}")
    return found._replace(
        host=_decoded(parts.hostname),
        port=_port(parts),
        others=tuple(others),
        db=_database(unquote(parts.path)),
        tls=_tls(scheme, client.ssl, tls_query),
    )


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


def _tls(scheme: str, given: Any, query: Mapping[str, str]) -> Mapping[str, Any] | None:
    """TLS options, or None for plain TCP. Certificates are checked by default."""
    if scheme not in TLS_SCHEMES and not given and not query:
        return None
    options = dict(given) if isinstance(given, Mapping) else {}
    options.update(query)
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


def _tls_query(tls: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (tls or {}).items() if value is not None}


def _login(user: str | None, password: str | None) -> str:
    if not user and not password:
        return ""
    return f"{quote(user or '', safe='')}:{quote(password or '', safe='')}@"


class ParsedClient:
    """kombu's connection as the stock Redis transport expects it, with its URL parsed."""

    def __init__(self, client: Any, address: Address, options: Mapping[str, Any]) -> None:
        self._client = client
        self.transport_options = dict(options)
        self.hostname = address.host
        self.port = address.port
        self.userid = address.user
        self.password = address.password
        self.virtual_host = address.db
        self.ssl = dict(address.tls) if address.tls is not None else False
        if address.path is not None:
            login = _login(address.user, address.password)
            self.hostname = f"socket://{login}{quote(address.path)}"

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
