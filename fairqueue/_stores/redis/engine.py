"""Runs the operations on a Redis server."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue._lazy import rows
from fairqueue._stores.breaker import ASK_SECONDS, PATIENCE_SECONDS
from fairqueue._stores.engine import (
    Engine,
    Entry,
    Level,
    Remark,
    UnsafeServer,
    Value,
    bytes_of,
)
from fairqueue._stores.library import Read, read_source
from fairqueue._stores.redis import health
from fairqueue._stores.redis.address import address_of, doubt_server, server_of
from fairqueue._stores.redis.connections import (
    TIMEOUTS,
    Confirmation,
    Replicas,
    Wire,
    close_idle,
)
from fairqueue._stores.redis.dangers import check_server, danger_of, warn
from fairqueue._stores.redis.errors import TooFewReplicas, raise_told, translated_redis_errors
from fairqueue._stores.redis.operation_calls import Delivery, OperationCall
from fairqueue._stores.redis.pages import Pages
from fairqueue._stores.redis.permissions import missing_permissions
from fairqueue._stores.redis.traced import is_traced
from fairqueue._stores.redis.waiter import RedisWaiter
from fairqueue.errors import FairQueueError, StoreUnavailable

HEADS_AT_ONCE = 200
PATIENT = frozenset({"publish", "publish_many"})
"""Operations that wait for the socket's time-out also where there are other servers."""


