"""Checks that the rebuild can remove unused entries: each has what it needs to know."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from fairqueue._keys import decode
from fairqueue.audit.limits import lists_of, settings_of
from fairqueue.audit.view import ENTRY, Audit, Found

REST_SECONDS = 600
TASK_BYTES = 16  # of a task's record: see lua/state/tasks.lua
_PROGRESS = re.compile(r"[1-9]\d* \S+")
FORMS = {
    "counts ": re.compile(r"(\S+=\d+ )+[\d.]+"),
    "progress ": re.compile(r"\d\S* \S+ \S+ [\d.]+|\[.*"),
    "shard across:": re.compile(r"\S+ \S+ [01]"),
}
"""How a field's text looks, by the kind and how its name begins: the rebuild removes others."""
MEMBERS = {"task_rates": re.compile(r"[^:]+:[^:]+"), "scheduled": ENTRY}
"""How a member looks, by its kind."""


def _i11_entries_can_be_read(a: Audit) -> Iterator[Found]:
    for kind, form in MEMBERS.items():
        for *names, member, _ in a.entries(kind):
            if not form.fullmatch(member):
                yield ("entry", kind, *names, member), f"what {kind} has cannot be read: {member}"
    for of, form in FORMS.items():
        kind, _, before = of.partition(" ")
        for name, text in a.space.one(kind, {}).items():
            if name.startswith(before) and not form.fullmatch(text):
                found = f"{kind} of {decode(name)!r} cannot be read: {text[:80]!r}"
                yield ("field", kind, name), found
    for field, record in a.space.shard_fields.items():
        if field.startswith(b"task:") and len(record) != TASK_BYTES:
            name = field.decode()
            yield ("field", "shard", name), f"the record of {decode(name)!r} cannot be read"


def _i11_unused_queues_hold_nothing(a: Audit) -> Iterator[Found]:
    for queue, node in a.space.nodes.items():
        if node.unused and any(a.space.of(kind, queue) for kind in ("jobs", "indebted", "ready")):
            text = f"queue {decode(queue)!r} is marked as unused and is not empty"
            yield ("node", queue), text


def _i11_queues_are_listed(a: Audit) -> Iterator[Found]:
    listed = a.space.one("shard", {}).get("queues")
    if listed is not None and set(listed.split()) != set(a.space.nodes):
        yield ("field", "shard", "queues"), f"the queues are not {listed!r}"


def _i11_the_rebuild_goes_on(a: Audit) -> Iterator[Found]:
    text = a.space.one("shard", {}).get("rebuild", "1 0")
    if a.rebuild_at > a.now + REST_SECONDS:
        yield ("shard",), f"the rebuild does not go on before {a.rebuild_at}"
    if not _PROGRESS.fullmatch(text):
        yield ("field", "shard", "rebuild"), f"the rebuild does not go on: {text!r}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _i11_limits_are_listed(a: Audit) -> Iterator[Found]:
    fields: dict[str, str] = a.space.one("limits", {})
    lists = {what: set(found) for (what,), found in a.space.all("limits_with")}
    listed = {(what, field) for what, found in lists.items() for field in found}
    due = {(what, field) for field in fields for what in lists_of(field, fields[field])}
    for field in sorted({field for _, field in listed ^ due}):
        yield ("field", "limits", field), f"the limits {field!r} are not listed as they should be"
    settings = a.space.one("shard", {}).get("settings")
    if a.space.one("indexed_tasks", {}):
        lists["indexed"] = set()
    if settings is not None and _json(settings) != settings_of(fields, lists, a.mark):
        yield ("field", "limits", "settings"), f"the limits of all are not {settings!r}"
