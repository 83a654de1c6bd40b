"""rq: a pool of workers, each of which forks for each job."""

import common
from redis import Redis
from rq import Queue, Retry, Worker

queue = Queue(connection=Redis.from_url(common.URL))


class PromptWorker(Worker):
    """A worker that looks for the jobs of dead workers often, for the recovery only."""

    def __init__(self, *args: object, **given: object) -> None:
        given.update(job_monitoring_interval=common.RECOVER, maintenance_interval=common.RECOVER)
        super().__init__(*args, **given)


def send(number: int, workspace: str, seconds: float) -> None:
    queue.enqueue(common.run, number, workspace, seconds, retry=Retry(max=3), result_ttl=0)


def work() -> None:
    kind = ["--worker-class=rq_app.PromptWorker"] if common.RECOVER else []
    options = [f"--num-workers={common.SLOTS}", f"--url={common.URL}", "--logging-level=WARNING"]
    common.become("rq.cli", "worker-pool", *options, *kind, "default")


if __name__ == "__main__":
    common.main(work, send)
