"""Each question of an operator is answered in one step, on the command line and on a page."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import NamedTuple

import pytest

from fairqueue import FairQueue, Scope
from fairqueue.dashboard import app
from tests.dashboard.serving import Visitor, served
from tests.unit.conftest import Shell


class Question(NamedTuple):
    """What is asked, where the answer is, and what both answers have."""

    asked: str
    command: str
    page: str
    answers: tuple[str, ...]


QUESTIONS = (
    Question("which workspace is noisy", "stats", "/workspaces?by=waiting", ("flood", "limit")),
    Question("why does it wait", "why waits", "/job?id=waits", ("runs 1 of 1", "ahead")),
    Question("when will it start", "why waits", "/job?id=waits", ("starts in about",)),
    Question("what runs where since when", "ps", "/running", ("runs", "celery@one", "order=7")),
    Question("what failed and why", "dead list", "/dead", ("no such page", "order=7")),
    Question(
        "with which arguments",
        "dead show died --workspace flood",
        "/job?id=died",
        ("order=7", "[hidden]", "line 3", "ValueError", "failed"),
    ),
    Question("did job X run", "why ended", "/job?id=ended", ("succeeded",)),
    Question("did it run, by task", "history --task t", "/history", ("ended", "succeeded")),
    Question("which operator did what", "acts", "/acts", ("limits set", "flood", "concurrency")),
    Question("is Redis right", "status", "/", ("append",)),
    Question("how many workers are missing", "queues", "/queues", ("slots wanted", "worker slots")),
    Question("which worker is dead", "workers --all", "/workers", ("celery@gone", "silent")),
    Question(
        "which job is stuck",
        "ps --stuck 0.01",
        "/running?stuck=0.01",
        ("runs", "5/10", "celery@one"),
    ),
)


def _message(task_id: str) -> bytes:
    kwargs = {"order": 7, "password": "hunter2"}
    return dumps({"message_id": task_id, "args": [], "kwargs": kwargs}).encode()


@pytest.fixture(scope="module")
def queue(redis_url: str) -> Iterator[FairQueue]:
    """A flood behind a limit, a failure, a run that ended, a worker that is gone, a job."""
    with FairQueue(redis_url, namespace="questions", history=9) as queue:
        queue.store.heartbeat("gone", "celery@gone", "", queues=["q"], lease_seconds=0.01)
        queue.presence.describe("celery@one", software="celery/5", slots=lambda: 1)
        for job_id in ("ended", "died", "runs", "waits", "later"):
            queue.publish(_message(job_id), queue="q", workspace="flood", task="t", job_id=job_id)
        queue.limits.set(Scope.workspace("flood"), concurrency=1)
        (lease,) = queue.claim(["q"]).leases
        queue.ack(lease, seconds=60)
        queue.history.flush()
        (lease,) = queue.claim(["q"]).leases
        details = "File x, line 3\nValueError: no such page"
        queue.reject(lease, reason="failed", details=details)
        (lease,) = queue.claim(["q"]).leases
        queue.store.note_progress(lease.fence, "flood", "5 10 %")
        yield queue


@pytest.fixture(scope="module")
def visitor(queue: FairQueue) -> Iterator[Visitor]:
    """A visitor of its dashboard."""
    with served(app(queue, allow_anyone=True)) as url, Visitor(base_url=url) as visitor:
        yield visitor


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.asked)
def test_a_question_is_answered_in_one_step(
    question: Question, redis_url: str, visitor: Visitor
) -> None:
    """The command and the page have the same answer, and neither has a secret."""
    text = Shell(redis_url, "questions").run(*question.command.split()).stdout
    page = visitor.page(question.page)
    for answer in question.answers:
        assert answer.lower() in text.lower()
        assert answer.lower() in page.lower()
    assert "hunter2" not in text + page
