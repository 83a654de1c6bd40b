"""Frozen dataclasses that are cheap to declare: a process declares some seventy when it starts.

The standard library compiles eight functions for each; here one is compiled, ``__init__``, and all
classes share the others. ``fields``, ``replace`` and ``asdict`` work as for any dataclass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _repr(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({values})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))


def _refuse(_self: Any, name: str, *_value: Any) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


SHARED = {"__eq__": _eq, "__hash__": _hash, "__repr__": _repr, "__reduce__": _reduce}
SHARED |= {"__setattr__": _refuse, "__delattr__": _refuse}


def _record(cls: Any) -> Any:
    own = vars(cls).keys()
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    for name, method in SHARED.items():
        if name not in own:
            setattr(made, name, method)
    fields = dataclasses.fields(made)
    made._compared = attrgetter(*[field.name for field in fields if field.compare])  # noqa: SLF001 - of the class that is made here
    made.__init__ = _init(made, fields)
    return made


def _init(cls: Any, fields: tuple[Any, ...]) -> Callable[..., None]:
    scope: dict[str, Any] = {"_missing": dataclasses.MISSING}
    arguments, lines = ["self"], []
    for field in fields:
        name, value, default = field.name, field.name, ""
        scope[f"_set_{name}"] = getattr(cls, name).__set__
        if field.default_factory is not dataclasses.MISSING:
            scope[f"_new_{name}"], default = field.default_factory, "=_missing"
            value = f"_new_{name}() if {name} is _missing else {name}"
        elif field.default is not dataclasses.MISSING:
            scope[f"_{name}"], default = field.default, f"=_{name}"
        arguments.append(name + default)
        lines.append(f" _set_{name}(self, {value})\n")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()\n")
    exec(f"def __init__({', '.join(arguments)}):\n{''.join(lines)}", scope)  # noqa: S102 - as dataclasses does
    init: Callable[..., None] = scope["__init__"]
    init.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return init


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: Any = None, /, **how: bool) -> Any:
        """Declare a dataclass; type checkers see the standard library's decorator."""
        cheap = how == {"frozen": True, "slots": True}
        return _record if cheap else dataclasses.dataclass(cls, **how)
