"""(h) The longest script of each operation beside a state that is large in one way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from statistics import median

from _bench.options import Options, main
from _bench.piles import LEASE_SECONDS, Pile
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.turns import own_server

from fairqueue import Job, Limits, Pause, Settings
from fairqueue._claim.claimers import Claimers
from fairqueue._stores.sharded import sharded
from fairqueue._types import StoredLimits
from fairqueue.adapters import Claimed, Finish, rejected
from fairqueue.audit.view import NUMBERS

MOST = Target(at_most=30)
PLAIN_CLAIMS = 100
Operation = Callable[[Pile, int], object]
"""What is timed: its second argument is the number of the turn."""


@dataclass(frozen=True)
class State:
    """A state that is large in one way, and what is done in it."""

    name: str
    build: Callable[[Pile, int], None]
    size: int
    operations: dict[str, Operation]
    once: frozenset[str] = frozenset()
    """Operations that empty the state: they run in the last turn only."""


def measure(options: Options, progress: Progress) -> Report:
    """Build each state on a server of its own, and time every script of its operations."""
    scale = options.scale or options.size(1.0, 0.001)
    rows = []
    work = progress.start("(h) states", len(STATES))
    for state in STATES:
        rows += _measured(state, max(20, int(state.size * scale)), options.turns_of(3))
        work.step()
    work.done()
    notes = [
        "The longest script of each operation, by Redis's own count; the peer is the median of",
        f"{PLAIN_CLAIMS} finish-and-claims of one job each, of ten workspaces, on the same server.",
    ]
    title = f"(h) The longest script beside large states, at a scale of {scale:g}"
    return Report(title, "longest", "plain claim", rows, (), notes)


def _measured(state: State, size: int, turns: int) -> Iterator[Row]:
    with own_server() as server, server.client() as client:
        plain = _plain_claim(Pile(client, "plain"))
        pile = Pile(client)
        state.build(pile, size)
        for name, operation in state.operations.items():
            longest = []
            for turn in range(1 if name in state.once else turns):
                with pile.timing() as spent:
                    operation(pile, turn)
                longest.append(max(spent))
            what = f"{state.name.format(size)}: {name}"
            yield Row(what, "µs", longest, [plain] * len(longest), MOST)


def _plain_claim(pile: Pile) -> float:
    for n in range(PLAIN_CLAIMS + 1):
        pile.publish(f"client-{n % 10}", queue="plain")
    claimed = pile.claim(1, "plain")
    with pile.timing() as spent:
        for _ in range(PLAIN_CLAIMS):
            claimed = pile.one_more(claimed, "plain")
    return median(spent)


def _lane(pile: Pile, size: int) -> None:
    """One lane, in which every other job is of a second task for the first 10,000."""
    ids = [pile.publish("big", task=task) for task in ("noop", "other")]
    pile.clone("lane", ("first", "big", "first", "0"), ids, 2, min(size, 10_000))
    pile.clone("lane", ("first", "big", "first", "0"), ids[:1], min(size, 10_000), size)


def _expire(pile: Pile, _: int) -> None:
    for _ in range(64):
        pile.publish("big", expires_seconds=1.0)
    pile.publish("big")
    pile.clock.advance(2)
    claimed = pile.claim()
    for _ in range(3):
        claimed = pile.one_more(claimed)


def _cancel_tail(pile: Pile, _: int) -> None:
    job_id = pile.publish("big")
    pile.publish("big")
    pile.store.cancel(job_id, workspace="big", queue="first")


def _scheduled(pile: Pile, size: int) -> None:
    ids = [pile.publish("big", queue="other", delay_seconds=60)]
    ids += [pile.publish("big", task="other", delay_seconds=61)]
    pile.clone("scheduled", ("other", "big"), ids[:1], 2, size)
    for _ in range(50):
        pile.publish("big", delay_seconds=1e6)
    for _ in range(50):
        pile.publish("big", task="other", delay_seconds=1e6)


def _leased(pile: Pile, size: int, workspaces: int = 1000) -> None:
    names = [f"client-{n}" for n in range(workspaces)]
    pile.publish_many(
        Job(f"leased{n}", names[n % workspaces], "first", "noop", b"") for n in range(size)
    )
    left = size
    while left > 0 and (found := len(pile.claim(min(left, 50)).leases)):
        left -= found


def _pause_task(pile: Pile, _: int) -> None:
    pile.store.pause("task", "noop", Pause.PAUSED)
    pile.store.pause("task", "noop", None)


def _limit_task(pile: Pile, _: int) -> None:
    pile.store.set_limits("task", "noop", Limits(concurrency=5))
    pile.claim()
    pile.store.set_limits("task", "noop", None)
    pile.claim()


def _dead(pile: Pile, size: int) -> None:
    def jobs() -> Iterator[Job]:
        for n in range(size):
            yield Job(f"dead{n}", f"client-{n}", "first", "noop", b"")

    pile.publish_many(jobs())
    left = size
    while left > 0 and (leases := pile.claim(min(left, 50)).leases):
        left -= len(leases)
        pile.numbers["one"] += 1
        pile.store.ack(
            owner="one",
            number=pile.numbers["one"],
            lease_seconds=LEASE_SECONDS,
            max_deliveries=None,
            finishes=[rejected(lease.fence, reason="bad") for lease in leases],
        )


def _waiting(pile: Pile, size: int) -> None:
    pile.publish_many(Job(f"w{n}", f"client-{n}", "first", "noop", b"") for n in range(size))


def _configured(capacity: int) -> StoredLimits:
    return StoredLimits(default=Limits(capacity=capacity), provided=True)


def _provided(pile: Pile, size: int) -> None:
    pile.store.configure(_configured(10**6), authoritative=True)
    for first in range(0, size, 1000):
        with pile.piped() as piped:
            for n in range(first, min(first + 1000, size)):
                piped.put_provider_limits(f"client-{n}", Limits(concurrency=5))


def _renew(pile: Pile, _: int) -> None:
    fences = pile.engine.client.hkeys(pile.engine.keys.key("leases"))[:5000]
    progress = [(int(fence), 1.0) for fence in fences]
    pile.store.renew(progress, owner="one", lease_seconds=LEASE_SECONDS)


def _claim_many(pile: Pile, turn: int) -> None:
    pile.publish_many(Job(f"m{turn}-{n}", f"w{n}", "first", "noop", b"") for n in range(500))
    claimer = Claimers(sharded(pile.store), Settings())
    claimed = claimer.claim(["first"], 500, ())
    claimer.claim(["first"], 0, [Finish(lease.fence) for lease in claimed.leases])


def _some_leased(pile: Pile) -> dict[str, str]:
    fence = pile.engine.client.hrandfield(pile.engine.keys.key("leases"))
    text = pile.engine.client.hget(pile.engine.keys.key("leases"), fence)
    names = zip(("workspace", "queue", "job_id"), text.split()[1].decode().split("/"), strict=True)
    return dict(names)


def _queues(pile: Pile, size: int) -> None:
    pile.publish_many(Job(f"q{n}", f"c{n}", f"queue-{n}", "noop", b"") for n in range(size))
    for n in range(size):
        pile.one_more(pile.claim(1, f"queue-{n}"), f"queue-{n}")
    pile.store.set_limits("total", "", Limits(concurrency=10, capacity=10**6))


def _publish_and_claim(pile: Pile, _: int) -> None:
    for n in range(3):
        pile.publish(f"probe-{n}")
    claimed: Claimed = pile.claim()
    for _ in range(3):
        claimed = pile.one_more(claimed)


def _one_on_all(pile: Pile, size: int) -> None:
    pile.publish_many(Job(f"q{n}", "big", f"queue-{n}", "noop", b"") for n in range(size))


def _limited_on_all(pile: Pile, size: int) -> None:
    _one_on_all(pile, size)
    pile.publish_many(Job(f"r{n}", "big", f"queue-{n}", "noop", b"") for n in range(size // 10))
    pile.store.set_limits("workspace", "big", Limits(concurrency=1))


def _task_of_one_on_all(pile: Pile, size: int) -> None:
    pile.store.set_limits("task", "noop", Limits(workspace_concurrency=9))
    _one_on_all(pile, size)


def _close_and_open_task(pile: Pile, _: int) -> None:
    for most in (0, 9):
        pile.store.set_limits("task", "noop", Limits(workspace_concurrency=most))
        _follow(pile)


def _idle_on_all(pile: Pile, size: int) -> None:
    """It has run a job on each queue, and one of them runs still."""
    _one_on_all(pile, size)
    pile.publish_many(Job(f"o{n}", f"c{n}", f"queue-{n}", "noop", b"") for n in range(size))
    for n in range(size):
        pile.claim(2, f"queue-{n}", owner="all")
    pile.publish_many(Job(f"f{n}", "big", "first", "noop", b"") for n in range(10))


def _follow(pile: Pile) -> None:
    """Go on until all flows of the workspace have followed it."""
    timer, shard = pile.engine.keys.key("timer"), pile.engine.keys.key("shard")
    while (pile.client.zscore(timer, "big") or pile.clock() + 1) <= pile.clock() or (
        pile.client.hget(shard, "record")[NUMBERS.size :].split()[2] != b"-"
    ):
        pile.store.reap(max_deliveries=None)


def _fill_and_free_workspace(pile: Pile, turn: int) -> None:
    queue = f"queue-{turn}"
    claimed = pile.claim(1, queue)
    _follow(pile)
    claimed = pile.one_more(claimed, queue)
    _follow(pile)
    pile.claim(0, queue, finishes=[Finish(lease.fence) for lease in claimed.leases])
    _follow(pile)


def _pause_and_resume(pile: Pile, _: int) -> None:
    for how in (Pause.PAUSED, None):
        pile.store.pause("workspace", "big", how)
        _follow(pile)


def _limit(scope: str, name: str, *changes: Limits | None) -> Operation:
    """Set limits, and let all flows follow; then remove them."""

    def limit(pile: Pile, _: int) -> None:
        for limits in (*changes, None):
            pile.store.set_limits(scope, name, limits)
            _follow(pile)

    return limit


def _rate(pile: Pile, turn: int) -> None:
    queue = f"queue-{turn + 5}"
    pile.store.set_limits("workspace", "big", Limits(rate=0.1))
    claimed = pile.claim(1, queue)
    _follow(pile)
    pile.clock.advance(11)
    _follow(pile)
    pile.claim(0, queue, finishes=[Finish(lease.fence) for lease in claimed.leases])
    pile.store.set_limits("workspace", "big", None)
    _follow(pile)


def _end_all(pile: Pile, _: int) -> None:
    """All its jobs end, at most 16 in a call."""
    slots = pile.engine.keys.key("slots", "big")
    fences = [int(fence) for fence in pile.client.smembers(slots)]
    for at in range(0, len(fences), 16):
        finishes = [Finish(fence) for fence in fences[at : at + 16]]
        pile.claim(0, "first", owner="all", finishes=finishes)
    _follow(pile)


def _publish_and_claim_one(pile: Pile, turn: int) -> None:
    queue = f"queue-{turn + 1}"
    pile.publish("big", queue=queue)
    pile.publish("big", queue=f"new-{turn}")
    pile.one_more(pile.claim(1, queue), queue)


def _group_on_all(pile: Pile, size: int) -> None:
    _on_all(pile, size)
    for n in range(size):
        pile.store.set_limits("workspace", f"c{n}", Limits(parent="org"))


def _task_on_all(pile: Pile, size: int) -> None:
    pile.store.set_limits("task", "noop", Limits(concurrency=1))
    _on_all(pile, size)


def _on_all(pile: Pile, size: int) -> None:
    pile.publish_many(Job(f"q{n}", f"c{n}", f"queue-{n}", "noop", b"") for n in range(size))


def _close_and_open_group(pile: Pile, _: int) -> None:
    for most in (0, 5):
        pile.store.set_limits("workspace", "org", Limits(concurrency=most))


def _fill_and_free(pile: Pile, turn: int) -> None:
    queue = f"queue-{turn}"
    pile.one_more(pile.claim(1, queue), queue)


def _join_group(workspace: str) -> Operation:
    """Join a group, and go on until all flows and leases have followed."""

    def join(pile: Pile, turn: int) -> None:
        pile.store.set_limits("workspace", workspace, Limits(parent=f"org{turn}"))
        workspaces = pile.engine.keys.key("workspaces")
        while {*b"<>="} & {*pile.engine.client.hget(workspaces, workspace).partition(b"|")[0]}:
            pile.store.reap(max_deliveries=None)

    return join


def _priorities(pile: Pile, size: int) -> None:
    pile.publish_many(
        Job(f"p{n}", "big", "first", "noop", b"", priority=2 * n) for n in range(size)
    )


def _publish_between(pile: Pile, turn: int) -> None:
    pile.publish("big", priority=2 * turn + 1)
    pile.one_more(pile.claim())


def _stats(pile: Pile, _: int) -> None:
    pile.store.snapshot()


def _pages(pages: Iterator[int]) -> None:
    for _ in pages:
        pass


STATES = (
    State(
        "{:,} jobs in a lane",
        _lane,
        1_000_000,
        {
            "64 at its tail expire": _expire,
            "cancel at its tail": _cancel_tail,
            "withdraw in the middle": lambda p, turn: p.store.withdraw(
                f"job3-{20 + turn}", workspace="big", queue="first"
            ),
            "why of its last job": lambda p, _: p.store.why(
                workspace="big", job_id=p.publish("big"), queue="first"
            ),
            "purge of a task": lambda p, _: _pages(p.store.purge(task="other")),
            "export, 50 pages": lambda p, _: _pages(
                islice(p.store.export_jobs("first", [(0, "l")]), 50)
            ),
        },
        once=frozenset({"purge of a task"}),
    ),
    State(
        "{:,} scheduled of one workspace",
        _scheduled,
        1_000_000,
        {
            "purge of a task": lambda p, _: _pages(p.store.purge(task="other")),
            "export, all of its queue": lambda p, _: _pages(
                p.store.export_jobs("first", [(0, "l")])
            ),
            "purge of a queue": lambda p, _: _pages(p.store.purge("first", "big")),
        },
        once=frozenset({"purge of a task", "export, all of its queue", "purge of a queue"}),
    ),
    State(
        "{:,} leases",
        _leased,
        100_000,
        {
            "pause of their task": _pause_task,
            "limit of their task": _limit_task,
            "renew of 5,000": _renew,
            "claim and finish of 500": _claim_many,
        },
    ),
    State(
        "{:,} workspaces with a dead letter",
        _dead,
        100_000,
        {"stats": _stats},
        once=frozenset({"stats"}),
    ),
    State(
        "{:,} workspaces waiting",
        _waiting,
        100_000,
        {"stats": _stats},
        once=frozenset({"stats"}),
    ),
    State(
        "{:,} provider limits",
        _provided,
        100_000,
        {
            "configure": lambda p, _: p.store.configure(_configured(10**6), authoritative=True),
            "configure a change": lambda p, turn: p.store.configure(
                _configured(turn + 1), authoritative=True
            ),
            "publish and claim": _publish_and_claim,
        },
    ),
    State(
        "{:,} running in a workspace",
        lambda p, size: _leased(p, size, 1),
        10_000,
        {
            "cancel of one": lambda p, _: p.store.cancel(**_some_leased(p)),
            "why of one": lambda p, _: p.store.why(**_some_leased(p)),
            "it joins a group": _join_group("client-0"),
        },
    ),
    State("a group on {:,} queues", _group_on_all, 1000, {"close and open": _close_and_open_group}),
    State(
        "a limited task on {:,} queues", _task_on_all, 1000, {"claim and finish": _fill_and_free}
    ),
    State(
        "{:,} queues ever seen, a total limit",
        _queues,
        1000,
        {"publish and claim": _publish_and_claim},
    ),
    State(
        "one workspace on {:,} queues",
        _one_on_all,
        1000,
        {
            "publish and claim": _publish_and_claim_one,
            "pause and resume": _pause_and_resume,
            "its rate": _rate,
            "a reserve": _limit("workspace", "big", Limits(reserve=1)),
            "a default limit of 0": _limit("default", "", Limits(concurrency=0)),
            "a weight": _limit("workspace", "big", Limits(weight=2.0)),
            "it joins a group": _join_group("big"),
        },
    ),
    State(
        "an own limit on {:,} queues",
        _limited_on_all,
        1000,
        {"close and open": _fill_and_free_workspace},
    ),
    State(
        "a task limited per workspace on {:,} queues",
        _task_of_one_on_all,
        1000,
        {"close and open": _close_and_open_task},
    ),
    State(
        "a workspace that runs on {:,} queues",
        _idle_on_all,
        1000,
        {"publish and claim": _publish_and_claim, "all end": _end_all},
        once=frozenset({"all end"}),
    ),
    State(
        "{:,} priorities in a lane", _priorities, 4000, {"publish of a new one": _publish_between}
    ),
)

if __name__ == "__main__":
    main(measure)
