"""How kombu's Redis transport stores messages: lists per queue and priority, and what is unacked.

A queue is one list per priority step, ``queue`` and ``queue<sep>3``; its right end is next. What
was delivered and not acked is in a hash by delivery tag and in a sorted set by time of delivery;
so is a task that a worker holds back until its ETA.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairqueue_celery._channel.queue_kinds import REPLY_NAME
from fairqueue_celery._publish.publish import json_body

RESTORE = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[3])
return 1
"""

PAGE = 500

NO_MESSAGE = (ValueError, TypeError, RecursionError, re.error)
"""What parsing raises for something else; any client of the Redis may have pushed it."""


@dataclass(frozen=True)
class Layout:
    """Names of keys, as an app's transport options set them."""

    prefix: str = ""
    sep: str = "\x06\x16"
    steps: tuple[int, ...] = (0, 3, 6, 9)
    unacked: str = "unacked"
    unacked_index: str = "unacked_index"

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Layout:
        """Read them from ``broker_transport_options``."""
        return cls(
            prefix=options.get("global_keyprefix") or "",
            sep=options.get("sep") or cls.sep,
            steps=tuple(sorted(options.get("priority_steps") or cls.steps)),
            unacked=options.get("unacked_key") or cls.unacked,
            unacked_index=options.get("unacked_index_key") or cls.unacked_index,
        )

    def lists(self, queue: str) -> list[tuple[int, str]]:
        """(Least priority, key) of each list of a queue, the most urgent first."""
        return [(n, f"{self.prefix}{queue}{self.sep}{n}" if n else self.prefix + queue)
                for n in self.steps]  # fmt: skip

    def list_for(self, queue: str, priority: int) -> str:
        """The list of the messages with this priority."""
        return self.lists(queue)[max(0, bisect(self.steps, priority) - 1)][1]

    def queue_of(self, key: str) -> str:
        """The queue that a list belongs to."""
        return key.removeprefix(self.prefix).rsplit(self.sep, 1)[0]


@dataclass(frozen=True)
class Held:
    """A message that was delivered and not acked."""

    tag: bytes
    entry: bytes
    message: dict[str, Any]
    queue: str | None
    """None: it is not known where it came from."""


class KombuLists:
    """One Redis as kombu's own transport uses it."""

    def __init__(self, client: Any, layout: Layout) -> None:
        self.client, self.layout = client, layout
        self._restore = client.register_script(RESTORE)

    def queues(self) -> list[str]:
        """Every queue in which a task waits."""
        keys = self.client.scan_iter(match=f"{_literal(self.layout.prefix)}*", count=1000,
                                     _type="LIST")  # fmt: skip
        names = {self.layout.queue_of(key.decode(errors="surrogateescape")) for key in keys}
        return sorted(name for name in names if self._has_tasks(name))

    def _has_tasks(self, queue: str) -> bool:
        if REPLY_NAME.fullmatch(queue):
            return False
        heads = (self.client.lindex(key, -1) for _, key in self.layout.lists(queue))
        return any(head is not None and is_task(parse(head)) for head in heads)

    def waiting(self, queue: str) -> int:
        """Messages in the lists of a queue."""
        return sum(int(self.client.llen(key)) for _, key in self.layout.lists(queue))

    def messages(self, queue: str) -> Iterator[bytes]:
        """Read the messages of a queue, page by page; while others move them, some may repeat."""
        for _, key in self.layout.lists(queue):
            start = 0
            while page := self.client.lrange(key, start, start + PAGE - 1):
                yield from page
                start += PAGE

    # What is unacked

    def held(self) -> Iterator[Held]:
        """Every unacked task of any worker."""
        for tag, entry in self.client.hscan_iter(self._key(self.layout.unacked), count=500):
            found = self._read_held(tag, entry)
            if found is not None:
                yield found

    def overdue(self, before: float, most: int) -> list[Held]:
        """Unacked tasks that were delivered before this time."""
        index = self._key(self.layout.unacked_index)
        tags = self.client.zrangebyscore(index, 0, before, start=0, num=most)
        entries = ((tag, self.client.hget(self._key(self.layout.unacked), tag)) for tag in tags)
        found = (self._read_held(tag, entry) for tag, entry in entries if entry)
        return [held for held in found if held is not None]

    def _read_held(self, tag: bytes, entry: bytes) -> Held | None:
        try:
            message, exchange, routing_key = json.loads(entry)
            if not is_task(message):
                return None
            return Held(tag, entry, message, self._queue_bound(exchange, routing_key))
        except NO_MESSAGE:
            return None

    def _queue_bound(self, exchange: str, routing_key: str) -> str | None:
        """The queue of a message with this address, looked up as kombu does; one queue only."""
        if not exchange:
            return routing_key or None
        for member in sorted(self.client.smembers(self._key(f"_kombu.binding.{exchange}"))):
            key, pattern, queue = (*member.decode().split(self.layout.sep), "", "")[:3]
            if key == routing_key or (pattern and re.match(pattern, routing_key)):
                return queue or None
        return None

    def restore(self, held: Held) -> bool:
        """Put an unacked task back atomically, next in its queue; False: it is acked by now."""
        if held.queue is None:
            return False
        message = held.message
        message["headers"]["redelivered"] = True
        info = message["properties"].get("delivery_info")
        if isinstance(info, dict):
            info["redelivered"] = True
        key = self.layout.list_for(held.queue, priority_of(message))
        keys = [self._key(self.layout.unacked), self._key(self.layout.unacked_index), key]
        return bool(self._restore(keys=keys, args=[held.tag, held.entry, json.dumps(message)]))

    def _key(self, name: str) -> str:
        return self.layout.prefix + name


def parse(message: bytes) -> Any:
    """A message as its producer wrote it; None if it is no JSON, or nested too deeply."""
    try:
        return json.loads(message)
    except NO_MESSAGE:
        return None


def is_task(message: Any) -> bool:
    """Whether this is a Celery task, of either protocol."""
    if not isinstance(message, dict) or not isinstance(message.get("properties"), dict):
        return False
    headers = message.get("headers")
    if not isinstance(headers, dict):
        return False
    if "task" in headers:
        return True
    body = json_body(message)
    return isinstance(body, dict) and "task" in body


def priority_of(message: Mapping[str, Any]) -> int:
    """0, the most urgent, to 9, read as kombu reads it."""
    try:
        return min(9, max(0, int(message["properties"]["priority"])))
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0


def _literal(text: str) -> str:
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)
