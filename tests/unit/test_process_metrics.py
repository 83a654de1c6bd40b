"""What a process counts in memory, and which workspaces have a label of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fairqueue import FairQueue, LeaseLost
from fairqueue._activity import HAPPENINGS, WAITS
from fairqueue._process_metrics import OTHERS, Busiest, Counts, Tally, Unsent
from fairqueue._stores.library import read_source
from fairqueue._stores.noted import HAPPENED
from fairqueue.adapters import Ending, Finish


@pytest.fixture
def queue(namespace: str) -> Iterator[FairQueue]:
    """A queue that counts, with two labels for workspaces."""
    with FairQueue("memory://", namespace=namespace, metrics_workspaces=2) as queue:
        queue.tally.begin()
        yield queue


def _counter(queue: FairQueue, name: str) -> dict[tuple[str, ...], float]:
    return dict(queue.tally.read().counters.get(name, {}))


def test_nothing_is_counted_before_it_begins(namespace: str) -> None:
    """A process that serves no metrics pays nothing."""
    with FairQueue("memory://", namespace=namespace) as queue:
        queue.publish(b"", queue="q", workspace="a")
        queue.ack(queue.claim(["q"]).leases[0])
        assert queue.tally.read() == Counts({}, {})


def test_leases_are_counted_by_their_end(queue: FairQueue) -> None:
    """With the worker-seconds of each; an early ack ends nothing."""
    for n in range(6):
        queue.publish(b"", queue="q", workspace="a", job_id=str(n))
    one, two, three, four, five, six = queue.claim(["q"], 6).leases
    queue.ack(one, seconds=0.0)
    queue.finish([Finish(two.fence, Ending.ACK_EARLY)])
    queue.release(three)
    queue.release(four, counted=True, seconds=0.0)
    queue.reject(five, reason="bad")
    queue.claim(["q"], 0, finishes=[Finish(six.fence, Ending.ACK, 0.0)])
    ended = {how: n for (_, how), n in _counter(queue, "leases_ended").items()}
    assert ended == {"acked": 2, "released": 1, "returned": 1, "dead": 1}
    queue.finish([Finish(two.fence)])
    assert _counter(queue, "leases_ended")["q", "acked"] == 3
    assert _counter(queue, "jobs_started") == {("q",): 6}


def test_a_lost_lease_is_counted_once(queue: FairQueue) -> None:
    """What ends it after it has ended changes no number."""
    queue.publish(b"", queue="q", workspace="a")
    (lease,) = queue.claim(["q"]).leases
    queue.ack(lease, seconds=0)
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    assert _counter(queue, "leases_ended") == {("q", "acked"): 1}


def test_the_busiest_workspaces_have_a_label() -> None:
    """The first few; then one that is twice as busy takes the place of the least busy."""
    busiest = Busiest(2)
    assert [busiest.label(name) for name in "abc"] == [("a", None), ("b", None), (OTHERS, None)]
    for _ in range(20):
        busiest.label("a")
    shown = [busiest.label("c") for _ in range(3)]
    assert shown == [(OTHERS, None), (OTHERS, None), ("c", "b")]
    assert busiest.label("b") == (OTHERS, None)


def test_a_workspace_named_as_the_others_has_no_label() -> None:
    """It is one of them; and where no workspace has a label all are."""
    assert Busiest(5).label(OTHERS) == (OTHERS, None)
    assert Busiest(0).label("a") == (OTHERS, None)


def test_many_workspaces_are_compared_in_little_memory() -> None:
    """Ten candidates for each label, however many come."""
    busiest = Busiest(3)
    for n in range(10_000):
        busiest.label(f"w{n}")
    assert len(busiest._named) == 3
    assert len(busiest._events) <= 3 + 30


def test_a_workspace_that_loses_its_label_loses_its_numbers(queue: FairQueue) -> None:
    """They never go down while they are shown, and the others' never jump."""
    for name in ["a", "b", *"c" * 4]:
        queue.publish(b"", queue="q", workspace=name)
    queue.claim(["q"], 6)
    started = _counter(queue, "workspace_jobs_started")
    assert sum(started.values()) == 6 - 1
    assert len(started) == 3


# eventlet, once another test has imported it, warns of a fork in its own callback
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_forked_child_counts_nothing(queue: FairQueue) -> None:
    """Nor does a lock that another thread held at the fork stop it."""
    with queue.tally._lock:
        pid = os.fork()
        if not pid:
            queue.tally.counted("jobs_published", "q")
            os._exit(int(queue.tally.is_on))
    assert os.waitpid(pid, 0)[1] == 0


def test_clones_count_together(queue: FairQueue) -> None:
    """What a background thread publishes over its own connections counts as well."""
    queue.clone().publish(b"", queue="q", workspace="a")
    assert _counter(queue, "jobs_published") == {("q",): 1}


def test_a_job_s_lease_is_forgotten_at_last() -> None:
    """One whose end is never seen does not stay for ever."""
    tally = Tally(1)
    tally.begin()
    with FairQueue("memory://") as queue:
        queue.publish(b"", queue="q", workspace="a")
        (lease,) = queue.claim(["q"]).leases
    tally.claimed([lease])
    tally.ended(lease.fence + 1, "acked")
    assert "leases_ended" not in tally.read().counters


def test_lua_and_python_pack_the_same_counts() -> None:
    """What happened in a window: its form, its size, and the places of the counts of Lua."""
    text = read_source("state/activity")
    counts, size, form = re.findall(r"COUNTS, BYTES, FORMAT = (\d+), (\d+), '(.*)'", text)[0]
    packed = HAPPENED.format.replace("6I", "I4" * 6).replace("8I", "I4" * 8)
    assert (form, int(size)) == (packed, HAPPENED.size)
    assert int(counts) == len(HAPPENINGS) + len(WAITS) + 1
    places = [str(1 + HAPPENINGS.index(what)) for what in ("dead", "expiries")]
    assert re.findall(r"DEAD, EXPIRIES = (\d+), (\d+)", text) == [tuple(places)]
    between = "x" * 4 * (HAPPENINGS.index("rejections") - HAPPENINGS.index("starts") - 1)
    assert f"'<I4{between}I4'" in text


@pytest.mark.parametrize(("starts", "sent"), [(29, []), (30, [60])])
def test_many_starts_are_sent_soon(
    starts: int, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a busy process within 10 s, of an idle one within 30 s."""
    now = 0.0
    monkeypatch.setattr("fairqueue._process_metrics.time", SimpleNamespace(monotonic=lambda: now))
    unsent = Unsent()
    for _ in range(starts):
        unsent.started(("acme", "q", "t"), 0.0)
    now = 12.0
    assert [seconds for seconds, _ in unsent.take(now=False)] == sent
    now = 31.0
    assert [seconds for seconds, _ in unsent.take(now=False)] == ([] if sent else [60])
