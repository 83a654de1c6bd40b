"""Checks of the requests of web processes: each ticket is in one place, within the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fairqueue._keys import decode
from fairqueue.audit.view import ALMOST, Audit, Found, unequal
from fairqueue.plain import counted


def _of_workspaces(a: Audit, kind: str) -> set[tuple[str, ...]]:
    return {("request", ticket.split("/")[1], ticket) for ticket in a.space.one(kind, {})}


def _tickets_are_in_one_place(a: Audit) -> Iterator[Found]:
    in_flight, waiting = _of_workspaces(a, "requests"), _of_workspaces(a, "waiting_requests")
    held = a.space.all("requests_of_workspace")
    turns = {("request", name, each): turn for (name,), of in held for each, turn in of.items()}
    started = {each for each, turn in turns.items() if not turn}
    for kind, there, wanted in (
        ("requests in flight", in_flight, started),
        ("waiting requests", waiting, turns.keys() - started),
    ):
        yield from unequal(kind, there, "workspaces", wanted, stray=lambda each: each)


def _turns_are_of_those_that_wait(a: Audit) -> Iterator[Found]:
    queue = {name: turn for name, turn in a.space.one("request_queue", {}).items() if name != "#"}
    waiting = {name for _, name, _ in _of_workspaces(a, "waiting_requests")}
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


def _requests_are_within_their_limits(a: Audit) -> Iterator[Found]:
    if a.levels.observed:
        return
    levels = [("the total", len(a.space.one("requests", {})), a.levels.of_total())]
    for (name,), tickets in a.space.all("requests_of_workspace"):
        used = list(tickets.values()).count(0)
        levels.append((f"workspace {decode(name)!r}", used, a.levels.of_workspace(name)))
    for where, used, limits in levels:
        if used > limits.get("whole_requests", limits.get("requests", used)):
            yield ("limits",), f"{where} has {counted(used, 'request')} in flight, above its limit"


REQUEST_CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[Found]]], ...] = (
    ("I2", _requests_are_within_their_limits),
    ("I15", _tickets_are_in_one_place),
    ("I15", _turns_are_of_those_that_wait),
)
