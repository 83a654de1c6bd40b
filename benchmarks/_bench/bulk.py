"""Fills a store with many jobs, by the real scripts, many calls in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from _bench.messages import QUEUE
from _bench.progress import Progress
from fairqueue import Admission, Job
from fairqueue._stores.redis import RedisStore

AT_ONCE = 1000


class _Piped(RedisStore):
    """Its calls wait in a pipeline; a publish is taken for accepted until that is executed."""

    def _call(self, name: str, /, **values: Any) -> Any:
        super()._call(name, **values)
        return [1]


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
    """Publish one job for each name in turn. Raises if one of them was not stored."""
    work = progress.start(f"filling {namespace}", len(workspaces))
    with redis.Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
        store = _Piped(pipe, namespace=namespace)
        for start in range(0, len(workspaces), AT_ONCE):
            some = workspaces[start : start + AT_ONCE]
            for n, name in enumerate(some, start):
                job = Job(f"{id_prefix}{n:013d}"[-16:], name, QUEUE, task, payload)
                store.publish(job, Admission())
            if any(reply != [1] for reply in pipe.execute()):
                raise RuntimeError("a job was not stored")
            work.step(len(some))
    work.done()
