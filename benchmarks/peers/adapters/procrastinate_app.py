"""procrastinate on PostgreSQL; jobs of dead workers are retried by a periodic task of its docs."""

import common
import procrastinate

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=common.URL))
job = app.task(name="job")(common.run_async)
opened = False


@app.periodic(cron="* * * * * */2" if common.RECOVER else "*/10 * * * *")
@app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
async def retry_stalled_jobs(context: procrastinate.JobContext, timestamp: int) -> None:  # noqa: ARG001
    after = common.RECOVER or 30
    for stalled in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=after):
        await app.job_manager.retry_job(stalled)


async def send(number: int, workspace: str, seconds: float) -> None:
    global opened  # noqa: PLW0603
    if not opened:
        await app.open_async()
        opened = True
    await job.defer_async(number=number, workspace=workspace, seconds=seconds)


def work() -> None:
    with app.open():
        if not app.check_connection():
            app.schema_manager.apply_schema()
    beats = {}
    if common.RECOVER:
        beats["update_heartbeat_interval"] = common.RECOVER / 3
        beats["stalled_worker_timeout"] = common.RECOVER
    app.run_worker(concurrency=common.SLOTS, **beats)


if __name__ == "__main__":
    common.main(work, send)
