"""Transfers messages between kombu's lists of two Redis servers, each message exactly once.

A message is first set aside at the source under an id. The destination remembers the ids that it
received until the source has deleted them. So a repeat after an interruption at any point neither
loses nor doubles a message. One transfer works at a time: its lock expires when its process dies.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from fairqueue import FairQueueError
from fairqueue_celery._kombu_lists.lists import KombuLists

LOCK_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 15.0

ASIDE = "fairqueue.transfer.aside"  # hash at the source: "id list" -> message
ARRIVED = "fairqueue.transfer.arrived"  # set at the destination: ids
LOCK = "fairqueue.transfer.lock"  # string at the destination: the token of the one at work

SET_ASIDE = """
local message = redis.call('HGET', KEYS[2], ARGV[1])
if message then return message end -- a repeated call: the reply was lost
message = redis.call('RPOP', KEYS[1])
if message then redis.call('HSET', KEYS[2], ARGV[1], message) end
return message
"""

PUSH = """
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return -1 end
redis.call('PEXPIRE', KEYS[3], ARGV[4])
if redis.call('SADD', KEYS[2], ARGV[2]) == 0 then return 0 end
redis.call('LPUSH', KEYS[1], ARGV[3])
return 1
"""

UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class Aside:
    """Messages that have left their list and have not arrived elsewhere yet, by a name of each."""

    def __init__(self, lists: KombuLists, key: str) -> None:
        self._client, self._key = lists.client, lists.layout.prefix + key
        self._take = lists.client.register_script(SET_ASIDE)

    def take(self, key: str, name: bytes) -> bytes | None:
        """Set the next message of a list aside under this name; None: the list is empty."""
        message: bytes | None = self._take(keys=[key, self._key], args=[name])
        return message

    def kept(self) -> list[tuple[bytes, bytes]]:
        """(Name, message) of all that is set aside."""
        return list(self._client.hscan_iter(self._key))

    def forget(self, name: bytes) -> None:
        """Delete one that has arrived."""
        self._client.hdel(self._key, name)


class Transfer:
    """Between two Redis servers. Use it as a context, which holds the lock."""

    def __init__(self, source: KombuLists, destination: KombuLists) -> None:
        self._source, self._destination = source, destination
        self._aside = Aside(source, ASIDE)
        self._arrived = destination.layout.prefix + ARRIVED
        self._lock = destination.layout.prefix + LOCK
        self._token = secrets.token_hex(8)
        self._push = destination.client.register_script(PUSH)

    def __enter__(self) -> Transfer:
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        milliseconds = int(LOCK_SECONDS * 1000)
        while not self._destination.client.set(self._lock, self._token, nx=True, px=milliseconds):
            if time.monotonic() > until:
                raise FairQueueError(
                    "another migration to the same Redis is running: start this one again when it "
                    "has ended"
                )
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self._destination.client.eval(UNLOCK, 1, self._lock, self._token)

    def finish_earlier(self) -> None:
        """Transfer what an interrupted migration has set aside."""
        for name, message in self._aside.kept():
            self._deliver(name, message)

    def run(self, queues: Sequence[str]) -> None:
        """Transfer all that waits in these queues, in order."""
        source, destination = self._source.layout, self._destination.layout
        for queue in queues:
            lists = zip(source.lists(queue), destination.lists(queue), strict=True)
            for (_, key), (_, to) in lists:
                self._transfer_list(key, to)

    def _transfer_list(self, key: str, to: str) -> None:
        while True:
            name = f"{secrets.token_hex(12)} {to}".encode()
            message = self._aside.take(key, name)
            if message is None:
                return
            self._deliver(name, message)

    def _deliver(self, name: bytes, message: bytes) -> None:
        """Push one message that is set aside, then delete it at the source."""
        identity, _, to = name.partition(b" ")
        pushed = self._push(
            keys=[to, self._arrived, self._lock],
            args=[self._token, identity, message, int(LOCK_SECONDS * 1000)],
        )
        if pushed == -1:
            raise FairQueueError(
                "this migration stood still for too long and lost its lock: start it again"
            )
        self._aside.forget(name)
        self._destination.client.srem(self._arrived, identity)
