"""What a producer may write where something else belongs."""

from __future__ import annotations

from typing import Any

DEEP = 300


def nested(kind: type) -> Any:
    """A list in a list, or a dictionary in a dictionary, and so on."""
    value: Any = 1
    for _ in range(DEEP):
        value = [value] if kind is list else {"a": value}
    return value


WRONG: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, float("nan"), float("-inf"), 10**400, "", "x", "\x00",
    "é" * 5000, [], [None], [[]], [1, 2], ["a", "b"], [1e308, -1], {}, {"a": {}}, nested(list),
    nested(dict),
]  # fmt: skip
