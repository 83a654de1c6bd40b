"""Dramatiq alone, with ConcurrentRateLimiter, or with fairqueue's middleware."""

import common
import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend

heartbeat = {"heartbeat_timeout": common.RECOVER * 1000} if common.RECOVER else {}
broker = RedisBroker(url=common.URL, **heartbeat)
dramatiq.set_broker(broker)
if common.VARIANT.startswith("fairqueue"):
    import fairqueue_dramatiq

    settings = {"lease_seconds": common.RECOVER} if common.RECOVER else {}
    if common.VARIANT == "fairqueue-limit":
        settings["workspace_concurrency"] = common.LIMIT
    fairqueue_dramatiq.install(broker, url=common.URL, workspace_from="kwarg:workspace", **settings)

options = {}
if common.VARIANT == "limiter":
    options = {"max_retries": None, "min_backoff": 200, "max_backoff": 2000}
    backend = RedisBackend(url=common.URL)


@dramatiq.actor(actor_name="job", **options)
def job(number: int, workspace: str, seconds: float) -> None:
    if common.VARIANT != "limiter":
        common.run(number, workspace, seconds)
        return
    with ConcurrentRateLimiter(backend, workspace, limit=common.LIMIT).acquire():
        common.run(number, workspace, seconds)


def send(number: int, workspace: str, seconds: float) -> None:
    job.send(number=number, workspace=workspace, seconds=seconds)


def work() -> None:
    common.become("dramatiq", "dramatiq_app", "--processes=1", f"--threads={common.SLOTS}")


if __name__ == "__main__":
    common.main(work, send)
