"""(c) The cost of a claim with more and more workspaces that are blocked or waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from _bench.bulk import fill
from _bench.messages import QUEUE, WORKSPACES
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Cost, Report, Row, Target
from _bench.spent import Spent, cost, spending
from _bench.turns import alternate, own_server

from fairqueue import FairQueue
from fairqueue.adapters import Finish

LEASE_SECONDS = 3600  # nothing expires while it is measured
PAYLOAD = b"x" * 100
AT_ONCE = 200
PROBES = [f"probe-{n}" for n in range(WORKSPACES)]


@dataclass(frozen=True, eq=False)
class Crowd:
    """Workspaces with jobs on one server, whose claims are measured."""

    name: str
    core: FairQueue
    client: Any

    def claim(self, count: int) -> Spent:
        """Finish one job and claim the next, ``count`` times; return what Redis spent."""
        finishes: tuple[Finish, ...] = ()
        with spending(self.client) as spent:
            for _ in range(count):
                (lease,) = self.core.claim([QUEUE], finishes=finishes).leases
                finishes = (Finish(lease.fence, seconds=0.001),)
        self.core.finish(finishes)
        return spent


def measure(options: Options, progress: Progress) -> Report:
    """Measure crowds that are blocked and crowds that wait. Each claim finishes the job before."""
    count, turns = options.size(300, 20), options.turns_of(9)
    at_limit = options.size([0, 1_000, 10_000, 100_000], [0, 100])
    waiting = options.size([10, 1_000, 1_000_000], [10, 300])
    blocked = options.size([100, 100_000], [40, 100])
    jobs = count * (turns + 2)
    rows, costs = [], []
    with ExitStack() as stack:
        crowds = [_at_limit(stack, n, jobs, progress) for n in at_limit]
        rows += _measured(crowds, count, turns, Target(at_most=1.3), costs, progress)
    with ExitStack() as stack:
        crowds = [_waiting(stack, n, jobs, progress) for n in waiting]
        rows += _measured(crowds, count, turns, Target(at_most=1.5), costs, progress)
    for kind in KINDS:
        with ExitStack() as stack:
            crowds = [_blocked(stack, kind, n, jobs, progress) for n in blocked]
            rows += _measured(crowds, count, turns, Target(at_most=1.3), costs, progress)
    title = f"(c) A claim beside ever more workspaces, {turns} turns of {count:,} claims"
    return Report(title, "this many", "the fewest", rows, costs, _NOTES)


_NOTES = [
    "Each call finishes one job and claims the next. The peer is the smallest crowd of the kind.",
    f"At their limit: each has one job running and one waiting; claims go to {WORKSPACES} others.",
    "The workspaces of all other blocked crowds have one job each, of a task of their own.",
]

CROWD = "crowd"


def _each(names: Sequence[str], **limits: Any) -> dict[str, Any]:
    return {"workspaces": dict.fromkeys(names, limits)}


KINDS: dict[str, Callable[[Sequence[str]], dict[str, Any]]] = {
    "with their task at its limit": lambda _: {"tasks": {CROWD: {"concurrency": 0}}},
    "with a reserve, and their task at its limit": lambda names: {
        "tasks": {CROWD: {"concurrency": 0}},
        **_each(names, reserve=1),
    },
    "at their task's limit for each workspace": lambda _: {
        "tasks": {CROWD: {"workspace_concurrency": 0}}
    },
    "waiting for their task's rate": lambda _: {"tasks": {CROWD: {"rate": 1e-6}}},
    "waiting for their own rate": lambda names: _each(names, rate=1e-6),
    "in one group at its limit": lambda names: {
        "workspaces": {GROUP: {"concurrency": 0}, **_each(names, parent=GROUP)["workspaces"]}
    },
    "each in a group at its limit": lambda names: {
        "workspaces": {
            name: limits
            for n, workspace in enumerate(names)
            for name, limits in (
                (workspace, {"parent": f"group-{n}"}),
                (f"group-{n}", {"concurrency": 0}),
            )
        }
    },
}
"""What blocks a crowd, and the settings that do so."""
GROUP = "group"


def _open(stack: ExitStack, **settings: Any) -> tuple[FairQueue, Any]:
    server = stack.enter_context(own_server())
    core = FairQueue(server.url, lease_seconds=LEASE_SECONDS, **settings)
    core.connect()
    core.reap()  # apply the new limits while there are no workspaces yet
    return stack.enter_context(core), stack.enter_context(server.client())


def _at_limit(stack: ExitStack, many: int, jobs: int, progress: Progress) -> Crowd:
    """Create ``many`` workspaces that run one job, may run one, and have one more waiting."""
    unlimited = {name: {"concurrency": 1000} for name in PROBES}
    core, client = _open(stack, workspace_concurrency=1, workspaces=unlimited)
    names = [f"full-{n}" for n in range(many)]
    fill(_url(client), "fairqueue", names + names, PAYLOAD, progress)
    work = progress.start("starting one job of each", many)
    left = many
    while left:
        left -= len(core.claim([QUEUE], min(left, AT_ONCE)).leases)
        work.step(AT_ONCE)
    work.done()
    if core.claim([QUEUE]).leases:
        raise RuntimeError("a workspace exceeds its concurrency limit")
    return _with_probes(f"{many:,} workspaces at their limit", core, client, jobs, progress)


def _blocked(stack: ExitStack, kind: str, many: int, jobs: int, progress: Progress) -> Crowd:
    """Create ``many`` workspaces, all blocked by a limit of this kind."""
    names = [f"blocked-{n}" for n in range(many)]
    core, client = _open(stack, **KINDS[kind](names))
    rated = "rate" in kind  # the first start is free
    fill(_url(client), "fairqueue", names + names * rated, PAYLOAD, progress, task=CROWD)
    while core.claim([QUEUE], AT_ONCE).leases:
        if not rated:
            raise RuntimeError(f"a job of a workspace {kind} was claimed")
    return _with_probes(f"{many:,} workspaces {kind}", core, client, jobs, progress)


def _waiting(stack: ExitStack, many: int, jobs: int, progress: Progress) -> Crowd:
    """Create ``many`` workspaces that have one runnable job each; the first ten have more."""
    core, client = _open(stack)
    names = [f"ready-{n}" for n in range(many)]
    fill(_url(client), "fairqueue", names, PAYLOAD, progress)
    return _with_probes(
        f"{many:,} workspaces waiting", core, client, jobs, progress, names[:WORKSPACES]
    )


def _with_probes(
    name: str,
    core: FairQueue,
    client: Any,
    jobs: int,
    progress: Progress,
    names: Sequence[str] = PROBES,
) -> Crowd:
    owners = [names[n % WORKSPACES] for n in range(jobs)]
    fill(_url(client), "fairqueue", owners, PAYLOAD, progress, id_prefix="probe")
    return Crowd(name, core, client)


def _url(client: Any) -> str:
    options = client.connection_pool.connection_kwargs
    return f"unix://:{options['password']}@{options['path']}"


def _measured(
    crowds: Sequence[Crowd],
    count: int,
    turns: int,
    target: Target,
    costs: list[Cost],
    progress: Progress,
) -> list[Row]:
    work = progress.start("(c) claims", (turns + 1) * len(crowds))
    found = alternate(crowds, turns, work, lambda crowd: crowd.claim(count))
    work.done()
    fewest, most = crowds[0], crowds[-1]
    rows = []
    for crowd in crowds[1:]:
        judged = target if crowd is most else None
        script = [[spent.script_usec for spent in found[of]] for of in (crowd, fewest)]
        wall = [[spent.wall / count * 1e6 for spent in found[of]] for of in (crowd, fewest)]
        rows += [
            Row(f"{crowd.name}: script", "µs", *script, judged),
            Row(f"{crowd.name}: wall", "µs", *wall, judged),
        ]
    costs += [cost("finish + claim", crowd.name, found[crowd], count) for crowd in crowds]
    return rows


if __name__ == "__main__":
    main(measure)
