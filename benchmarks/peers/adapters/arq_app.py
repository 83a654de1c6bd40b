"""arq: one event loop."""

import common
from arq import create_pool
from arq.connections import RedisSettings

settings = RedisSettings.from_dsn(common.URL)
pool = None


async def job(_context: object, number: int, workspace: str, seconds: float) -> None:
    await common.run_async(number, workspace, seconds)


class WorkerSettings:
    functions = (job,)
    redis_settings = settings
    max_jobs = common.SLOTS
    keep_result = 0
    poll_delay = 0.05
    job_timeout = common.RECOVER or 300


async def send(number: int, workspace: str, seconds: float) -> None:
    global pool  # noqa: PLW0603
    pool = pool or await create_pool(settings)
    await pool.enqueue_job("job", number, workspace, seconds)


if __name__ == "__main__":
    common.main(lambda: common.become("arq", "arq_app.WorkerSettings"), send)
