"""Requests in flight: limits in all and per workspace, turns of those that wait, and their ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from fairqueue import Limits
from fairqueue._stores import replies
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.audit import audit
from fairqueue.testing import ManualClock

LEASE_SECONDS = 30.0
ODD = "d: {*}/\n"


@dataclass
class Web:
    """A web process: an owner of tickets."""

    store: Store
    owner: str = "p1"
    number: int = 0
    waiting_most: int = 5
    held: list[str] = field(default_factory=list)

    def ask(self, workspace: str = "a") -> str:
        """Ask for a place; return the ticket."""
        self.number += 1
        return self.again(replies.ticket(self.owner, workspace, self.number))

    def again(self, ticket: str) -> str:
        reply = self.store.admit_request(
            ticket, lease_seconds=LEASE_SECONDS, waiting_most=self.waiting_most
        )
        self.state, self.reply = reply.state, reply
        return ticket

    def state_of(self, ticket: str) -> str:
        self.again(ticket)
        return self.state

    def renew(self, *tickets: str) -> None:
        assert self.store.renew_requests(tickets, lease_seconds=LEASE_SECONDS) == []


@pytest.fixture
def web(store: Store) -> Web:
    """A web process."""
    return Web(store)


@pytest.fixture(autouse=True)
def _audited(store: Store, clock: ManualClock) -> Iterator[None]:
    """Each test leaves keys in which every invariant holds."""
    yield
    assert audit(store.engine, now=clock()) == []


def limit(store: Store, *, total: int | None = None, **workspaces: int) -> None:
    """Configure limits of requests."""
    store.configure(
        StoredLimits(
            total=Limits(requests=total),
            workspaces={name: Limits(requests=most) for name, most in workspaces.items()},
        ),
        authoritative=True,
    )


def states(web: Web, tickets: list[str]) -> list[str]:
    """Ask again for each ticket."""
    return [web.state_of(ticket) for ticket in tickets]


def test_a_full_workspace_is_rejected_with_what_is_full(web: Web) -> None:
    """The reply names the scope, its limit and what is in flight; another workspace is let in."""
    web.waiting_most = 0
    limit(web.store, a=1)
    web.ask("a")
    web.ask("a")
    assert (web.state, web.reply.scope, web.reply.limit, web.reply.in_flight) == (
        "rejected",
        "workspace",
        1,
        1,
    )
    web.ask("b")
    assert web.state == "in_flight"


def test_a_full_total_is_rejected(web: Web) -> None:
    """The total counts requests of all workspaces."""
    web.waiting_most = 0
    limit(web.store, total=2)
    one, _ = web.ask("a"), web.ask("b")
    web.ask("c")
    assert (web.state, web.reply.scope, web.reply.limit) == ("rejected", "total", 2)
    assert web.store.end_request(one)
    web.ask("c")
    assert web.state == "in_flight"


def test_a_repeated_admission_takes_no_second_place(web: Web) -> None:
    """After a lost reply the same ticket is asked for again; a second end changes nothing."""
    ticket = web.ask("a")
    assert web.state_of(ticket) == "in_flight"
    assert web.store.count_requests("a") == (1, 1, 0)
    assert web.store.end_request(ticket)
    assert not web.store.end_request(ticket)
    assert web.store.count_requests("a") == (0, 0, 0)


def test_who_waits_is_first_come_first_served_in_a_workspace(web: Web) -> None:
    """A place that becomes free goes to the first that waits, not to a newcomer."""
    limit(web.store, a=1)
    one, two, three = (web.ask("a") for _ in range(3))
    assert states(web, [one, two, three]) == ["in_flight", "waits", "waits"]
    web.store.end_request(one)
    four = web.ask("a")
    assert states(web, [two, three, four]) == ["in_flight", "waits", "waits"]


def test_the_waiting_requests_of_a_workspace_take_no_place_of_another(web: Web) -> None:
    """Beside twenty that wait, a newcomer of another workspace gets the next place."""
    web.waiting_most = 20
    limit(web.store, total=2)
    running = [web.ask("a"), web.ask("a")]
    waiting = [web.ask("a") for _ in range(20)]
    other = web.ask("b")
    assert web.state == "waits"
    web.store.end_request(running[0])
    assert web.state_of(other) == "in_flight"
    assert set(states(web, waiting)) == {"waits"}


def test_as_many_wait_as_the_caller_allows_and_only_of_its_workspace(web: Web) -> None:
    """A workspace that fills its own bound is rejected; another may still wait."""
    web.waiting_most = 2
    limit(web.store, total=1)
    web.ask("a")
    for expected in ("waits", "waits", "rejected"):
        web.ask("a")
        assert web.state == expected
    web.ask("b")
    assert web.state == "waits"


def test_places_go_by_requests_in_flight_per_weight(web: Web) -> None:
    """Of eight places, a workspace of weight 3 gets six beside one of weight 1."""
    web.waiting_most = 99
    limit(web.store, total=0)
    web.store.set_limits("workspace", "a", Limits(weight=3.0))
    tickets = {name: [web.ask(name) for _ in range(20)] for name in ("a", "b")}
    web.store.set_limits("total", "", Limits(requests=8))
    web.again(tickets["b"][0])
    assert web.store.count_requests("a") == (8, 6, 14)
    assert web.store.count_requests("b") == (8, 2, 18)
    assert states(web, tickets["a"][:7]) == ["in_flight"] * 6 + ["waits"]


def test_a_workspace_at_its_own_limit_holds_no_other_back(web: Web) -> None:
    """Its requests wait, and free places of the total go to others."""
    limit(web.store, total=3, a=1)
    one, _ = web.ask("a"), web.ask("a")
    assert web.state == "waits"
    web.ask("b")
    assert web.state == "in_flight"
    web.store.end_request(one)
    assert web.store.count_requests("a") == (2, 1, 0)


def test_a_waiting_request_that_gives_up_leaves_the_queue(web: Web) -> None:
    """The one behind it is next."""
    limit(web.store, a=1)
    one, two, three = (web.ask("a") for _ in range(3))
    assert web.store.end_request(two)
    web.store.end_request(one)
    assert web.state_of(three) == "in_flight"


def test_a_raised_limit_reaches_those_that_wait(web: Web) -> None:
    """With the next call of one of them."""
    limit(web.store, a=1)
    _, two = web.ask("a"), web.ask("a")
    web.store.set_limits("workspace", "a", Limits(requests=2))
    assert web.state_of(two) == "in_flight"


def test_a_lowered_limit_drains(web: Web) -> None:
    """Nothing is stopped, and no request is admitted until enough have ended."""
    limit(web.store, a=3)
    running = [web.ask("a") for _ in range(3)]
    waiting = web.ask("a")
    web.store.set_limits("workspace", "a", Limits(requests=1))
    for ticket in running[:2]:
        web.store.end_request(ticket)
        assert web.state_of(waiting) == "waits"
    web.store.end_request(running[2])
    assert web.state_of(waiting) == "in_flight"


def test_a_waiting_request_that_may_wait_no_longer_leaves_the_queue(web: Web) -> None:
    """Its last ask says what is full; where it has got a place meanwhile, it keeps that."""
    limit(web.store, a=1)
    one, two, three = (web.ask("a") for _ in range(3))
    web.waiting_most = 0
    web.again(three)
    assert (web.state, web.reply.scope, web.reply.limit) == ("rejected", "workspace", 1)
    web.store.end_request(one)
    assert web.state_of(two) == "in_flight"
    assert web.store.count_requests("a") == (1, 1, 0)


def test_tickets_expire_with_their_process(web: Web, clock: ManualClock) -> None:
    """Those of a process that renews stay; those of one that died go, waiting ones too."""
    limit(web.store, total=2)
    dead = Web(web.store, "p2")
    dead.ask("a"), dead.ask("a"), dead.ask("a")
    mine = web.ask("b")
    assert web.state == "waits"
    clock.advance(LEASE_SECONDS - 1)
    assert web.state_of(mine) == "waits"
    clock.advance(2)
    assert web.state_of(mine) == "in_flight"
    assert web.store.count_requests("a") == (1, 0, 0)


def test_a_worker_drops_the_tickets_of_processes_that_are_gone(
    web: Web, clock: ManualClock
) -> None:
    """Where no web process is left, the rebuild of workers does."""
    for n in range(40):
        web.ask(f"w{n}")
    clock.advance(LEASE_SECONDS + 1)
    for _ in range(20):
        web.store.reap(max_deliveries=5)
    assert web.store.count_requests("w1") == (0, 0, 0)
    kinds = {entry.key.rpartition(b"}:")[2].partition(b":")[0] for entry in web.store.engine.dump()}
    assert not [kind for kind in kinds if b"request" in kind]


def test_observed_limits_reject_no_request_and_are_counted(web: Web) -> None:
    """As with jobs: what would have been full is counted for its workspace."""
    web.store.configure(
        StoredLimits(default=Limits(requests=1), total=Limits(requests=2), enforced=False),
        authoritative=True,
    )
    web.waiting_most = 0
    for _ in range(3):
        web.ask("a")
        assert web.state == "in_flight"
    web.ask("b")
    assert web.state == "in_flight"
    (a, b) = (web.store.why(workspace=name, job_id=None, queue=None).observed for name in "ab")
    assert (a, b) == (
        {"requests": 2, "requests.workspace": 2},
        {"requests": 1, "requests.total": 1},
    )


def test_the_default_workspace_is_exempt_from_the_default(web: Web) -> None:
    """As from the other default limits; the total holds for it."""
    web.waiting_most = 0
    web.store.configure(
        StoredLimits(default=Limits(requests=1), total=Limits(requests=2)), authoritative=True
    )
    for expected in ("in_flight", "in_flight", "rejected"):
        web.ask("default")
        assert web.state == expected


def test_one_call_starts_a_bounded_number(web: Web) -> None:
    """The next calls start the rest."""
    web.waiting_most = 99
    limit(web.store, total=0)
    last = [web.ask("a") for _ in range(40)][-1]
    web.store.set_limits("total", "", Limits(requests=99))
    assert web.state_of(last) == "waits"
    assert web.store.count_requests("a") == (32, 32, 8)
    assert web.state_of(last) == "in_flight"
    assert web.store.count_requests("a") == (40, 40, 0)


def test_a_foreign_key_among_them_stops_no_worker(web: Web) -> None:
    """A reap sets the failure aside, and goes on with everything else."""
    engine = web.store.engine
    engine.command("SET", engine.keys.key("requests"), "what")
    web.store.reap(max_deliveries=5)
    assert web.store.set_aside() == {"failure": 1}
    engine.command("DEL", engine.keys.key("requests"))
    web.store.drop_set_aside()
