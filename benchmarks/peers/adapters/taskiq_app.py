"""taskiq with the stream broker of taskiq-redis."""

import common
from taskiq_redis import RedisStreamBroker

idle = {"idle_timeout": common.RECOVER * 1000} if common.RECOVER else {}
broker = RedisStreamBroker(url=common.URL, **idle)
job = broker.task(task_name="job")(common.run_async)
started = False


async def send(number: int, workspace: str, seconds: float) -> None:
    global started  # noqa: PLW0603
    if not started:
        await broker.startup()
        started = True
    await job.kiq(number, workspace, seconds)


def work() -> None:
    options = ["--workers=1", f"--max-async-tasks={common.SLOTS}", "--log-level=WARNING"]
    common.become("taskiq", "worker", "taskiq_app:broker", *options)


if __name__ == "__main__":
    common.main(work, send)
