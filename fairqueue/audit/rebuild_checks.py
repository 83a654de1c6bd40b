"""Checks that the rebuild can remove unused entries: each has what it needs to know."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from fairqueue._keys import decode
from fairqueue.audit.view import Audit, Found

REST_SECONDS = 600
_PROGRESS = re.compile(r"[1-9]\d* \S+")
FORMS = {
    "counts": re.compile(r"(\S+=\d+ )+[\d.]+"),
    "progress": re.compile(r"\d\S* \S+ \S+ [\d.]+|\[.*"),
}
"""How a field's text looks in kinds of which the rebuild removes what it cannot read."""


def _fields_can_be_read(a: Audit) -> Iterator[Found]:
    for kind, form in FORMS.items():
        for name, text in a.space.one(kind, {}).items():
            if not form.fullmatch(text):
                found = f"{kind} of {decode(name)!r} cannot be read: {text[:80]!r}"
                yield ("field", kind, name), found


def _unused_queues_hold_nothing(a: Audit) -> Iterator[Found]:
    for queue, node in a.space.nodes.items():
        if node.unused and any(a.space.of(kind, queue) for kind in ("jobs", "indebted", "ready")):
            text = f"queue {decode(queue)!r} is marked as unused and is not empty"
            yield ("node", queue), text


def _the_rebuild_goes_on(a: Audit) -> Iterator[Found]:
    text = a.space.one("notes", {}).get("rebuild", "1 0")
    if a.rebuild_at > a.now + REST_SECONDS:
        yield ("shard",), f"the rebuild does not go on before {a.rebuild_at}"
    if not _PROGRESS.fullmatch(text):
        yield ("field", "notes", "rebuild"), f"the rebuild does not go on: {text!r}"


def _no_limit_is_overlooked(a: Audit) -> Iterator[Found]:
    if a.is_unlimited and a.space.one("limits", {}).keys() - {"configured"}:
        yield ("shard",), "the shard's record says that no limit is stored"


REBUILD_CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[Found]]], ...] = (
    ("I11", _fields_can_be_read),
    ("I11", _unused_queues_hold_nothing),
    ("I11", _the_rebuild_goes_on),
    ("I11", _no_limit_is_overlooked),
)
