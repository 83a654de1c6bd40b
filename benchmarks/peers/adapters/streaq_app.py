"""streaq: one event loop, on Redis streams."""

import common
from streaq import Worker

idle = {"idle_timeout": common.RECOVER} if common.RECOVER else {}
worker = Worker(redis_url=common.URL, concurrency=common.SLOTS, **idle)
entered = False


@worker.task(name="job", ttl=0)
async def job(number: int, workspace: str, seconds: float) -> None:
    await common.run_async(number, workspace, seconds)


async def send(number: int, workspace: str, seconds: float) -> None:
    global entered  # noqa: PLW0603
    if not entered:
        await worker.__aenter__()
        entered = True
    await job.enqueue(number, workspace, seconds)


if __name__ == "__main__":
    common.main(lambda: common.become("streaq", "run", "streaq_app:worker"), send)
