"""Looks again until each finding is certain, while others work on the keys.

The keys are not read in one atomic step, so one look may see a change half done: a job may move
while its lane is read. A finding is certain if each of several looks makes it in the same words.
"""

from __future__ import annotations

from fairqueue._stores.engine import Engine
from fairqueue.audit.checks import Finding, findings
from fairqueue.audit.keyspace import Keyspace
from fairqueue.audit.view import Audit

LOOKS = 5
"""One repetition may be chance: what comes and goes all the time may be met twice."""


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
    for _ in range(LOOKS - 1):
        if not left:
            break
        look = take_look(engine, now)
        again = set(findings(look))
        left = [finding for finding in left if finding in again]
    return look, left
