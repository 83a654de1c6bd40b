"""Finds the primary of a Redis Cluster that has a shard's slot, at each connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.crc import key_slot
from redis.retry import Retry

from fairqueue._stores.redis.looking import Looking
from fairqueue._stores.redis.sentinel import SOCKET_TIMEOUT_SECONDS
from fairqueue.errors import ConfigurationError

SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
"""Those of core URLs, and what a single node's would be."""
ASK_SECONDS = 1.0
"""How long one node is waited for when it is asked which of them has a slot."""
DEFAULT_PORT = 6379

Address = tuple[str, int]


def is_cluster(url: str) -> bool:
    """Whether a core URL names nodes of a Cluster."""
    return url.partition("://")[0] in SCHEMES


class Nodes:
    """The nodes of a Cluster, which know where each slot is.

    Those of the URL are asked first, one after the other, over connections that last for one
    question; then those that they named before.
    """

    def __init__(self, seeds: Sequence[Address], options: Mapping[str, Any]) -> None:
        self._seeds, self._options = list(seeds), dict(options)
        self._owners: dict[range, Address] = {}

    def owner(self, slot: int) -> Address:
        """The address of the primary that has this slot; redis.ConnectionError: none is known."""
        found = self.known(slot)
        if found is None:
            self._owners = self._ask()
            found = self.known(slot)
        if found is None:
            raise redis.ConnectionError(f"no node of the Redis Cluster has slot {slot}")
        return found

    def known(self, slot: int) -> Address | None:
        """The address that was found last; None: it is to be looked for."""
        return next((at for slots, at in self._owners.items() if slot in slots), None)

    def doubt(self) -> None:
        """Look again at the next connect: a node does not answer, or has lost a slot."""
        self._seeds = [*dict.fromkeys([*self._seeds, *self._owners.values()])]
        self._owners = {}

    def _ask(self) -> dict[range, Address]:
        said = []
        for host, port in self._seeds:
            try:
                rows = self._slots(host, port)
            except redis.RedisError as error:
                said.append(f"{host}:{port}: {error}")
            else:
                return {range(first, last + 1): _address(node, host) for first, last, node in rows}
        raise redis.ConnectionError(f"no node of the Redis Cluster answers ({'; '.join(said)})")

    def _slots(self, host: str, port: int) -> list[tuple[int, int, Sequence[Any]]]:
        patience = {"socket_timeout": ASK_SECONDS, "socket_connect_timeout": ASK_SECONDS}
        options = {**self._options, **patience, "retry": Retry(NoBackoff(), 0)}
        client = redis.Redis(host=host, port=port, **options)
        try:  # as two words, since redis-py reads the reply to "CLUSTER SLOTS" in its own way
            return [(row[0], row[1], row[2]) for row in client.execute_command("CLUSTER", "SLOTS")]
        finally:
            client.close()
            client.connection_pool.disconnect()


def _address(node: Sequence[Any], asked: str) -> Address:
    """A node that does not know its own name is the one that was asked."""
    host = node[0].decode() if isinstance(node[0], bytes) else str(node[0] or "")
    return host or asked, int(node[1])


class _Locating(Looking):
    """Connects to the node that has the slot by then."""

    host: str
    port: int

    def __init__(self, *, nodes: Nodes, slot: int, **options: Any) -> None:
        self._nodes, self._slot = nodes, slot
        super().__init__(**options)

    def connect(self) -> None:
        """Connect, if it is not connected."""
        if self._sock:
            return
        self.host, self.port = self._nodes.owner(self._slot)
        try:
            super().connect()  # type: ignore[misc]
        except redis.RedisError:
            self.doubt()
            raise

    def doubt(self) -> None:
        """Ask the nodes again where the slot is."""
        self._nodes.doubt()


class ClusterConnection(_Locating, redis.Connection):
    """A connection to the node that has a slot."""


class ClusterSSLConnection(_Locating, redis.SSLConnection):
    """The same over TLS."""


def cluster_pool(url: str, tag: str, kind: Any = None, **changed: Any) -> Any:
    """A pool of connections to the node that has the slot of a hash tag, not connected yet.

    ``kind``: a class of connections that look for it, else the URL says whether they use TLS.
    ``changed`` overrides the URL's options. Raises ConfigurationError, ValueError, TypeError or a
    redis error for a URL that cannot be used.
    """
    scheme, _, rest = url.partition("://")
    parts = urlsplit(f"{SCHEMES[scheme]}://{rest}")
    login, at, hosts = parts.netloc.rpartition("@")
    if parts.path.strip("/") not in {"", "0"}:
        raise ConfigurationError("a Redis Cluster has one database: let the URL end in /0")
    options: dict[str, Any] = dict(parse_url(parts._replace(netloc=f"{login}{at}h").geturl()))
    secured = options.pop("connection_class", None) is redis.SSLConnection
    for name in ("host", "port", "db"):
        options.pop(name, None)
    of_nodes = {**options, "ssl": True} if secured else options
    nodes = Nodes([_seed(host) for host in hosts.split(",")], of_nodes)
    by_url = ClusterSSLConnection if secured else ClusterConnection
    return redis.ConnectionPool(
        kind or by_url,
        nodes=nodes,
        slot=key_slot(f"{{{tag}}}".encode()),
        **{"socket_timeout": SOCKET_TIMEOUT_SECONDS, **options, **changed},
    )


def _seed(text: str) -> Address:
    parts = urlsplit(f"//{text.strip()}")
    if not parts.hostname:
        raise ConfigurationError("a node of the Redis Cluster has no host in the URL")
    return parts.hostname, parts.port or DEFAULT_PORT
