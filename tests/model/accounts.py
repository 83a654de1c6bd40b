"""Whether worker-seconds are charged: while runnable, the change of F is seconds over weight."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isclose

from fairqueue import _fairness as fair
from fairqueue._keys import encode
from fairqueue._stores.memory.limits import limits_of
from fairqueue._stores.memory.state import Flow, Held, State, Workspace

Place = tuple[str, str]


@dataclass(frozen=True)
class Standing:
    """A ready flow: where its tag starts from, less what its live leases were charged.

    What it starts from is F, once it has been dispatched since it became runnable.
    """

    balance: float
    weight: float
    since: float
    """When it became ready: one that was idle in between has begun anew."""


@dataclass
class Accounts:
    """What was before the step that is to be judged."""

    standings: dict[Place, Standing] = field(default_factory=dict)
    leases: dict[int, tuple[Place, float, float]] = field(default_factory=dict)
    v: dict[str, float] = field(default_factory=dict)
    """Of every queue; a branch's is forgotten with it."""
    used: dict[int, float] = field(default_factory=dict)
    """Worker-seconds that a worker reported in this step, by fence."""

    def reports(self, s: State, fence: int, seconds: float, *, ended: bool, now: float) -> None:
        """A worker reports a finished (``ended``) or given-up job."""
        held = s.leases.get(fence)
        if held is None:
            return
        used = fair.worker_seconds(seconds, now - held.claimed)
        self.used[fence] = max(used, fair.FLOOR_SECONDS) if ended else used

    def judge(self, s: State) -> None:
        """Compare with what was, and remember what is."""
        for queue, v in self.v.items():
            assert s.nodes[queue].v >= v, f"V of {queue} fell"
        now = dict(_standings(s))
        for place in now.keys() & self.standings.keys():
            was, new = self.standings[place], now[place]
            reserve = limits_of(s, s.workspace(place[0])).reserve  # with one F has a bound
            if (was.weight, was.since) == (new.weight, new.since) and reserve is None:
                wanted = was.balance + self._spent(s, place) / new.weight
                assert isclose(new.balance, wanted, rel_tol=1e-9, abs_tol=1e-6), (
                    place,
                    wanted,
                    new,
                )
        self._remember(s, now)

    def _spent(self, s: State, place: Place) -> float:
        """Worker-seconds of this place's leases that have ended since."""
        count = limits_of(s, s.workspace(place[0])).count
        spent = 0.0
        for fence, (of, charged, ran) in self.leases.items():
            if of == place and fence not in s.leases:
                used = self.used.get(fence, ran)
                spent += (charged if used else 0.0) if count else used
        return spent

    def _remember(self, s: State, standings: dict[Place, Standing]) -> None:
        self.standings, self.used = standings, {}
        self.v = {node.queue: node.v for node in s.nodes.values()}
        self.leases = {h.fence: (_place(s, h), h.charged, h.ran) for h in s.leases.values()}


def _standings(s: State) -> list[tuple[Place, Standing]]:
    ready = ((ws, f) for ws in s.workspaces.values() for f in ws.flows if f.serial is not None)
    return [((ws.name, flow.up.key), _standing(s, ws, flow)) for ws, flow in ready]


def _place(s: State, held: Held) -> Place:
    """The workspace, and the node in which the lease is charged."""
    job = held.record.job
    parent = s.workspace(job.workspace).parent
    task, group = held.place and f"/{held.place}", "" if parent is None else f"@{encode(parent)}"
    return job.workspace, encode(job.queue) + task + group


def _standing(s: State, ws: Workspace, flow: Flow) -> Standing:
    leases = (s.leases[fence] for fence in ws.slots)
    charged = sum(held.charged for held in leases if _place(s, held)[1] == flow.up.key)
    weight = ws.weight or 1.0
    return Standing(flow.tag - (flow.cost + charged) / weight, weight, flow.since)
