"""Celery on redis:// or fairqueue://, in one queue or in one for each workspace."""

import common
from celery import Celery

WORKSPACES = [f"workspace-{n}" for n in range(10)]

app = Celery("peer", broker=common.URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)
if common.RECOVER and common.URL.startswith("redis"):
    app.conf.broker_transport_options = {
        "visibility_timeout": common.RECOVER,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }

job = app.task(name="job")(common.run)


def send(number: int, workspace: str, seconds: float) -> None:
    queue = workspace if common.VARIANT == "queues" else "celery"
    given = {"number": number, "workspace": workspace, "seconds": seconds}
    job.apply_async(kwargs=given, queue=queue)


def work() -> None:
    queues = ",".join(WORKSPACES) if common.VARIANT == "queues" else "celery"
    options = ["--pool=prefork", f"--concurrency={common.SLOTS}", "--loglevel=WARNING"]
    common.become("celery", "-A", "celery_app", "worker", *options, "-Q", queues)


if __name__ == "__main__":
    common.main(work, send)
