"""The Redis store: one method per script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue._keys import Keys, decode, encode
from fairqueue._linker import Read, read_source
from fairqueue._scripts import Scripts
from fairqueue._stores import limits_text
from fairqueue._stores.polling import poll_seconds
from fairqueue._stores.redis import replies
from fairqueue._stores.redis.address import client_at
from fairqueue._stores.redis.guard import check_server, guarded
from fairqueue._stores.redis.neighbouring import Neighbouring
from fairqueue._stores.redis.operating import PAGE
from fairqueue._stores.redis.waiter import RedisWaiter
from fairqueue._types import (
    Admission,
    Claimed,
    Finish,
    Job,
    Limits,
    Published,
    Renewed,
    Stats,
    StoredLimits,
)
from fairqueue._wire import Value
from fairqueue.errors import FairQueueError


class RedisStore(Neighbouring):
    """Keeps the law in Redis 6.2 or later, one script per operation."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        namespace: str = "fairqueue",
        clock: Callable[[], float] | None = None,
        read: Read = read_source,
    ) -> None:
        self.client = client
        self.keys = Keys(namespace)
        self._namespace, self._clock, self._read = namespace, clock, read
        self._scripts = Scripts(client, self.keys, read)
        self._tasks: dict[bytes, str] = {}

    @classmethod
    def from_url(cls, url: str, *, namespace: str) -> RedisStore:
        """Open the store of a redis://, rediss:// or unix:// URL; nothing is connected yet.

        Raises ConfigurationError for one that the client cannot use.
        """
        return cls(client_at(url), namespace=namespace)

    def _call(self, name: str, /, **values: Value) -> Any:
        now = repr(self._clock()) if self._clock else ""
        with guarded():
            return self._scripts.call(name, now=now, **values)

    def _numbered(self, name: str, owner: str, number: int, **values: Value) -> Any:
        reply = self._call(name, owner=encode(owner), number=number, **values)
        if reply in (-1, [-1]):
            raise FairQueueError(
                f"call {number} of owner {owner!r} came after a later one and was not carried out"
            )
        return reply

    def check(self) -> None:
        """Raise if this server cannot keep the promises."""
        with guarded():
            check_server(self.client)

    def configure(self, limits: StoredLimits, *, authoritative: bool) -> bool:
        """Store limits where none are stored, or always with authority."""
        fields = "".join(f"{field} {text}\n" for field, text in limits_text.configured(limits))
        kept = limits_text.retention(limits)
        return bool(
            self._call("configure", authoritative=int(authoritative), fields=fields, retention=kept)
        )

    def publish(self, job: Job, admission: Admission) -> Published:
        """Enqueue one job."""
        status, *rest = self._call(
            "publish",
            queue=encode(job.queue),
            id=encode(job.id),
            workspace=encode(job.workspace),
            task=encode(job.task),
            priority=job.priority,
            delay=job.delay_seconds or 0,
            exempt=int(admission.exempt),
            group=encode(admission.group or ""),
            parent=admission.parent_fence or "",
            more=replies.more_text(job, admission),
            payload=job.payload,
        )
        return replies.published(status, rest, job)

    def claim(
        self,
        *,
        owner: str,
        number: int,
        queues: Sequence[str],
        n: int,
        lease_seconds: float,
        max_deliveries: int | None,
        finishes: Sequence[Finish] = (),
        shy: bool = False,
    ) -> Claimed:
        """Finish what the owner brings, then lease up to ``n`` jobs."""
        sent = replies.clock()
        reply = self._numbered(
            "claim",
            owner,
            number,
            queues=" ".join(map(encode, queues)),
            n=n,
            lease_seconds=lease_seconds,
            max_deliveries=max_deliveries or "",
            poll_seconds=poll_seconds(lease_seconds),
            finishes=replies.finishes_text(finishes),
            shy=int(shy),
        )
        return replies.claimed(reply, lease_seconds, sent, self._task)

    def _task(self, number: bytes) -> str:
        """Name a task; a number never changes its name."""
        name = self._tasks.get(number)
        if name is None:
            with guarded():
                stored = self.client.hget(self.keys.key("tasks"), b"#" + number)
            name = self._tasks[number] = decode(stored or b"")
        return name

    def renew(self, progress: Sequence[tuple[int, float]], *, lease_seconds: float) -> Renewed:
        """Extend leases; tell which are lost or cancelled."""
        text = " ".join(f"{fence}:{seconds!r}" for fence, seconds in progress)
        return replies.renewed(self._call("renew", lease_seconds=lease_seconds, progress=text))

    def ack(
        self, *, owner: str, number: int, lease_seconds: float, finishes: Sequence[Finish]
    ) -> frozenset[int]:
        """Finish without claiming; return the fences that were lost."""
        text = replies.finishes_text(finishes)
        reply = self._numbered("ack", owner, number, lease_seconds=lease_seconds, finishes=text)
        return replies.fences(reply[1])

    def release(
        self,
        fence: int,
        *,
        owner: str,
        number: int,
        lease_seconds: float,
        delay_seconds: float,
        counted: bool,
        seconds: float,
        max_deliveries: int | None,
        turned_away: bool = False,
    ) -> bool:
        """Give a job back."""
        reply = self._numbered(
            "release",
            owner,
            number,
            lease_seconds=lease_seconds,
            fence=fence,
            delay=delay_seconds,
            counted=int(counted),
            seconds=seconds,
            max_deliveries=max_deliveries or "",
            turned_away=int(turned_away),
        )
        return bool(reply)

    def reject(
        self,
        fence: int,
        *,
        owner: str,
        number: int,
        lease_seconds: float,
        reason: str,
        seconds: float,
    ) -> bool:
        """Move a leased job to the dead letters."""
        reply = self._numbered(
            "reject",
            owner,
            number,
            lease_seconds=lease_seconds,
            fence=fence,
            reason=encode(reason),
            seconds=seconds,
        )
        return bool(reply)

    def reap(self, *, lease_seconds: float, max_deliveries: int | None) -> int:
        """Bring back expired leases and fire due timers."""
        return int(
            self._call("reap", lease_seconds=lease_seconds, max_deliveries=max_deliveries or "")
        )

    def set_limits(self, scope: str, name: str, limits: Limits | None) -> None:
        """Set limits live, or take them away."""
        changes = limits_text.text_of(limits) if limits else ""
        stands = self._call("set_limits", scope=scope, name=encode(name), changes=changes)
        if limits and isinstance(stands, list):
            raise limits_text.too_high(name, limits, stands[0])

    def snapshot(self) -> Stats:
        """Gather every page."""
        rows, queues, cursor = {}, {}, b"0"
        while True:
            cursor, some_queues, some = self._call("snapshot", cursor=cursor, count=PAGE)
            queues.update({decode(queue): int(depth) for queue, depth in some_queues})
            rows.update({row[0]: replies.workspace_stats(row) for row in some})
            if cursor == b"0":
                return Stats(tuple(sorted(rows.values(), key=lambda s: s.workspace)), queues)

    def depth(self, queue: str, *, running: bool = False) -> int:
        """Count what waits on a queue."""
        return int(self._call("depth", queue=encode(queue), running=int(running)))

    def declare(self, queue: str, *, plain: bool) -> None:
        """Remember a queue's kind."""
        self._call("declare", queue=encode(queue), kind="plain" if plain else "task")

    def is_plain(self, queue: str) -> bool | None:
        """Tell a queue's kind."""
        kind = self._call("is_plain", queue=encode(queue))
        return kind == b"plain" if kind else None

    def waiter(self, queues: Sequence[str]) -> RedisWaiter:
        """Make a waiter with a connection of its own."""
        return RedisWaiter(self.client, [self.keys.key("token", queue) for queue in queues])

    def clone(self, *, timeout_seconds: float | None = None) -> RedisStore:
        """Open the same store over connections of its own."""
        pool = self.client.connection_pool
        options = dict(pool.connection_kwargs)
        if timeout_seconds is not None:
            options["socket_timeout"] = min(
                timeout_seconds, options.get("socket_timeout") or timeout_seconds
            )
            options["retry"] = Retry(NoBackoff(), 0)
        client = redis.Redis(connection_pool=redis.ConnectionPool(pool.connection_class, **options))
        return RedisStore(client, namespace=self._namespace, clock=self._clock, read=self._read)

    def close(self) -> None:
        """Close connections."""
        self._scripts.close()
        self.client.close()
        self.client.connection_pool.disconnect()
