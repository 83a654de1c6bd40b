"""Places of one web process: what it asks, how it waits, and what it reports again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from fairqueue import FairQueue, Settings, StoreUnavailable
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import this_process
from fairqueue.errors import RequestRejected
from fairqueue.testing import ManualClock
from tests.out_of_threads import out_of_threads

LEASE_SECONDS = 30.0


@pytest.fixture
def queue(namespace: str, clock: ManualClock) -> Iterator[FairQueue]:
    """A queue in memory; two requests in flight, one for each workspace."""
    store = Store(MemoryEngine(namespace=namespace), clock=clock)
    settings = Settings(total_requests=2, workspace_requests=1, lease_seconds=LEASE_SECONDS)
    with FairQueue(store=store, settings=settings) as made:
        yield made


def test_a_place_ends_with_its_block(queue: FairQueue) -> None:
    """Inside it counts, after it another request is admitted."""
    with queue.requests.admit(42) as ticket:
        assert ticket.is_in_flight
        assert queue.requests.in_flight("42") == (1, 1, 0)
        with pytest.raises(RequestRejected, match="at most 1 are allowed, of workspace '42'") as no:
            queue.requests.admit("42")
    assert (no.value.scope, no.value.limit, no.value.in_flight) == ("workspace", 1, 1)
    assert no.value.retry_after >= 1
    ticket.end()
    assert queue.requests.in_flight("42") == (0, 0, 0)


def test_a_wait_that_is_over_says_what_is_full(queue: FairQueue) -> None:
    """And the request has left the queue."""
    with queue.requests.admit("a"):
        with pytest.raises(RequestRejected, match="1 request in flight, at most 1 are"):
            queue.requests.admit("a", wait_seconds=0.01)
        assert queue.requests.in_flight("a") == (1, 1, 0)


def test_a_wait_that_is_interrupted_leaves_the_queue(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ends it: it never gets a place that it does not use."""

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fairqueue._requests.time.sleep", interrupt)
    with queue.requests.admit("a"):
        with pytest.raises(KeyboardInterrupt):
            queue.requests.admit("a", wait_seconds=5)
        assert queue.requests.in_flight("a") == (1, 1, 0)


def _fail(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("away")


def test_an_end_that_is_not_heard_frees_its_place_within_a_lease(
    queue: FairQueue,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It raises nothing, and the renewals go on for the others."""
    ticket, _kept = queue.requests.admit("a"), queue.requests.admit("b")
    with monkeypatch.context() as patch:
        patch.setattr(queue.store, "end_request", _fail)
        ticket.end()
    assert "could not report the end of a request of workspace 'a'" in caplog.text
    assert queue.requests.in_flight("a") == (2, 1, 0)
    live_for_a_lease(queue, clock)
    assert queue.requests.in_flight("a") == (1, 0, 0)


def live_for_a_lease(queue: FairQueue, clock: ManualClock) -> None:
    """Renew as the thread does."""
    for _ in range(3):
        clock.advance(LEASE_SECONDS / 3)
        queue.requests.renew(queue.store)


def test_an_admission_that_arrives_late_frees_its_place_within_a_lease(
    queue: FairQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long its packet was held up: its process has given up, and does not name it."""
    admit, late = queue.store.admit_request, list[Callable[[], object]]()

    def hold_up(*args: Any, **options: Any) -> Any:
        late.append(partial(admit, *args, **options))
        raise StoreUnavailable("timed out")

    queue.requests.admit("b")
    with monkeypatch.context() as patch:
        patch.setattr(queue.store, "admit_request", hold_up)
        with pytest.raises(StoreUnavailable):
            queue.requests.admit("a")
    monkeypatch.setattr("fairqueue._requests.time.monotonic", lambda: 1e12)
    live_for_a_lease(queue, clock)
    for arrive in late:
        arrive()
    assert queue.requests.in_flight("a") == (2, 1, 0)
    live_for_a_lease(queue, clock)
    assert queue.requests.in_flight("a") == (1, 0, 0)


def test_after_an_outage_places_are_renewed_before_anything_else(
    queue: FairQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first admission would drop them, and give them away."""
    queue.requests.admit("a")
    later = time.monotonic() + LEASE_SECONDS + 1
    clock.advance(LEASE_SECONDS + 1)
    monkeypatch.setattr("fairqueue._requests.time.monotonic", lambda: later)
    with pytest.raises(RequestRejected):
        queue.requests.admit("a")
    assert queue.requests.in_flight("a") == (1, 1, 0)


def test_a_thread_that_could_not_be_started_is_started_by_the_next_request(
    queue: FairQueue,
) -> None:
    """A system may be out of threads for a moment; places are renewed after it."""
    before = _renewing()
    with out_of_threads(), pytest.raises(RuntimeError):
        queue.requests.admit("a")
    queue.requests.admit("a")
    assert _renewing() - before


def _renewing() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "fairqueue-requests"}


def test_requests_that_the_store_has_lost_count_again(queue: FairQueue) -> None:
    """All that are in flight, and none that has ended meanwhile."""
    requests = queue.requests
    kept, ended = requests.admit("a"), requests.admit("b")
    for ticket in (kept, ended):
        queue.store.end_request(ticket.text)
    renew = queue.store.renew_requests

    class Ending:
        """A store that is asked while one of the requests ends."""

        end_request = queue.store.end_request

        def renew_requests(self, *args: Any, **options: Any) -> list[str]:
            ended.end()
            return renew(*args, **options)

    requests.renew(Ending())  # type: ignore[arg-type]
    assert requests.in_flight("a") == (1, 1, 0)
    assert requests.in_flight("b") == (1, 0, 0)


def test_a_forked_child_frees_no_place_of_its_parent(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has places of its own, under another owner."""
    ticket = queue.requests.admit("a")
    own, owner = this_process.pid, queue.requests._name
    with monkeypatch.context() as patch:
        patch.setattr(this_process, "pid", own + 1)
        ticket.end()
        assert queue.requests._name != owner
    assert queue.requests.in_flight("a") == (1, 1, 0)


def plan_of(workspace: str) -> dict[str, int]:
    """The limits of a workspace's plan."""
    return {"requests": {"small": 1}.get(workspace, 2)}


def test_the_limit_provider_is_asked_first(namespace: str) -> None:
    """So the first requests of a workspace are limited already, though it has no job."""
    with FairQueue("memory://", namespace=namespace, limit_provider=f"{__name__}:plan_of") as queue:
        for workspace, most in (("small", 1), ("large", 2)):
            for _ in range(most):
                queue.requests.admit(workspace)
            with pytest.raises(RequestRejected):
                queue.requests.admit(workspace)
