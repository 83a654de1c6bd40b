"""What a limit provider says of workspaces, and when it must be asked again."""

from __future__ import annotations

from fairqueue._stores.memory.changing import change_group
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import State
from fairqueue._types import Limits


def give(s: State, name: str, limits: Limits | None, age_seconds: float) -> bool:
    """Keep what it says, unless it was asked later too; whether it said another thing before."""
    put, known = s.now - age_seconds, s.asked.get(name, 0.0)
    if put < known <= s.now:
        return False
    if put >= -known:
        s.asked[name] = put
    if s.given.get(name) == limits:
        return False
    if limits is None:
        del s.given[name]
    else:
        s.given[name] = limits
    settle(s, s.workspace(name))
    change_group(s, name)
    return True


def to_ask(s: State, n: int, older_seconds: float, forget_seconds: float) -> list[str]:
    """Who is due, and is this caller's now; who has nothing any more is forgotten by and by."""
    found: list[str] = []
    for name, at in sorted(s.asked.items(), key=lambda entry: (entry[1], entry[0])):
        if at > s.now - older_seconds or len(found) == n:
            break
        if name in s.workspaces:
            found.append(name)
            s.asked[name] = s.now
        elif abs(at) <= s.now - forget_seconds:
            del s.asked[name]
            s.given.pop(name, None)
    return found


def ask_again(s: State, name: str) -> bool:
    """Make it due; False: nobody has asked before."""
    if name not in s.asked:
        return False
    s.asked[name] = -s.now
    return True
