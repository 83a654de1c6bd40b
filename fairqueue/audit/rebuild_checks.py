"""Checks that the rebuild can remove unused entries: each has what it needs to know."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fairqueue._keys import decode
from fairqueue.audit.view import Audit, Found

REST_SECONDS = 600
_PROGRESS = re.compile(r"[1-9]\d* \S+")
FORMS = {
    "counts ": re.compile(r"(\S+=\d+ )+[\d.]+"),
    "progress ": re.compile(r"\d\S* \S+ \S+ [\d.]+|\[.*"),
    "shard task:": re.compile(r"(-|\d+) [\d.]+"),
    "shard across:": re.compile(r"\S+ \S+ [01]"),
}
"""How a field's text looks, by the kind and how its name begins: the rebuild removes others."""


def _i11_fields_can_be_read(a: Audit) -> Iterator[Found]:
    for of, form in FORMS.items():
        kind, _, before = of.partition(" ")
        for name, text in a.space.one(kind, {}).items():
            if name.startswith(before) and not form.fullmatch(text):
                found = f"{kind} of {decode(name)!r} cannot be read: {text[:80]!r}"
                yield ("field", kind, name), found


def _i11_unused_queues_hold_nothing(a: Audit) -> Iterator[Found]:
    for queue, node in a.space.nodes.items():
        if node.unused and any(a.space.of(kind, queue) for kind in ("jobs", "finish", "ready")):
            text = f"queue {decode(queue)!r} is marked as unused and is not empty"
            yield ("node", queue), text


def _i11_the_rebuild_goes_on(a: Audit) -> Iterator[Found]:
    text = a.space.one("shard", {}).get("rebuild", "1 0")
    if a.rebuild_at > a.now + REST_SECONDS:
        yield ("shard",), f"the rebuild does not go on before {a.rebuild_at}"
    if not _PROGRESS.fullmatch(text):
        yield ("field", "shard", "rebuild"), f"the rebuild does not go on: {text!r}"


def _i11_no_limit_is_overlooked(a: Audit) -> Iterator[Found]:
    if a.is_unlimited and a.space.one("limits", {}).keys() - {"configured"}:
        yield ("shard",), "the shard's record says that no limit is stored"
