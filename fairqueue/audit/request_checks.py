"""Checks of the requests of web processes: each ticket is in one place, within the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fairqueue._keys import decode
from fairqueue.audit.view import ALMOST, Audit, Found, Where, unequal
from fairqueue.plain import counted


def _workspace_of(ticket: str) -> str:
    return ticket.split("/")[1]


def _request(ticket: tuple[str, str]) -> Where:
    return ("request", *ticket)


def _waiting(a: Audit) -> set[tuple[str, str]]:
    return a.members("waiting_requests")


def _in_flight(a: Audit) -> set[tuple[str, str]]:
    return {(_workspace_of(ticket), ticket) for ticket in a.space.one("requests", {})}


def _tickets_are_in_one_place(a: Audit) -> Iterator[Found]:
    in_flight, waiting = _in_flight(a), _waiting(a)
    of_workspaces = a.members("requests_of_workspace")
    requests = "requests in flight", in_flight, "workspaces", of_workspaces
    yield from unequal(*requests, stray=_request)
    for each in in_flight & waiting:
        yield _request(each), f"{each} waits and is in flight"
    for each in waiting:
        if _workspace_of(each[1]) != each[0]:
            yield _request(each), f"{each} waits elsewhere"
    known = {(ticket.partition("/")[0], ticket) for _, ticket in in_flight | waiting}
    owned = a.members("requests_of_owner")
    yield from unequal("owners", owned, "requests", known, stray=_request)


def _owners_expire(a: Audit) -> Iterator[Found]:
    owners = {names[0] for names, _ in a.space.all("requests_of_owner")}
    there = set(a.space.one("request_owners", {}))
    yield from unequal("owners", there, "tickets", owners, stray=lambda owner: ("request", owner))


def _turns_are_of_those_that_wait(a: Audit) -> Iterator[Found]:
    queue = dict(a.space.one("request_queue", {}))
    last = int(queue.pop("#", 0))
    waiting = {name for name, _ in _waiting(a)}
    of = "waiting workspaces", set(queue), "waiting requests", waiting
    yield from unequal(*of, stray=lambda name: ("request", name))
    if bool(last) != bool(queue) or any(int(turn) > last for turn in queue.values()):
        yield ("request",), f"the last turn of waiting requests is {last}: {queue}"
    for member, share in a.space.one("request_turns", {}).items():
        turn, _, name = member.partition(":")
        used = len(a.space.of("requests_of_workspace", name))
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
        levels.append((f"workspace {decode(name)!r}", len(tickets), a.levels.of_workspace(name)))
    for where, used, limits in levels:
        if used > limits.get("whole_requests", limits.get("requests", used)):
            yield ("limits",), f"{where} has {counted(used, 'request')} in flight, above its limit"


REQUEST_CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[Found]]], ...] = (
    ("I2", _requests_are_within_their_limits),
    ("I15", _tickets_are_in_one_place),
    ("I15", _owners_expire),
    ("I15", _turns_are_of_those_that_wait),
)
