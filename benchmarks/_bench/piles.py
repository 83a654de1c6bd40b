"""Pile up states that are too large to publish job by job, and time single scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from _bench.bulk import bring_library
from fairqueue import Job
from fairqueue._keys import encode_job
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Claimed, Finish
from fairqueue.testing import ManualClock

AT_ONCE = 1000
LEASE_SECONDS = 3600.0
_CLONE = """\
-- Copy jobs that wait or are scheduled: the record, and its place in a lane or schedule.
local first, last, ids = tonumber(ARGV[1]), tonumber(ARGV[2]), #ARGV - 2
for n = first, last do
  local id = ARGV[3 + n % ids]
  local copy, own = id .. '-' .. n, id:match('[^/]*$')
  redis.call('HSET', KEYS[1], copy, redis.call('HGET', KEYS[1], id))
  if redis.call('TYPE', KEYS[2])['ok'] == 'list' then
    local task = redis.call('LINDEX', KEYS[2], n % ids):match('^[^:]+:')
    redis.call('RPUSH', KEYS[2], task .. own .. '-' .. n)
  else
    for _, entry in ipairs(redis.call('ZRANGE', KEYS[2], 0, ids - 1)) do
      local head = entry:match('^(.*:)' .. own .. '$')
      if head then
        local at = redis.call('ZSCORE', KEYS[2], entry) + n / 1e4
        redis.call('ZADD', KEYS[2], at, head .. own .. '-' .. n)
      end
    end
  end
end
"""
"""A pile of a million takes minutes by the real scripts and seconds by this one.

It copies whole records, so it knows only that a lane holds ``task:id`` and that an entry ends so.
"""


_SCRIPTS = ("cmdstat_fcall", "cmdstat_eval", "cmdstat_evalsha")


class TimedEngine(RedisEngine):
    """Keeps how long Redis took for each call of a script, by its own count."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.timed = False
        self.calls: list[int] = []
        """Microseconds of each call while ``timed``."""

    def _run(self, operation: str, values: Sequence[bytes]) -> Any:
        if not self.timed:
            return super()._run(operation, values)
        script, processor = self._spent()
        reply = super()._run(operation, values)
        after = self._spent()
        self.calls.append(min(after[0] - script, after[1] - processor))
        return reply

    def _spent(self) -> tuple[int, int]:
        """Microseconds of scripts, and of the processor.

        While another process has the processor, the script's own clock runs on.
        """
        stats = self.client.info("commandstats")  # EVAL loads a script at its first call
        script = sum(int(stats.get(name, {}).get("usec", 0)) for name in _SCRIPTS)
        cpu = self.client.info("cpu")
        return script, round(1e6 * (cpu["used_cpu_user"] + cpu["used_cpu_sys"]))


class _Piped(RedisEngine):
    """Queues its calls in a pipeline; each reply is that of a publish."""

    def _run(self, operation: str, values: Sequence[bytes]) -> Any:
        super()._run(operation, values)
        return [1]


@dataclass(eq=False)
class Pile:
    """A store on a server of its own, whose clock stands still."""

    client: Any
    namespace: str = "fairqueue"
    clock: ManualClock = field(default_factory=ManualClock)
    numbers: dict[str, int] = field(default_factory=dict)
    published: int = 0

    def __post_init__(self) -> None:
        self.engine = TimedEngine(self.client, namespace=self.namespace)
        self.store = Store(self.engine, clock=self.clock)
        bring_library(self.client)
        self.client.config_set("lua-time-limit", 600_000)

    def publish(self, workspace: str = "first", **job: Any) -> str:
        """Publish one job; return its id."""
        self.published += 1
        job_id = job.pop("job_id", f"job{self.published}")
        queue, task = job.pop("queue", "first"), job.pop("task", "noop")
        self.store.publish(Job(job_id, workspace, queue, task, b"x" * 100, **job), Admission())
        return job_id

    def claim(
        self, n: int = 1, *queues: str, owner: str = "one", finishes: Sequence[Finish] = ()
    ) -> Claimed:
        """Finish and claim."""
        number = self.numbers[owner] = self.numbers.get(owner, 0) + 1
        return self.store.claim(
            owner=owner,
            number=number,
            queues=queues or ("first",),
            n=n,
            lease_seconds=LEASE_SECONDS,
            max_deliveries=None,
            finishes=finishes,
        )

    def one_more(self, claimed: Claimed, *queues: str) -> Claimed:
        """Finish what was claimed, and claim one job."""
        return self.claim(1, *queues, finishes=[Finish(each.fence) for each in claimed.leases])

    def clone(
        self, kind: str, names: Sequence[str], ids: Sequence[str], first: int, many: int
    ) -> None:
        """Copy jobs of a lane or schedule: the copies numbered from ``first`` up to ``many``."""
        keys = self.engine.keys
        where = keys.key("jobs", names[0]), keys.key(kind, *names[1:])
        script = self.client.register_script(_CLONE)
        for at in range(first, many, 10_000):
            known_by = (encode_job(names[1], names[0], job_id) for job_id in ids)
            script(where, (at, min(at + 10_000, many) - 1, *known_by))

    def publish_many(self, jobs: Iterator[Job]) -> None:
        """Publish by the real script, many calls in a round trip."""
        with self.client.pipeline(transaction=False) as pipe:
            piped = Store(_Piped(pipe, namespace=self.namespace), clock=self.clock)
            for n, job in enumerate(jobs, 1):
                piped.publish(job, Admission())
                if n % AT_ONCE == 0:
                    pipe.execute()
            pipe.execute()

    @contextmanager
    def piped(self) -> Iterator[Store]:
        """A store whose calls are sent when the block ends; their replies are not read."""
        with self.client.pipeline(transaction=False) as pipe:
            yield Store(_Piped(pipe, namespace=self.namespace), clock=self.clock)
            pipe.execute()

    @contextmanager
    def timing(self) -> Iterator[list[int]]:
        """Collect the microseconds of each script in the block."""
        self.engine.calls, self.engine.timed = [], True
        try:
            yield self.engine.calls
        finally:
            self.engine.timed = False
