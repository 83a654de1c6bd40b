"""Rebuilds what the auditor has found, one thing with each call, then looks again.

A finding only says where to look. The script looks once more in the same atomic step, and changes
nothing that is sound by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairqueue._keys import TYPES
from fairqueue._stores.store import StoreBase
from fairqueue.audit.checks import Finding, Mended, Repair, certain_findings
from fairqueue.audit.remarks import named
from fairqueue.audit.view import Audit, Where
from fairqueue.errors import ConfigurationError, StoreUnavailable

MOST_ROUNDS = 6
"""A repair may lead to another finding: a lease that ends leaves a job to place."""

ORDER = (
    *("foreign", "key", "shard", "record", "field", "lease", "job"),
    *("lane", "workspace", "schedule", "entry", "node", "shared_limit", "letter"),
)
"""Subjects of repairs, in order: those from which others are read come first."""

DONE = {
    "settled": "its lanes, timer and place in the order were set again from its jobs and limits",
    "placed": "it went to the head of its lane",
    "taken_out": "it was taken out of the wrong places",
    "ended": "it was ended; a job that it had goes back to the head of its lane",
    "completed": "its slots and its end were set again",
    "ordered": "it was put where it belongs",
    "written": "it was written again",
    "set_aside": "it was set aside",
    "removed": "it was removed",
}
"""Sentences for the script's one-word replies."""

REMEDIES = {
    "aside": "look at it, then: fairqueue doctor --forget",
    "limits": "it ends once the jobs above the limit have ended",
    "request": "it ends with its lease",
    "stranger": "another program writes it: give that one another prefix, and delete the key",
    "format": "check it with the release that wrote it",
    "stray": "its jobs run here, beside those of its shard, until none is left",
    "unchecked": "mend the others first, and look again",
}
"""Remedies for findings that no repair touches."""


def can_be_mended(finding: Finding) -> bool:
    """Whether a repair acts on this."""
    return finding.where[:1] != () and finding.where[0] in ORDER


def remedy_of(finding: Finding) -> str:
    """Return what ends a finding: the repair, or what an operator does."""
    if can_be_mended(finding):
        return "fairqueue doctor --repair"
    return REMEDIES.get(finding.where[0] if finding.where else "", "look at the keys by hand")


def rebuild(store: StoreBase, *, now: float | None = None) -> Mended:
    """Rebuild until nothing is left or nothing more helps; then look again.

    If there are several shards, each text says on which one it was found.
    """
    of_each = [_rebuild_shard(shard, now) for shard in store.shards]
    repairs = named([one.repairs for one in of_each])
    return Mended(tuple(repairs), tuple(named([one.findings for one in of_each])))


def _rebuild_shard(store: StoreBase, now: float | None) -> Mended:
    repairs: dict[tuple[str, str], Repair] = {}
    for _ in range(MOST_ROUNDS):
        look, found = certain_findings(store.engine, now=now)
        done = {(one.invariant, one.text): one for one in _round(store, look, found)}
        if not done.keys() - repairs.keys():
            break
        repairs |= done
    _, left = certain_findings(store.engine, now=now)
    texts = {(finding.invariant, finding.text) for finding in left}
    mended = [one for key, one in repairs.items() if not (one.is_mended and key in texts)]
    return Mended(tuple(mended), tuple(left))


def _round(store: StoreBase, look: Audit, found: Iterable[Finding]) -> Iterator[Repair]:
    """Rebuild each subject once, however many findings it has."""
    by_where: dict[Where, list[Finding]] = {}
    for finding in found:
        if finding.where[0] in ORDER:
            by_where.setdefault(finding.where, []).append(finding)
    for where in sorted(by_where, key=lambda where: (ORDER.index(where[0]), where)):
        is_mended, done = _rebuild(store, look, where)
        for finding in by_where[where] if done else ():
            yield Repair(finding.invariant, finding.text, done, is_mended)


def _rebuild(store: StoreBase, look: Audit, where: Where) -> tuple[bool, str]:
    """Return whether it worked, and what was done; empty: it is sound by now."""
    kind, *names = where
    try:
        word = store.rebuild(kind, names, _known_of(look, where))
    except (StoreUnavailable, ConfigurationError):
        raise
    except Exception as error:  # noqa: BLE001 - a script's error: told, and the others go on
        return False, f"this could not be mended: {error}"
    return True, DONE[word] if word else ""


def _known_of(look: Audit, where: Where) -> str:
    """Write what the look knows of a subject, and a script cannot find in bounded time."""
    kind, *names = where
    if kind == "record":
        return str(look.space.one(names[0], {}).get(names[1], ""))
    if kind == "job":
        places = look.places_by_job.get((names[0], names[1]), ())
        return "\n".join(" ".join(place[2:]) for place in places)
    if kind == "node" and names[0] in look.space.inner_nodes:
        node = look.space.inner_nodes[names[0]]
        counts = look.counts_of_inner_nodes.get(names[0], (0, 0, 0))
        return " ".join(map(str, (node.members, node.total, node.held, *counts)))
    if kind == "foreign":
        return TYPES[names[0]]
    return "persist" if kind == "key" and tuple(names) in look.space.expiring else ""
