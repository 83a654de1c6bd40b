"""Carries messages from kombu's lists in one Redis to those in another, each exactly once.

A message is first put aside at its source, under an id of its own. The destination remembers the
ids that it got until the source has let go. So a repeat after an interruption, at whatever point,
neither loses nor doubles one. One carrier works at a time: its turn ends by itself when it dies.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from fairqueue import FairQueueError
from fairqueue_celery.stocklists import StockLists

TURN_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 15.0

ASIDE = "fairqueue.carrying"  # hash at the source: "id list" -> message
ARRIVED = "fairqueue.carried"  # set at the destination: ids
TURN = "fairqueue.carrier"  # string at the destination: whose turn it is

PUT_ASIDE = """
local message = redis.call('HGET', KEYS[2], ARGV[1])
if message then return message end -- the client asks again: its reply was lost
message = redis.call('RPOP', KEYS[1])
if message then redis.call('HSET', KEYS[2], ARGV[1], message) end
return message
"""

PUT_DOWN = """
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return -1 end
redis.call('PEXPIRE', KEYS[3], ARGV[4])
if redis.call('SADD', KEYS[2], ARGV[2]) == 0 then return 0 end
redis.call('LPUSH', KEYS[1], ARGV[3])
return 1
"""

END_TURN = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class Carrier:
    """Carries between two Redis; use it as a context, which is its turn."""

    def __init__(self, source: StockLists, destination: StockLists) -> None:
        self._source, self._destination = source, destination
        self._token = secrets.token_hex(8)
        self._put_aside = source.client.register_script(PUT_ASIDE)
        self._put_down = destination.client.register_script(PUT_DOWN)

    def __enter__(self) -> Carrier:
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        turn = self._destination.layout.prefix + TURN
        while not self._destination.client.set(
            turn, self._token, nx=True, px=int(TURN_SECONDS * 1000)
        ):
            if time.monotonic() > until:
                raise FairQueueError("another migration is at work there: wait until it has ended")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        turn = self._destination.layout.prefix + TURN
        self._destination.client.eval(END_TURN, 1, turn, self._token)

    def finish_earlier(self) -> int:
        """Carry on what an interrupted migration has put aside; return how many."""
        aside = list(self._source.client.hscan_iter(self._source.layout.prefix + ASIDE))
        for name, message in aside:
            self._bring(name, message)
        return len(aside)

    def carry(self, queues: Sequence[str], progress: Callable[[int], Any]) -> int:
        """Carry all that waits in these queues, in order; return how many."""
        pairs = [
            (key, to)
            for queue in queues
            for (_, key), (_, to) in zip(
                self._source.layout.lists(queue),
                self._destination.layout.lists(queue),
                strict=True,
            )
        ]
        return sum(self._carry_list(key, to, progress) for key, to in pairs)

    def _carry_list(self, key: str, to: str, progress: Callable[[int], Any]) -> int:
        carried = 0
        aside = self._source.layout.prefix + ASIDE
        while True:
            name = f"{secrets.token_hex(12)} {to}".encode()
            message = self._put_aside(keys=[key, aside], args=[name])
            if message is None:
                return carried
            self._bring(name, message)
            carried += 1
            progress(1)

    def _bring(self, name: bytes, message: bytes) -> None:
        """Put down one message that is aside, and let go of it."""
        identity, _, to = name.partition(b" ")
        prefix = self._destination.layout.prefix
        done = self._put_down(
            keys=[to, prefix + ARRIVED, prefix + TURN],
            args=[self._token, identity, message, int(TURN_SECONDS * 1000)],
        )
        if done == -1:
            raise FairQueueError(
                "this migration stood still for too long and lost its turn: start it again"
            )
        self._source.client.hdel(self._source.layout.prefix + ASIDE, name)
        self._destination.client.srem(prefix + ARRIVED, identity)
