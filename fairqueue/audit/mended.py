"""What a repair has done."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairqueue.audit.checks import Finding


@dataclass(frozen=True, slots=True)
class Repair:
    """One finding that was mended, or could not be."""

    invariant: str
    text: str
    done: str
    """What was done, or why it could not be."""
    is_mended: bool


@dataclass(frozen=True, slots=True)
class Mended:
    """What a repair has done, and what it has left."""

    repairs: tuple[Repair, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    """What does not hold still."""
