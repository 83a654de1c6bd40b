"""huey: threads of one process."""

import common
from huey import RedisHuey

huey = RedisHuey("peer", url=common.URL, results=False)
job = huey.task(name="job")(common.run)


def send(number: int, workspace: str, seconds: float) -> None:
    job(number, workspace, seconds)


def work() -> None:
    workers = ["--workers", str(common.SLOTS), "--worker-type", "thread", "--quiet"]
    common.become("huey.bin.huey_consumer", "huey_app.huey", *workers)


if __name__ == "__main__":
    common.main(work, send)
