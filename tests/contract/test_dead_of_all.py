"""Dead letters of all workspaces: found, counted, replayed and deleted by what they share."""

from __future__ import annotations

import pytest

from fairqueue._stores import lists
from fairqueue.errors import ConfigurationError
from fairqueue.operate import Operators, dead
from fairqueue.rows import DeadFilter
from tests.contract.world import World, ids


@pytest.fixture
def begun(world: World) -> float:
    """Six jobs that died in three workspaces, one each ten seconds; return when."""
    begun, worker = world.clock(), world.worker()
    for n, (workspace, task, reason) in enumerate(
        [
            ("a", "mail", "bad"),
            ("b: {x}", "mail", "bad"),
            ("c", "render", "bad"),
            ("b: {x}", "mail", "unknown task"),
            ("a", "render", "bad"),
            ("a", "mail", "bad"),
        ]
    ):
        payload = f'{{"id": "task-{n}"}}'.encode()
        world.publish(workspace, f"d{n}", task=task, payload=payload, queue=f"q{n % 2}")
        worker.reject(worker.take_one(f"q{n % 2}"), reason)
        world.clock.advance(10)
    world.jobs.cancel(world.publish("c", "gone"))
    return begun


def found(admin: Operators, chosen: DeadFilter | None = None) -> list[str]:
    """Return the ids that match."""
    return [letter.job.id for letter in admin.dead.list(chosen or DeadFilter())]


def test_all_are_found_without_naming_a_workspace(admin: Operators, begun: float) -> None:
    """By workspace, those with the oldest first; a cancelled job is none of them."""
    assert found(admin) == ["d0", "d4", "d5", "d1", "d3", "d2"]
    letter = next(admin.dead.list(DeadFilter(job_id="d3")))
    job = letter.job
    assert (job.workspace, job.queue, job.task) == ("b: {x}", "q1", "mail")
    assert (job.payload, letter.reason, letter.deliveries) == (b"", "unknown task", 1)


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        (DeadFilter(task="mail"), ["d0", "d5", "d1", "d3"]),
        (DeadFilter(task="no such task"), []),
        (DeadFilter(reason="unknown task"), ["d3"]),
        (DeadFilter(error="own ta"), ["d3"]),
        (DeadFilter(error="mail"), []),
        (DeadFilter(queue="q0"), ["d0", "d4", "d2"]),
        (DeadFilter(workspace="a", task="render"), ["d4"]),
        (DeadFilter(workspace="a", reason="unknown task"), []),
        (DeadFilter(text=b'"id": "task-5"'), ["d5"]),
        (DeadFilter(workspace="c", job_id="d1"), []),
    ],
)
def test_a_filter_names_what_all_must_have(
    admin: Operators, begun: float, chosen: DeadFilter, wanted: list[str]
) -> None:
    """What is not given is not asked."""
    assert found(admin, chosen) == wanted


def test_a_filter_may_name_a_time(admin: Operators, begun: float) -> None:
    """When they died, both ends included."""
    assert sorted(found(admin, DeadFilter(since=begun + 40))) == ["d4", "d5"]
    assert sorted(found(admin, DeadFilter(until=begun + 10))) == ["d0", "d1"]
    assert found(admin, DeadFilter(since=begun + 20, until=begun + 30)) == ["d3", "d2"]


@pytest.mark.parametrize(("n", "at_once"), [(1, 1), (1, 100), (2, 2), (4, 3), (6, 100)])
def test_pages_have_each_letter_once(
    admin: Operators, begun: float, monkeypatch: pytest.MonkeyPatch, n: int, at_once: int
) -> None:
    """In the order of the list, also if the workspace of the last one has no letter any more."""
    monkeypatch.setattr(lists, "LETTERS_AT_ONCE", at_once)
    pages = [admin.dead.look(n=n)]
    while pages[-1].cursor:
        admin.dead.purge(DeadFilter(job_id=pages[-1].letters[-1].job.id))
        pages.append(admin.dead.look(cursor=pages[-1].cursor, n=n))
    told = [letter.job.id for page in pages for letter in page.letters]
    assert sorted(told) == ["d0", "d1", "d2", "d3", "d4", "d5"]
    assert all(len(page.letters) == n for page in pages[:-1])


