"""Checks of what the cleanup takes away: each entry says what it must know for that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from fairqueue._keys import decode
from fairqueue.audit.view import Audit

REST_SECONDS = 600
_PROGRESS = re.compile(r"([1-9]\d*) \S+ ([\d.]+) [\d.]+ [\d.]+")
_KIND = re.compile(r"(task|plain)(/[\d.]+)?")


def _counts_have_a_time(a: Audit) -> Iterator[str]:
    for kind in ("lost", "observed", "without_workspace"):
        for name, text in a.space.one(kind, {}).items():
            *counts, last = text.split(" ")
            if not counts or not re.fullmatch(r"[\d.]+", last):
                yield f"{kind} of {decode(name)!r} does not say when it was last raised: {text!r}"


def _keys_of_jobs_are_unique_keys(a: Audit) -> Iterator[str]:
    unique = a.space.one("unique", {})
    for job, field in a.space.one("keyed", {}).items():
        if not unique.get(field, "").startswith(f"{job} "):
            yield f"job {job} has the unique key {field}, which does not name it"


def _unused_queues_hold_nothing(a: Audit) -> Iterator[str]:
    for queue, node in a.space.nodes.items():
        if node.unused and any(a.space.of(kind, queue) for kind in ("jobs", "finish", "ready")):
            yield f"queue {decode(queue)!r} is marked as unused and is not empty"


def _kinds_are_known(a: Audit) -> Iterator[str]:
    for queue, kind in a.space.one("kinds", {}).items():
        if not _KIND.fullmatch(kind):
            yield f"queue {decode(queue)!r} is of the kind {kind!r}"


def _the_cleanup_goes_on(a: Audit) -> Iterator[str]:
    text = a.space.one("cleanup", "1 0 0 0 0")
    found = _PROGRESS.fullmatch(text)
    if not found or float(found[2]) > a.now + REST_SECONDS:
        yield f"the cleanup does not go on: {text!r}"


CLEANUP_CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[str]]], ...] = (
    ("I11", _counts_have_a_time),
    ("I11", _keys_of_jobs_are_unique_keys),
    ("I11", _unused_queues_hold_nothing),
    ("I11", _kinds_are_known),
    ("I11", _the_cleanup_goes_on),
)
