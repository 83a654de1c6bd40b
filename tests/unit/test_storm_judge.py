"""The judge of storms finds what it is there for, and blames no run for what a fault did."""

from __future__ import annotations

from typing import Any

from tests.storm.judge import Fault, Run, above_limit, began_twice, runs_of, stale, untold

KILL = Fault("kill_worker", 2.0, 2.1, "w0")
LONG_CUT = Fault("go_silent", 2.0, 7.0)


def row(what: str, n: int, at: float, worker: str = "w0", fence: int = 1) -> dict[str, Any]:
    return {
        "what": what,
        "n": n,
        "at": at,
        "began": at,
        "worker": worker,
        "pid": ord(worker[1]),
        "workspace": "a",
        "fence": fence,
    }


def twice(rows: list[dict[str, Any]], *faults: Fault, late: bool = True) -> list[int]:
    return list(began_twice(runs_of(rows), faults, late=late, lease_seconds=3.0))


def above(rows: list[dict[str, Any]], *faults: Fault, late: bool = True) -> int:
    return above_limit(runs_of(rows), faults, limit=1, late=late, lease_seconds=3.0)


def test_an_end_belongs_to_the_start_under_its_fence() -> None:
    """A run that was broken off and began again has no end, also if both are in one process."""
    again = row("start", 1, 5.0, fence=2)
    found = runs_of([row("start", 1, 1.0), again, row("end", 1, 9.0, fence=2)])
    assert [(run.start, run.end) for run in found] == [(1.0, None), (5.0, 9.0)]
    assert isinstance(found[0], Run)
    found = runs_of([row("start", 1, 1.0), again, row("end", 1, 9.0)])
    assert [(run.start, run.end) for run in found] == [(1.0, 9.0), (5.0, None)]
    found = runs_of([row("start", 1, 1.0), row("start", 1, 5.0), row("end", 1, 9.0)])
    assert [(run.start, run.end) for run in found] == [(1.0, None), (5.0, 9.0)]


def test_a_stale_effect() -> None:
    """An effect that is accepted after a later run began, or after another effect of the job."""
    starts = [row("start", 1, 1.0), row("start", 1, 6.0, "w1", fence=2)]
    assert stale([*starts, row("effect", 1, 5.0)]) == set()
    assert stale([*starts, row("effect", 1, 7.0)]) == {1}
    assert stale([*starts, row("effect", 1, 7.0, "w1", fence=2)]) == set()
    assert stale([*starts, row("effect", 1, 5.0), row("effect", 1, 7.0, "w1", fence=2)]) == {1}


def test_a_start_above_the_limit() -> None:
    """Two runs of a workspace at once are one too many, unless the first one's worker was dead."""
    rows = [row("start", 1, 1.0), row("start", 2, 3.0, "w1"), row("end", 1, 4.0)]
    assert above(rows) == 1
    assert above([rows[0], rows[1]], KILL) == 0
    assert above(rows, LONG_CUT) == 0
    assert above(rows, Fault("cut_links", 2.0, 2.0)) == 1
    cold, warm = Fault("deploy", 2.0, 2.4, "w0"), Fault("deploy", 2.0, 4.5, "w0")
    assert above([rows[0], rows[1]], cold, Fault("kill_worker", 4.0, 4.1)) == 0
    assert above(rows, warm) == 1


def test_an_early_acked_job_may_begin_after_its_lease() -> None:
    """Its worker stood still between the ack and the start; then it holds no slot."""
    stop = Fault("stop_process", 2.0, 6.0, "w0")
    rows = [
        *(row("start", 1, 1.0, "w1"), row("end", 1, 1.1, "w1")),
        *(row("start", 2, 6.1, fence=900_000), row("start", 3, 6.2, "w1", fence=5_100_000)),
        *(row("end", 2, 6.3, fence=900_000), row("end", 3, 6.4, "w1", fence=5_100_000)),
    ]
    assert above(rows) == above(rows, late=False) == 1
    assert above(rows, stop) == 1
    assert above(rows, stop, late=False) == 0
    assert above([rows[3], rows[2], *rows[4:]], stop, late=False) == 0
    rows[2]["fence"] = rows[4]["fence"] = 5_050_000
    assert above(rows, stop, late=False) == 1


def test_a_job_that_began_twice() -> None:
    """Acked late, a fault that touched its run is a reason; acked early, none is."""
    rows = [row("start", 1, 1.0), row("start", 1, 6.0, "w1")]
    assert twice(rows) == [1]
    assert twice(rows, KILL) == []
    assert twice(rows, KILL, late=False) == [1]
    assert twice(rows, Fault("kill_worker", 1.2, 1.3, "w0"), late=False) == [1]
    assert twice(rows, Fault("kill_worker", 2.0, 2.1, "w1")) == [1]
    assert twice(rows, LONG_CUT) == []
    assert twice(rows, Fault("cut_links", 2.0, 2.1), Fault("go_silent", 3.0, 3.5)) == [1]
    assert twice(rows, Fault("deploy", 2.0, 2.5)) == []


def test_an_end_that_is_not_told() -> None:
    """Acked late, each job has a final result; acked early, each that ended and whose worker lived.

    A job that never came to an end has not succeeded.
    """
    runs = runs_of([row("start", 1, 1.0), row("end", 1, 2.0), row("start", 2, 1.0)])

    def found(*faults: Fault, late: bool = True, **states: str) -> list[int]:
        return list(untold({int(n[1:]): s for n, s in states.items()}, runs, faults, late=late))

    assert found(n1="SUCCESS", n2="FAILURE") == []
    assert found(n1="PENDING", n2="STARTED") == [1, 2]
    assert found(n1="FAILURE", n2="SUCCESS") == [2]
    assert found(n1="PENDING", n2="PENDING", late=False) == [1]
    assert found(KILL, n1="PENDING", late=False) == []
    assert found(Fault("kill_worker", 2.0, 2.1, "w1"), n1="PENDING", late=False) == [1]
    assert found(LONG_CUT, n1="PENDING", late=False) == [1]