def test_a_page_is_short_where_few_match(
    admin: Operators, begun: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cursor goes on; one of no page is refused."""
    monkeypatch.setattr(lists, "LETTERS_AT_ONCE", 1)
    monkeypatch.setattr(dead, "MOST_STEPS", 2)
    page, pages = admin.dead.look(DeadFilter(reason="unknown task")), 1
    while not page.letters:
        page, pages = admin.dead.look(DeadFilter(reason="unknown task"), cursor=page.cursor), 2
    assert pages > 1
    assert [letter.job.id for letter in page.letters] == ["d3"]
    with pytest.raises(ConfigurationError, match="is not a cursor of this list"):
        admin.dead.look(cursor="x")


def test_they_are_counted_by_reason_and_task(admin: Operators, begun: float) -> None:
    """The most first, with the times of the first and the last."""
    rows = [(row.reason, row.task, row.count) for row in admin.dead.count()]
    assert rows == [("bad", "mail", 3), ("bad", "render", 2), ("unknown task", "mail", 1)]
    first = admin.dead.count()[0]
    assert (first.oldest, first.newest) == pytest.approx((begun, begun + 50), abs=0.01)


def test_a_count_has_the_last_error(world: World, admin: Operators) -> None:
    """The last line of the newest traceback, without secrets; none where nothing was kept."""
    tracebacks = {
        "broken": ("T\n  x\nKeyError: 'old'\n", "T\nKeyError: token='new'"),
        "other": ("",),
    }
    for task, kept in tracebacks.items():
        for details in kept:
            world.publish(task=task)
            worker = world.worker(f"{task} {len(details)}")
            worker.reject(worker.take_one(), "failed", details=details)
            world.clock.advance(1)
    assert {row.task: row.error for row in admin.dead.count()} == {
        "broken": "KeyError: token=[hidden]",
        "other": "",
    }


def test_a_reason_may_be_given_as_it_is_counted(world: World, admin: Operators) -> None:
    """Without its secrets, which no list shows."""
    for n, reason in enumerate(("no login, password=hunter2", "no login, password=x", "other")):
        world.publish("a", f"d{n}")
        worker = world.worker(f"w{n}")
        worker.reject(worker.take_one(), reason)
    row = next(row for row in admin.dead.count() if row.count == 2)
    assert "hunter2" not in row.reason
    assert found(admin, DeadFilter(reason=row.reason)) == ["d0", "d1"]
    assert [one.job.id for one in admin.dead.look(DeadFilter(reason=row.reason)).letters] == [
        "d0",
        "d1",
    ]


def test_those_that_match_are_replayed(world: World, admin: Operators, begun: float) -> None:
    """To their own workspace and queue, and no others."""
    shown: list[int] = []
    assert admin.dead.replay_all(DeadFilter(task="mail", reason="bad"), progress=shown.append) == 3
    assert shown == [1, 1, 1]
    assert sorted(ids(world.worker("w2").take(9, "q0", "q1"))) == ["d0", "d1", "d5"]
    assert sorted(found(admin)) == ["d2", "d3", "d4"]


def test_a_rate_spreads_them_over_all_workspaces(
    world: World, admin: Operators, begun: float
) -> None:
    """One is due at once, and one more each two seconds."""
    assert admin.dead.replay_all(DeadFilter(), per_second=0.5) == 6
    due = sorted(job.due or world.clock() for job in admin.views.waiting(n=9).jobs)
    assert [at - world.clock() for at in due] == pytest.approx([0, 2, 4, 6, 8, 10], abs=0.1)


def test_one_whose_id_is_in_use_again_stays_dead(
    world: World, admin: Operators, begun: float
) -> None:
    """It is not counted as replayed."""
    world.pass_time(200)
    world.publish("a", "d0", queue="q0")
    assert admin.dead.replay_all(DeadFilter(workspace="a")) == 2
    assert found(admin, DeadFilter(workspace="a")) == ["d0"]


def test_those_that_match_are_deleted(world: World, admin: Operators, begun: float) -> None:
    """Nothing else is."""
    assert admin.dead.purge(DeadFilter(task="render")) == 2
    assert sorted(found(admin)) == ["d0", "d1", "d3", "d5"]


def test_letters_beyond_their_retention_are_not_found(
    world: World, admin: Operators, begun: float
) -> None:
    """They go with the next look at their workspace, or by the rebuild."""
    world.clock.advance(31 * 86_400)
    assert found(admin) == []


@pytest.mark.parametrize("chosen", [DeadFilter(workspace="\ud800"), DeadFilter(since=float("nan"))])
def test_what_is_impossible_is_refused(admin: Operators, chosen: DeadFilter) -> None:
    """The error names it."""
    with pytest.raises(ConfigurationError, match=r"workspace|since"):
        found(admin, chosen)