class RedisEngine(Engine):
    """Runs the scripts on Redis 6.2 or later, over one client."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        namespace: str = "fairqueue",
        read: Read = read_source,
        replicas: Replicas = Replicas(),  # noqa: B008 - a tuple
        shard: int = 0,
        beside: RedisEngine | None = None,
    ) -> None:
        """``beside``: another shard of this client, with which to share connections."""
        super().__init__(namespace, read, shard=shard)
        self.client = client
        self._server: str | None = None
        self._replicas = replicas
        self.wire: Wire = Wire(client) if beside is None else beside.wire
        self._confirmation = (
            Confirmation(self.wire, replicas, self.keys.key("confirmed"))
            if replicas.least
            else None
        )
        self.delivery: Delivery = (
            Delivery(self.wire, self._library) if beside is None else beside.delivery
        )
        self._calls: dict[str, OperationCall] = {}

    def _run(self, operation: str, values: Sequence[bytes]) -> Any:
        call = self._calls.get(operation)
        if call is None:
            call = self._calls[operation] = self._new_call(operation, self._confirmation)
        is_last = self.is_leaving and self._ends(operation, values)
        if is_last and self.wire.lacks_replicas:
            call = self._new_call(operation)
        waits = not self.gives_up or (operation in PATIENT and not self.is_hurried)
        try:  # every job's calls pass here: no context manager
            return call(values) if waits else call(values, self._is_there)
        except redis.RedisError as error:
            self._note(error)
            if is_last and isinstance(error, TooFewReplicas):
                return self._run(operation, values)  # its number makes it the same call
            raise_told(error, was_let_in=self.wire.was_let_in)

    def _new_call(self, operation: str, confirmation: Confirmation | None = None) -> OperationCall:
        return OperationCall(self.delivery, operation, self.keys.declared(), confirmation)

    def _ends(self, operation: str, values: Sequence[bytes]) -> bool:
        """Whether a call only ends leases: a process that stops needs no replica for these."""
        if operation == "claim":
            return values[self._library.arguments_of(operation).index("n")] == b"0"
        return operation == "ack"

    def _is_there(self) -> bool:
        """Whether the server answers a probe."""
        return not self.is_silent and self._probe(PATIENCE_SECONDS).answers()

    def _probe(self, timeout_seconds: float) -> RedisEngine:
        probe = self.clone(timeout_seconds=timeout_seconds)
        probe.is_probe = True
        return probe

    def answers(self) -> bool:
        """Whether a call gets any answer but that of an outage."""
        try:
            self.call("is_plain", now="", queue="probe")
        except StoreUnavailable:
            return False
        except (FairQueueError, redis.RedisError):
            return True
        finally:
            self.close()
        return True

    def _note(self, error: redis.RedisError) -> None:
        if isinstance(error, redis.TimeoutError):  # what refuses, refuses at once
            self.leave_alone()

    def leave_alone(self) -> None:
        """If calls give up, fail all calls to it until a probe is answered."""
        if self.gives_up and not self.is_silent:
            doubt_server(self.client.connection_pool)
            probe, engine = self._probe(ASK_SECONDS), weakref.ref(self)
            self.breaker.calls.shut_until(lambda: engine() is None or probe.answers())

    def command(self, name: str, *arguments: Value) -> Any:
        """Run one command; redis-py reads the reply."""
        with self._guarded():
            if is_traced():
                return self.client.execute_command(name, *arguments)
            is_there = self._is_there if self.gives_up else None
            reply = self.wire.run([bytes_of(each) for each in (name, *arguments)], is_there)
            read = self.client.response_callbacks.get(name)
            return read(reply) if read else reply

    def refuse_unconfirmed(self) -> None:
        """Raise StoreUnavailable if fewer than ``min_replicas`` confirm a write."""
        if self._confirmation is not None:
            with self._guarded():
                self._confirmation.ask()

    def dump(self, *, payloads: bool = True) -> Iterator[Entry]:
        """Read every key of the namespace, page by page, records first.

        A key that goes meanwhile, as tokens do all the time, is left out.
        """
        with self._guarded():
            heads = None if payloads else self._heads
            yield from Pages(self.client, self.keys.prefix, heads).entries()

    def _heads(self, kind: str, name: str, cursor: bytes) -> Any:
        of: dict[str, Value] = {"kind": kind, "name": name, "structure": "hash"}
        return self.call("entries", now="", cursor=cursor, count=HEADS_AT_ONCE, **of)[1:]

    def waiter(
        self, queues: Sequence[str], refused: Container[str] = (), beside: Sequence[Engine] = ()
    ) -> RedisWaiter:

        def tokens() -> list[str]:
            return [token for each in (self, *beside) for token in each.tokens(queues, refused)]

        return RedisWaiter(self.client, self.wire, tokens, self)

    @property
    def connections(self) -> object:
        """See :class:`Engine`."""
        return self.client

    def check(self, *, strict: bool = True) -> None:
        """Raise if this server cannot keep the promises."""
        waits = self._replicas.least > 0
        try:
            with self._guarded():
                dangers = [*check_server(self.client, confirms=waits), *self._forbidden()]
        except StoreUnavailable:  # a replica: its connections work, so they would stay
            doubt_server(self.client.connection_pool)
            raise
        self.wire.was_let_in = True
        for danger in dangers:
            if strict and danger.level is Level.PROBLEM:
                raise UnsafeServer(danger.text)
            warn(danger.text)

    def watch(self) -> None:
        """Check the policy again, which ``CONFIG SET`` may have changed."""
        policy = self._info("memory").get("maxmemory_policy")
        danger = policy and danger_of(policy, confirms=self._replicas.least > 0)
        if danger:
            warn(danger.text)

    def _forbidden(self) -> Iterator[Remark]:
        key, waits = self.keys.key("token", "q"), self._replicas.least > 0
        text = missing_permissions(self.client, key, waits=waits)
        if text is not None:
            yield Remark(Level.PROBLEM, "permissions", text)

    @property
    def server(self) -> str:
        """Return its address, without credentials."""
        if self._server is None:
            pool = self.client.connection_pool
            if "finder" in pool.connection_kwargs:  # it may lead elsewhere by the next call
                return server_of(pool)
            self._server = server_of(pool)
        return self._server

    @cached_property
    def store_id(self) -> str:
        """Return the URL's address without credentials, the database and the namespace."""
        return f"{address_of(self.client.connection_pool)} {self.namespace}"

    def memory(self) -> rows.Memory | None:
        return health.memory(self._info())

    def durability(self) -> rows.Durability | None:
        return health.durability(self._info())

    def _info(self, *sections: str) -> health.Info:
        with self._guarded():
            return health.read_info(self.client, *sections)

    def remarks(self) -> Iterator[Remark]:
        """Yield remarks: persistence, memory, replicas, clock, permissions and the like."""
        with self._guarded():
            yield from health.remarks(self.client, self._replicas)
            yield from health.refused_writes(self.client, self.keys.prefix)
            yield from self._forbidden()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Guard calls over the client's own pool, which keeps a connection after any answer."""
        self.refuse_if_silent()
        try:
            with translated_redis_errors(was_let_in=self.wire.was_let_in):
                yield
        except StoreUnavailable as error:
            if isinstance(error.__cause__, redis.RedisError):
                self._note(error.__cause__)
            self.close()
            raise

    def clone(
        self, *, timeout_seconds: float | None = None, beside: Engine | None = None
    ) -> RedisEngine:
        """Open the same keys over connections of its own, or over those of another clone."""
        other = beside if isinstance(beside, RedisEngine) else None
        cloned = RedisEngine(
            other.client if other else self._other_client(timeout_seconds),
            namespace=self.namespace,
            read=self.read,
            replicas=self._replicas,
            shard=self.shard,
            beside=other,
        )
        cloned.wire.was_let_in = self.wire.was_let_in
        return cloned

    def _other_client(self, timeout_seconds: float | None) -> redis.Redis:
        pool = self.client.connection_pool
        changed: dict[str, Any] = {}
        if timeout_seconds is not None:
            given = pool.connection_kwargs
            for name in TIMEOUTS[:1] if "path" in given else TIMEOUTS:
                changed[name] = min(timeout_seconds, given.get(name) or timeout_seconds)
            changed["retry"] = Retry(NoBackoff(), 0)
        options = {**pool.connection_kwargs, **changed}
        return redis.Redis(connection_pool=redis.ConnectionPool(pool.connection_class, **options))

    def close(self) -> None:
        """Close connections that wait for a call: one that another thread uses is not ours."""
        self.wire.close()
        if self.client.connection is not None:  # a client of a single connection
            self.client.close()
        close_idle(self.client.connection_pool)
