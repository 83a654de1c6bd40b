"""Status, progress and registry, where workspaces are spread over shards and move."""

from __future__ import annotations

import pytest

from fairqueue import FairQueue, JobState, NewJob

RETRY = "r" * 16 + "~task-1"


def test_a_job_is_found_on_its_shard_and_after_a_move(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are its progress, its retry by the framework's id, and what its workers know."""
    monkeypatch.setattr("fairqueue._stores.sharded.mover.KNOWN_AFTER_SECONDS", 0.0)
    with FairQueue(redis_url, namespace=namespace, shards=3) as queue:
        queue.presence.describe("w", queues=lambda: ["q"], tasks=lambda: ["t"])
        for workspace in "abcdef":
            queue.publish(b"", queue="q", workspace=workspace, task="t", job_id="task-1")
        leases = queue.claim(["q"], 6).leases
        for lease in leases:
            name = lease.job.workspace
            assert queue.store.note_progress(lease.fence, name, "1 2 %")
            found = queue.job("task-1", workspace=name)
            assert found is not None
            assert found.progress is not None
            retry = NewJob(b"", "q", name, "t", delay_seconds=60, job_id=RETRY, exempt=True)
            retry.retry_of = lease.fence
            queue.publish_job(retry)
            queue.ack(lease)
        queue.doctor.reshard(5)
    with FairQueue(redis_url, namespace=namespace, shards=5) as queue:
        for workspace in "abcdef":
            found = queue.job("task-1", workspace=workspace)
            assert found is not None
            assert (found.state, found.job_id) == (JobState.SCHEDULED, RETRY)
        assert queue.job("task-1", workspace="z") is None
        assert queue.views.workers(gone=True)[0].tasks == ("t",)
        assert queue.doctor.audit() == []
