"""Primaries and replicas on loopback, each a child of this process on a free port."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue._shards.placement import shard_of
from fairqueue.testing import Child, find_server
from tests.redis.proxy import Proxy
from tests.system.ledger import wait_for

DOWN_AFTER_MS = 3000
"""On a busy machine a server that is well may be silent for longer than a second: then Sentinels
fail over by themselves, and what no replica had yet is lost."""

FAILOVER_MS = 5000

SLOTS, BUS, LAST_PORT = 16_384, 10_000, 65_535
CLUSTER_TIMEOUT_MS = 5000
"""As with Sentinels; where no replica could take over, none is to be taken for dead."""

LEASE_SECONDS = 60
"""Longer than a failover on a busy machine: none ends meanwhile, which would run a job again."""


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether nothing listens at this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Node:
    """One server program with its own folder and port; started again, it has the same."""

    def __init__(
        self, lines: Sequence[str], *options: str, password: str = "", **config: object
    ) -> None:
        self.password = password
        self.folder = Path(tempfile.mkdtemp(prefix="fairqueue-node-"))
        self.port = free_port()
        self.socket_path = str(self.folder / "redis.sock")
        self._options, self._child = options, None
        given = {
            "bind": "127.0.0.1",
            "port": self.port,
            "unixsocket": self.socket_path,
            "dir": self.folder,
            "logfile": f"{self.folder}/redis.log",
            **({"requirepass": password} if password else {}),
            **config,
        }
        named = [f"{name.replace('_', '-')} {value}" for name, value in given.items()]
        (self.folder / "redis.conf").write_text("\n".join([*named, *lines, ""]))

    _child: Child | None

    def start(self) -> Node:
        """Start it and wait until it answers."""
        program = find_server()
        if program is None and not os.environ.get("CI"):
            pytest.skip("no Redis server program here; CI has one")
        Path(self.socket_path).unlink(missing_ok=True)
        command = [str(program), str(self.folder / "redis.conf"), *self._options]
        self._child = Child(command, remove=self.folder)
        wait_for(self.answers)
        return self

    def answers(self) -> bool:
        """Whether it answers now."""
        with contextlib.suppress(redis.RedisError, OSError), self.client() as client:
            return bool(client.ping())
        return False

    def client(self, **options: Any) -> redis.Redis:
        """A new client of it, which repeats nothing."""
        secret = self.password or None
        return redis.Redis(port=self.port, password=secret, retry=Retry(NoBackoff(), 0), **options)

    def run(self, *command: object) -> Any:
        """The reply to one command."""
        with self.client() as client:
            return client.execute_command(*command)

    def replicate(self, primary: Node | None) -> None:
        """Follow another node; None: be a primary."""
        self.run("REPLICAOF", *(("NO", "ONE") if primary is None else ("127.0.0.1", primary.port)))

    def follows(self, primary: Node) -> bool:
        """Whether it has all that the primary has written."""
        try:
            with self.client() as mine, primary.client() as theirs:
                info, other = mine.info("replication"), theirs.info("replication")
        except redis.RedisError:  # while it changes its role, it closes connections
            return False
        up = info.get("master_link_status") == "up" and not info.get("master_sync_in_progress")
        return up and info["slave_repl_offset"] >= other["master_repl_offset"]

    def freeze(self) -> None:
        """Suspend it, with its connections open."""
        assert self._child is not None
        self._child.signal(SIGSTOP)

    def thaw(self) -> None:
        """Let it answer again."""
        assert self._child is not None
        self._child.signal(SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL, like a crash."""
        child, self._child = self._child, None
        if child is not None:
            child.end(number=SIGKILL)

    def close(self) -> None:
        """End it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def data_node(*, password: str = "", **config: object) -> Node:
    """A server that keeps jobs, and is in step with its replicas soon."""
    if password:
        config["masterauth"] = password
    # written before each answer, so that a kill takes nothing, and no disk delays a PING
    kept: dict[str, object] = {"save": '""', "appendonly": "yes", "appendfsync": "no"}
    quick: dict[str, object] = {"repl_diskless_sync_delay": 0, "repl_ping_replica_period": 1}
    return Node((), password=password, **kept, **quick, **config)


def sentinel_node(
    primary: Node, service: str, others: int, password: str = "", down_after_ms: int = DOWN_AFTER_MS
) -> Node:
    """A Sentinel that watches a primary, and agrees with ``others`` that it is down."""
    secret = [f"sentinel auth-pass {service} {primary.password}"] if primary.password else []
    own = [f"sentinel sentinel-pass {password}"] if password else []
    return Node(
        [
            f"sentinel monitor {service} 127.0.0.1 {primary.port} {others + 1}",
            f"sentinel down-after-milliseconds {service} {down_after_ms}",
            f"sentinel failover-timeout {service} {FAILOVER_MS}",
            *secret,
            *own,
        ],
        "--sentinel",
        password=password,
    )


class Watched:
    """A primary with replicas, watched by three Sentinels."""

    service = "mymaster"

    def __init__(
        self,
        *,
        replicas: int = 1,
        password: str = "",
        sentinel_password: str = "",
        down_after_ms: int = DOWN_AFTER_MS,
    ) -> None:
        first, *others = self.data = [data_node(password=password) for _ in range(replicas + 1)]
        for node in self.data:
            node.start()
        for other in others:
            other.replicate(first)
        wait_for(lambda: all(other.follows(first) for other in others))
        watching = [
            sentinel_node(self.data[0], self.service, 1, sentinel_password, down_after_ms)
            for _ in range(3)
        ]
        self.sentinels = [node.start() for node in watching]
        wait_for(self.knows_all)

    @property
    def hosts(self) -> str:
        """Where the Sentinels are, as in a URL."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.sentinels)

    def knows_all(self) -> bool:
        """Whether each Sentinel knows the others, and all replicas as such that it may promote."""
        with contextlib.suppress(redis.RedisError):
            return all(self._knows_all(node) for node in self.sentinels)
        return False

    def _knows_all(self, sentinel: Node) -> bool:
        with sentinel.client() as client:
            seen = client.sentinel_masters()[self.service]
            slaves = client.sentinel_slaves(self.service)
        followers = [each for each in slaves if not each["is_odown"] and not each["is_sdown"]]
        up = [each for each in followers if "master_link_status" not in each or _is_up(each)]
        known = len({(each["ip"], each["port"]) for each in up})
        return int(seen["num-other-sentinels"]) == 2 and known == len(self.data) - 1

    @property
    def url(self) -> str:
        """The core's URL."""
        return f"redis+sentinel://{self.hosts}/{self.service}/0"

    def replicas_of(self, primary: Node) -> list[Node]:
        """Those that follow it."""
        return [node for node in self.data if node is not primary]

    def primary(self) -> Node | None:
        """The node that a majority of the Sentinels names, if it says so itself."""
        try:
            named = [self._named_by(node) for node in self.sentinels]
        except redis.RedisError:
            return None
        for node in self.data:
            if named.count(node.port) >= 2 and node.answers() and role_of(node) == "master":
                return node
        return None

    def _named_by(self, sentinel: Node) -> int:
        # Not by redis-py's method for it, which fails on its own reply in some versions (6.4).
        address = sentinel.run("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
        return int(address[1])

    def fail_over(self) -> Node:
        """Kill the primary, when its replicas have all of it; return the new one."""
        old = wait_for(self.primary)
        wait_for(lambda: all(node.follows(old) for node in self.data if node is not old))
        old.kill()
        return self.new_primary(old)

    def new_primary(self, old: Node) -> Node:
        """Wait for the one that takes over, until most Sentinels name it."""

        def taken_over() -> Node | None:
            self._wake()
            found = self.primary()
            return None if found is old else found

        found: Node = wait_for(taken_over)
        return found

    def _wake(self) -> None:
        """Start the Sentinels again that saw the machine stand still.

        After a stall of two seconds a Sentinel only looks on, for half a minute after the last
        one ("TILT"); a new one acts at once.
        """
        for node in self.sentinels:
            with contextlib.suppress(redis.RedisError):
                if node.run("INFO", "sentinel")["sentinel_tilt"]:
                    node.kill()
                    node.start()

    def close(self) -> None:
        """End all of it."""
        for node in [*self.sentinels, *self.data]:
            node.close()


def _is_up(seen: dict[str, object]) -> bool:
    return seen.get("master-link-status") in {"ok", None}


def role_of(node: Node) -> str:
    """What it takes itself for: master or slave; none: it does not answer."""
    with contextlib.suppress(redis.RedisError):
        role: bytes = node.run("ROLE")[0]
        return role.decode()
    return "none"


def watched(**options: Any) -> contextlib.closing[Watched]:
    """Such a trio for some tests."""
    return contextlib.closing(Watched(**options))


class MovedName:
    """A name, a proxy's port, that leads to a primary with a replica, and to that one later."""

    def __init__(self) -> None:
        self.primary, self.replica = data_node().start(), data_node().start()
        self.replica.replicate(self.primary)
        self._proxy = Proxy(self.primary.socket_path)
        self.port = self._proxy.port

    def is_replicated(self) -> bool:
        """Whether the replica follows, and the primary has heard that."""
        with self.primary.client() as primary:
            told: dict[str, Any] = primary.info("replication").get("slave0", {})
        return self.replica.follows(self.primary) and told.get("state") == "online"

    def promote(self) -> None:
        """The replica becomes the primary; connections of before stay open to the other."""
        wait_for(lambda: self.replica.follows(self.primary))
        self.replica.replicate(None)
        self.primary.replicate(self.replica)
        self.primary, self.replica = self.replica, self.primary

    def move(self) -> None:
        """From now on the name leads to the primary of now."""
        self._proxy.upstream = self.primary.socket_path

    def close(self) -> None:
        """End all of it."""
        self._proxy.close()
        self.primary.close()
        self.replica.close()


def moved_name() -> contextlib.closing[MovedName]:
    """Such a name for one test."""
    return contextlib.closing(MovedName())


class Cluster:
    """A Redis Cluster of three primaries, each with a third of the slots."""

    PRIMARIES = 3

    def __init__(self, *, replicas: int = 0) -> None:
        self._turns, n = -1, self.PRIMARIES * (1 + replicas)
        silence_ms = CLUSTER_TIMEOUT_MS if replicas else 60_000
        self.nodes = [self.new_node(silence_ms).start() for _ in range(n)]
        self.primaries = self.nodes[: self.PRIMARIES]
        for number, node in enumerate(self.primaries):
            first, end = (SLOTS * n // self.PRIMARIES for n in (number, number + 1))
            node.run("CLUSTER", "ADDSLOTS", *range(first, end))
        for number, node in enumerate(self.nodes):  # else all begin with the same epoch
            node.run("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            node.run("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        wait_for(lambda: all(self._knows(node, n) for node in self.nodes))
        for number, node in enumerate(self.nodes[self.PRIMARIES :]):
            primary = self.primaries[number % self.PRIMARIES]
            node.run("CLUSTER", "REPLICATE", self.id_of(primary))
            wait_for(partial(node.follows, primary))
        wait_for(lambda: all(self.state(node) == "ok" for node in self.nodes))
        wait_for(lambda: all(self._knows_owners(node) for node in self.nodes))

    @staticmethod
    def _knows_owners(node: Node) -> bool:
        rows = node.run("CLUSTER", "SLOTS")
        return bool(sum(row[1] + 1 - row[0] for row in rows) == SLOTS)

    @staticmethod
    def new_node(silence_ms: int = CLUSTER_TIMEOUT_MS) -> Node:
        """A node that knows no other, and has no slot."""
        config = {"cluster_enabled": "yes", "cluster_require_full_coverage": "no"}
        while True:  # it takes a second port, 10,000 above
            node = data_node(cluster_node_timeout=silence_ms, **config)
            if node.port < LAST_PORT - BUS and is_free(node.port + BUS):
                return node
            node.close()

    @staticmethod
    def _knows(node: Node, n: int) -> bool:
        return int(node.run("CLUSTER INFO")["cluster_known_nodes"]) == n

    @staticmethod
    def state(node: Node) -> str:
        """Whether all slots are served, as this node sees it: ok or fail."""
        return str(node.run("CLUSTER INFO")["cluster_state"])

    @staticmethod
    def id_of(node: Node) -> str:
        """What the others call it."""
        found: bytes = node.run("CLUSTER", "MYID")
        return found.decode()

    @property
    def hosts(self) -> str:
        """Where its nodes are, as in a URL."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @property
    def url(self) -> str:
        """The core's URL."""
        return f"redis+cluster://{self.hosts}/0"

    def owner(self, slot: int) -> Node:
        """The node that has a slot, as the first node that answers sees it."""
        port = next(port for slots, port in self._owners().items() if slot in slots)
        return next(node for node in self.nodes if node.port == port)

    def _owners(self) -> dict[range, int]:
        rows = next(node for node in self.nodes if node.answers()).run("CLUSTER", "SLOTS")
        return {range(row[0], row[1] + 1): row[2][1] for row in rows}

    def knows_all(self) -> bool:
        """Whether all nodes are there, and each primary has its replicas."""
        with contextlib.suppress(redis.RedisError):
            count = len(self.nodes) // self.PRIMARIES - 1
            primaries = [node for node in self.nodes if role_of(node) == "master"]
            return (
                all(self.state(node) == "ok" for node in self.nodes)
                and len(primaries) == self.PRIMARIES
                and all(len(self.replicas_of(node)) == count for node in primaries)
            )
        return False

    def primary(self) -> Node | None:
        """Each of those that have slots in turn."""
        ports = set(self._owners().values())
        self._turns += 1
        found = [node for node in self.nodes if node.port in ports]
        return found[self._turns % len(found)]

    def replicas_of(self, primary: Node) -> list[Node]:
        """Those that follow it."""
        roles = {node: node.run("ROLE") for node in self.nodes if node.answers()}
        return [node for node, role in roles.items() if role[2:3] == [primary.port]]

    def new_primary(self, old: Node) -> None:
        """Wait until all slots are served without it."""
        others = [node for node in self.nodes if node is not old]

        def taken_over() -> bool:
            if old.port in self._owners().values():
                return False
            return all(self.state(node) == "ok" for node in others)

        wait_for(taken_over)

    def move(self, slot: int) -> Iterator[int]:
        """Move a slot with its keys to another primary, as an operator does; yield the keys left.

        As long as the caller likes between two steps.
        """
        source = self.owner(slot)
        target = next(node for node in self.primaries if node is not source)
        target.run("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.run("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        while keys := source.run("CLUSTER", "GETKEYSINSLOT", slot, 3):
            source.run("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            yield int(source.run("CLUSTER", "COUNTKEYSINSLOT", slot))
        for node in (target, *self.primaries):
            node.run("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def close(self) -> None:
        """End all of it."""
        for node in self.nodes:
            node.close()


def cluster(**options: Any) -> contextlib.closing[Cluster]:
    """Such a Cluster for some tests."""
    return contextlib.closing(Cluster(**options))


class Spread:
    """Two servers, each with one shard of a namespace."""

    def __init__(self) -> None:
        self.nodes = [data_node().start() for _ in range(2)]

    @property
    def hosts(self) -> str:
        """Where they are, as in a URL."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @property
    def url(self) -> str:
        """The core's URL."""
        return f"redis://{self.hosts}/0"

    def workspaces(self, shard: int, n: int) -> list[str]:
        """The names of ``n`` workspaces that live on this server."""
        names = (f"workspace-{number}" for number in count())
        return list(islice((name for name in names if shard_of(name, 2) == shard), n))

    def close(self) -> None:
        """End both."""
        for node in self.nodes:
            node.close()


def spread() -> contextlib.closing[Spread]:
    """Such a pair for some tests."""
    return contextlib.closing(Spread())
