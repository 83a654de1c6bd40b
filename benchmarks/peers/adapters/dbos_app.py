"""DBOS on PostgreSQL: durable workflows on a queue, also with a partition for each workspace."""

import threading

import common
from dbos import DBOS, DBOSClient

QUEUE = "jobs"
client = None


def work() -> None:
    # The executor's name is fixed, so that the next one recovers what a killed one has left.
    config = {"name": "peer", "system_database_url": common.URL, "log_level": "WARNING"}
    DBOS(config={**config, "executor_id": "one", "application_version": "1"})
    DBOS.workflow(name="job")(common.run)
    DBOS.launch()
    partition = {"partition_concurrency": common.LIMIT} if common.VARIANT == "limit" else {}
    polled = {"polling_interval_sec": 0.05}
    DBOS.register_queue(QUEUE, worker_concurrency=common.SLOTS, **polled, **partition)
    threading.Event().wait()


def send(number: int, workspace: str, seconds: float) -> None:
    global client  # noqa: PLW0603
    client = client or DBOSClient(system_database_url=common.URL)
    options = {"queue_name": QUEUE, "workflow_name": "job", "application_name": "peer"}
    if common.VARIANT == "limit":
        options["queue_partition_key"] = workspace
    client.enqueue(options, number, workspace, seconds)


if __name__ == "__main__":
    common.main(work, send)
