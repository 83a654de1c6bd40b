"""The results of a repair."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairqueue.audit.checks import Finding


@dataclass(frozen=True, slots=True)
class Repair:
    """One finding, mended or not."""

    invariant: str
    text: str
    done: str
    """What was done, or why it failed."""
    is_mended: bool


@dataclass(frozen=True, slots=True)
class Mended:
    """All repairs, and the findings that are left."""

    repairs: tuple[Repair, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    """The findings that are left."""
