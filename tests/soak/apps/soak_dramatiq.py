"""The Dramatiq actors of a soak; limits of a task know those that both have by one name."""

from __future__ import annotations

import dramatiq
import soak_jobs as jobs  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from fairqueue_dramatiq import FairQueueMiddleware

broker = RedisBroker(url=jobs.RESULTS, namespace="soak-own")
broker.add_middleware(FairQueueMiddleware(url=jobs.URL, **jobs.SETTINGS))
broker.add_middleware(Results(backend=RedisBackend(url=jobs.RESULTS), result_ttl=300_000))
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="actors", actor_name="soak_celery.short", store_results=True)
def short(n: int, seconds: float, tenant_id: str) -> int:
    return int(jobs.work(n, seconds, tenant_id, "short"))


@dramatiq.actor(queue_name="actors", actor_name="soak_celery.long")
def long(n: int, seconds: float, tenant_id: str) -> None:
    jobs.work(n, seconds, tenant_id, "long")


@dramatiq.actor(queue_name="actors", min_backoff=500, max_backoff=1000, max_retries=5)
def flaky(n: int, tenant_id: str) -> None:
    with jobs.run(n, tenant_id, "flaky"):
        message = CurrentMessage.get_current_message()
        if message is None or message.options.get("retries", 0) < jobs.TRIES - 1:
            raise ValueError(n)


@dramatiq.actor(queue_name="actors", max_retries=0)
def dying(n: int, tenant_id: str) -> None:
    jobs.die(n, tenant_id)


@dramatiq.actor(queue_name="actors")
def watched(n: int, tenant_id: str) -> None:
    jobs.watch(n, tenant_id)


@dramatiq.actor(queue_name="actors")
def parent(n: int, tenant_id: str) -> None:
    jobs.ask(n, tenant_id, short)


@dramatiq.actor(queue_name="actors")
def tick(name: str, tenant_id: str) -> None:
    jobs.tick(name, tenant_id)
