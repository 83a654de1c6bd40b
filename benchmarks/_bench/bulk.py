"""Fill a store with many jobs, with the real scripts and many calls per round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from _bench.messages import QUEUE
from _bench.progress import Progress
from fairqueue import Job
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, new_job_id

AT_ONCE = 1000


class _Piped(RedisEngine):
    """Queues its calls in a pipeline, and assumes that each publish succeeds."""

    def _run(self, operation: str, values: Sequence[bytes]) -> Any:
        keys = self.keys.declared()
        self.client.fcall(self.delivery.library.function(operation), len(keys), *keys, *values)
        return 1


def bring_library(client: Any) -> None:
    """Load the operations: what is sent in a pipeline is not sent again."""
    RedisEngine(client).delivery.brings_library()


def fill(
    url: str,
    namespace: str,
    workspaces: Sequence[str],
    payload: bytes,
    progress: Progress,
    *,
    id_prefix: str = "job",
    task: str = "noop",
) -> None:
    """Publish one job for each name in turn. Raise if a job was not stored."""
    work = progress.start(f"filling {namespace}", len(workspaces))
    with redis.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
        bring_library(client)
        store = Store(_Piped(pipe, namespace=namespace))
        for start in range(0, len(workspaces), AT_ONCE):
            batch = workspaces[start : start + AT_ONCE]
            for n, name in enumerate(batch, start):
                job = Job(f"{id_prefix}{n:013d}"[-16:], name, QUEUE, task, payload)
                store.publish(job, Admission())
            if any(reply != 1 for reply in pipe.execute()):
                raise RuntimeError("a job was not stored")
            work.step(len(batch))
    work.done()


def publishes_of(
    url: str, namespace: str, workspaces: Sequence[str], payload: bytes
) -> list[tuple[Any, ...]]:
    """Return the commands that publish one job with a new id for each name; nothing is sent."""
    with redis.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
        store = Store(_Piped(pipe, namespace=namespace))
        for name in workspaces:
            store.publish(Job(new_job_id(), name, QUEUE, "noop", payload), Admission(is_new=True))
        bring_library(client)
        return [command for command, _ in pipe.command_stack]
