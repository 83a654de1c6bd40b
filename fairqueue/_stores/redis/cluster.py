"""Finds the primary with a shard's slot in a Redis Cluster, at each connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import redis
from redis.connection import parse_url
from redis.crc import key_slot

from fairqueue._stores.redis.looking import Address, asking_options, load_credentials, pool_of
from fairqueue.errors import ConfigurationError

SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
"""Schemes of core URLs, and those of a single node's URL."""
DEFAULT_PORT = 6379


def is_cluster(url: str) -> bool:
    """Whether a core URL names nodes of a Cluster."""
    return url.partition("://")[0] in SCHEMES


class Nodes:
    """The nodes of a Cluster, which know where each slot is. All pools of a URL share one.

    The nodes of the URL, and those that they named before, are asked in turn, over connections for
    one question each. The one that answered last is asked first, unless its answer was doubted
    since: a node that has left the Cluster may still claim its old slots.
    """

    def __init__(self, seeds: Sequence[Address], options: Mapping[str, Any]) -> None:
        self._seeds, self._options = list(seeds), dict(options)
        self.configured = sorted(seeds)
        self._table: dict[range, Address] = {}
        self._said_by: Address | None = None
        """The node that sent the slot table; None: the table is doubted."""

    def owner(self, slot: int) -> Address:
        """Return the address of the slot's primary; redis.ConnectionError if none is known."""
        found = self.known(slot) if self._said_by is not None else None
        return found or self._ask(slot)

    def known(self, slot: int) -> Address | None:
        """Return the last known address, even if it is doubted."""
        return next((at for slots, at in list(self._table.items()) if slot in slots), None)

    def doubt(self, address: Address | None) -> None:
        """Look again at the next connect: the node does not answer, or has lost a slot."""
        said_by = self._said_by
        if said_by is not None and address in self._table.values():
            self._said_by = None
            if said_by in self._seeds:
                self._seeds = [*(each for each in self._seeds if each != said_by), said_by]

    def _ask(self, slot: int) -> Address:
        errors: list[tuple[Address, redis.RedisError]] = []
        for node in dict.fromkeys([*self._seeds, *self._table.values()]):
            try:
                table = self._table_of(node)
            except redis.RedisError as error:
                errors.append((node, error))
                continue
            found = next((at for slots, at in table.items() if slot in slots), None)
            if found is not None:
                if node in self._seeds:
                    self._seeds = [node, *(each for each in self._seeds if each != node)]
                self._table, self._said_by = table, node
                return found
        _raise_refusal([error for _, error in errors])
        said = "; ".join(f"{host}:{port}: {error}" for (host, port), error in errors)
        raise redis.ConnectionError(
            f"no node of the Redis Cluster knows which one has slot {slot} ({said})"
        )

    def _table_of(self, node: Address) -> dict[range, Address]:
        options = {**self._options, **asking_options()}
        client = redis.Redis(host=node[0], port=node[1], **options)
        try:  # as two words, since redis-py reads the reply to "CLUSTER SLOTS" in its own way
            rows = client.execute_command("CLUSTER", "SLOTS")
        finally:
            client.close()
            client.connection_pool.disconnect()
        return {range(row[0], row[1] + 1): _address(row[2], node[0]) for row in rows}


def _raise_refusal(errors: Sequence[redis.RedisError]) -> None:
    """Raise errors that every other node would give, too."""
    for error in errors:
        if "cluster support disabled" in str(error):
            raise ConfigurationError(
                "the URL names a Redis Cluster, but the server is none: use redis:// for it"
            )
        if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
            raise error


_shared: WeakValueDictionary[str, Nodes] = WeakValueDictionary()
"""The nodes by URL, so that pools share their findings."""


def _address(node: Sequence[Any], asked: str) -> Address:
    """Return a node's address; one that does not know its own name is the one that was asked."""
    host = node[0].decode() if isinstance(node[0], bytes) else str(node[0] or "")
    return host if host not in {"", "?"} else asked, int(node[1])


class SlotFinder:
    """Finds the node that has one slot."""

    has_slots = True

    def __init__(self, nodes: Nodes, slot: int) -> None:
        self._nodes, self.number = nodes, slot
        self.configured = f"cluster {nodes.configured}"

    def find(self) -> Address:
        return self._nodes.owner(self.number)

    def known(self) -> Address | None:
        return self._nodes.known(self.number)

    def doubt(self, address: Address | None) -> None:
        """Ask the nodes again where it is."""
        self._nodes.doubt(address)


def cluster_pool(url: str, tag: str, kind: Any = None, **changed: Any) -> Any:
    """Return a pool of connections to the node with a hash tag's slot; not connected yet.

    ``kind``: their class; default: the URL says whether they use TLS.
    ``changed`` overrides the URL's options. Raises ConfigurationError, ValueError, TypeError or a
    redis error for a URL that cannot be used.
    """
    scheme, _, rest = url.partition("://")
    parts = urlsplit(f"{SCHEMES[scheme]}://{rest}")
    login, at, hosts = parts.netloc.rpartition("@")
    if parts.path.strip("/") not in {"", "0"}:
        raise ConfigurationError("a Redis Cluster has one database: let the URL end in /0")
    options = load_credentials(dict(parse_url(parts._replace(netloc=f"{login}{at}h").geturl())))
    for name in ("host", "port", "db"):
        options.pop(name, None)
    of_nodes = {name: value for name, value in options.items() if name != "connection_class"}
    if "connection_class" in options:
        of_nodes["ssl"] = True
    nodes = _shared.get(url)
    if nodes is None:
        nodes = _shared[url] = Nodes([_seed(host) for host in hosts.split(",")], of_nodes)
    return pool_of(SlotFinder(nodes, key_slot(f"{{{tag}}}".encode())), options, kind, changed)


def _seed(text: str) -> Address:
    parts = urlsplit(f"//{text.strip()}")
    if not parts.hostname:
        raise ConfigurationError("a node of the Redis Cluster has no host in the URL")
    return parts.hostname, parts.port or DEFAULT_PORT
