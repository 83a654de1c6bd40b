"""Checks of the requests of web processes: each ticket is in one place, within the limits."""

from __future__ import annotations

from collections.abc import Iterator

from fairqueue._keys import decode
from fairqueue.audit.view import ALMOST, Audit, Found, entry_of, unequal
from fairqueue.plain import counted

TURN = "turn"
"""A member of a workspace's tickets: its own turn among those that wait."""


def _i15_tickets_are_in_one_place(a: Audit) -> Iterator[Found]:
    there = {
        (ticket.split("/")[1], ticket, end > 0)
        for ticket, end in a.space.one("requests", {}).items()
    }
    wanted = {(name, each, not turn) for name, each, turn in _tickets(a) if each != TURN}
    yield from unequal(
        "requests",
        there,
        "workspaces",
        wanted,
        stray=lambda one: ("request", *one[:2]),
        lacking=entry_of("requests_of_workspace"),
    )


def _tickets(a: Audit) -> set[tuple[str, str, float]]:
    return a.entries("requests_of_workspace")


def _i15_turns_are_of_those_that_wait(a: Audit) -> Iterator[Found]:
    queue = {name: -turn for name, each, turn in _tickets(a) if each == TURN}
    waiting = {name for name, each, turn in _tickets(a) if turn > 0}
    of = "waiting workspaces", set(queue), "waiting requests", waiting
    yield from unequal(*of, stray=lambda name: ("request", name))
    for member, share in a.space.one("request_turns", {}).items():
        turn, _, name = member.partition(":")
        used = list(a.space.of("requests_of_workspace", name, otherwise={}).values()).count(0)
        weight = a.levels.of_workspace(name).get("weight", 1.0)
        if int(queue.get(name, 0)) != int(turn):
            text = f"{decode(name)!r} has the turn {turn}, not {queue.get(name)}"
            yield ("request", name), text
        if abs(share * weight - used - 1) > ALMOST * share:
            has = f"{decode(name)!r} has {counted(used, 'request')} in flight"
            text = f"{has}, and its turn is at {share}"
            yield ("request", name), text


def _i2_requests_are_within_their_limits(a: Audit) -> Iterator[Found]:
    if a.levels.observed:
        return
    in_flight = sum(end > 0 for end in a.space.one("requests", {}).values())
    levels = [("the total", in_flight, a.levels.of_total())]
    for (name,), tickets in a.space.all("requests_of_workspace"):
        used = list(tickets.values()).count(0)
        levels.append((f"workspace {decode(name)!r}", used, a.levels.of_workspace(name)))
    for where, used, limits in levels:
        if used > limits.get("whole_requests", limits.get("requests", used)):
            yield ("limits",), f"{where} has {counted(used, 'request')} in flight, above its limit"
