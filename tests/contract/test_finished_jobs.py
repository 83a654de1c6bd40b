"""The last jobs that have ended, as workers note them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fairqueue import FairQueue, Job, StoreUnavailable
from fairqueue._settings import Settings
from fairqueue.operate.history import History
from tests.contract.world import World, sound

ODD = "a\nb \x1b|%"


def _history(world: World, most: int) -> History:
    return History(lambda: world.store, Settings.load({"history": most}))


def _note(history: History, n: int, outcome: str = "succeeded", error: object = None) -> None:
    job = Job(f"{'x' * 16}~m{n}", ODD if n % 2 else "a", "q", "shop.t", b"")
    history.note(job, outcome, 0.5, error)


def test_the_newest_are_kept(world: World) -> None:
    """With outcome, worker, the framework's id, and an error's first line without secrets."""
    history = _history(world, 3)
    for n in range(5):
        _note(history, n)
    _note(history, 5, "failed", ValueError("token=abc is wrong\nsecond line"))
    history.flush()
    rows = history.list()
    assert [row.task_id for row in rows] == ["m5", "m4", "m3"]
    assert (rows[0].workspace, rows[0].outcome, rows[0].error) == (
        ODD,
        "failed",
        "ValueError: token=[hidden] is wrong",
    )
    assert [row.task_id for row in history.list(workspace="a")] == ["m4"]
    assert [row.task_id for row in history.list(outcome="failed")] == ["m5"]
    assert [row.task_id for row in history.list(job_id=f"{'y' * 16}~m3")] == ["m3"]
    assert history.list(task="other") == []
    sound(world)


def test_nothing_is_noted_without_the_setting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread starts."""
    monkeypatch.setattr("fairqueue._threads.start_native", lambda *_, **__: 1 / 0)
    history = _history(world, 0)
    _note(history, 1)
    history.flush()
    assert history.list() == []


def test_more_than_a_page(world: World) -> None:
    """They are written and read page by page."""
    history = _history(world, 1000)
    for n in range(250):
        _note(history, n)
    history.flush()
    assert [row.task_id for row in history.list(most=230)] == [f"m{n}" for n in range(249, 19, -1)]


def test_a_line_that_cannot_be_read_is_left_out(world: World) -> None:
    """The others are listed."""
    history = _history(world, 9)
    world.store.note_lines("jobs", ["no json", '{"time": 1}'], 9)
    _note(history, 1)
    history.flush()
    assert [row.task_id for row in history.list()] == ["m1"]


def test_plain_ends_are_noted(world: World) -> None:
    """A reject with its reason and the worker's node; an adapter notes its own runs."""
    with FairQueue(store=world.store, history=9) as queue:
        queue.presence.describe("worker@here")
        for _ in range(3):
            queue.publish(b"", queue="q", workspace="a")
        acked, noted, rejected = queue.claim(["q"], 3).leases
        queue.ack(acked, seconds=0.25)
        queue.reject(rejected, reason="token=abc is wrong", seconds=0.25)
        queue.history.is_of_adapter = True
        queue.reject(noted, reason="failed")
        queue.history.flush()
        row, (done,) = queue.history.list()[0], queue.history.list(job_id=acked.job.id)
        assert len(queue.history.list()) == 2
    assert (done.workspace, done.outcome, done.seconds) == ("a", "succeeded", 0.25)
    assert (row.outcome, row.error, row.worker) == (
        "rejected",
        "token=[hidden] is wrong",
        "worker@here",
    )


def test_what_a_write_has_left_is_written_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line is neither lost nor written twice; of too many, the oldest go."""
    monkeypatch.setattr("fairqueue._threads.start_native", lambda *_, **__: None)
    monkeypatch.setattr("fairqueue.operate.history.MOST_WAITING", 150)
    history, note = _history(world, 1000), world.store.note_lines
    for n in range(160):
        _note(history, n)
    calls = iter([True, False])

    def fail_later(what: str, lines: Sequence[str], count: int) -> None:
        if not next(calls):
            raise StoreUnavailable("away")
        note(what, lines, count)

    monkeypatch.setattr(world.store, "clone", lambda **_: world.store)
    monkeypatch.setattr(world.store, "note_lines", fail_later)
    with pytest.raises(StoreUnavailable):
        history.flush()
    monkeypatch.setattr(world.store, "note_lines", note)
    history.flush()
    assert [row.task_id for row in history.list(most=999)] == [f"m{n}" for n in range(159, 9, -1)]


def test_an_error_that_cannot_be_told(world: World) -> None:
    """Its class is; a run that raised it ends as any other."""

    class Untold(Exception):
        def __str__(self) -> str:
            raise ValueError

    history = _history(world, 9)
    _note(history, 1, "failed", Untold())
    history.flush()
    (row,) = history.list()
    assert row.error == "Untold"
