"""Looks again until each finding is certain, while others work on the keys.

The keys are not read in one atomic step, so one look may see a change half done. Records are read
first, and nearly every change to what a workspace, node or lease owns changes its record, too. So
a finding is certain if three looks make it beside the same record. If the record changes all the
time, or comes and goes as an idle queue's does, each of several looks must make it in the same
words.
"""

from __future__ import annotations

from fairqueue._stores.engine import Engine
from fairqueue.audit.checks import Finding, findings
from fairqueue.audit.keyspace import Keyspace
from fairqueue.audit.view import Audit, Where

MOST_LOOKS = 5
FEWEST_LOOKS = 3
"""One repetition may be chance: a job may move while its lane is read, a record may change back."""
_KINDS = (("workspaces", ""), ("shard", "queue:"), ("inner_nodes", ""))
_ABSENT = (None,) * len(_KINDS)
_ARRIVAL = 16  # digits and a colon before the name in a ready set


def take_look(engine: Engine, now: float | None = None) -> Audit:
    """Read every key once; ``now`` overrides the engine's clock, in tests."""
    space = Keyspace(engine)
    if now is None:
        seconds, micros = map(int, engine.command("TIME"))  # nothing that was read is later
        now = seconds + micros / 1e6
    return Audit(space, now)


def audit(engine: Engine, *, now: float | None = None) -> list[Finding]:
    """Look once and return what does not hold; on a live store see :func:`certain_findings`.

    Two findings may be temporary: I2 until a lowered limit has drained, and I7 from a wake-up to
    the claim of the woken worker.
    """
    return findings(take_look(engine, now))


def certain_findings(engine: Engine, *, now: float | None = None) -> tuple[Audit, list[Finding]]:
    """Look until each finding is certain or gone; return the last look and what is certain."""
    look = take_look(engine, now)
    left = findings(look)
    certain: set[Finding] = set()
    for n in range(2, MOST_LOOKS + 1):
        if certain.issuperset(left):
            break
        before, look = look, take_look(engine, now)
        again = set(findings(look))
        left = [finding for finding in left if finding in again]
        certain |= {one for one in left if _is_certain(one.where, before, look, n)}
    return look, left


def _is_certain(where: Where, before: Audit, look: Audit, looks: int) -> bool:
    """Whether a finding is certain: nothing changed there between two looks."""
    if looks < FEWEST_LOOKS:
        return False
    if where[:1] == ("job",):
        return True
    record = _record_of(before, where)
    return record is None or (record != _ABSENT and record == _record_of(look, where))


def _record_of(a: Audit, where: Where) -> object:
    """Return the record that changes with the finding's subject; None: there is none."""
    kind, *names = where or ("",)
    if kind == "entry" and names[0] in {"ready", "reserved"}:
        return _record(a, names[-1][_ARRIVAL:])
    if kind == "entry" and names[0] in {"finish", "indebted"}:
        return _record(a, names[-1])
    if kind == "entry" and names[0] in {"expiring", "scheduled"}:
        return _record(a, names[1])
    if kind in {"workspace", "lane", "node"}:
        return _record(a, names[0])
    if kind == "record":
        return a.space.one(names[0], {}).get(names[1])
    hashes = {"shared_limit": "shared_limits", "lease": "leases"}
    return a.space.one(hashes[kind], {}).get(names[0]) if kind in hashes else None


def _record(a: Audit, name: str) -> object:
    """Return the records of a workspace, queue or inner node."""
    return tuple(a.space.one(kind, {}).get(before + name) for kind, before in _KINDS)
