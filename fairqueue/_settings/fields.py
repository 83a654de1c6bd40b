"""How settings are declared: what reads a given value, its meaning, and its default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from fairqueue._settings import parsing, problems
from fairqueue._validation import check_name
from fairqueue.errors import ConfigurationError

T = TypeVar("T")


class Field:
    """One setting, or one limit of a scope."""

    def __init__(self, read: parsing.Read, description: str, *, default: Any = None) -> None:
        self.default, self.description, self._read = default, description, read

    def read(self, given: Any, path: str) -> Any:
        """Read what was given; ``path`` is the setting's name in messages."""
        return self._checked(self._read, given, path)

    def _checked(self, read: parsing.Read, given: Any, path: str) -> Any:
        try:
            return read(given)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"setting {path!r}: {error}; expected: {self.description}"
            ) from None


class ByName(Field):
    """What is set for things of a kind, by their names."""

    def __init__(self, kind: str, entry: Callable[[Any, str], Any], description: str) -> None:
        super().__init__(parsing.mapping, description, default={})
        self._kind, self._entry = kind, entry

    def read(self, given: Any, path: str) -> Any:
        """Read a mapping, and each entry of it."""
        entries = super().read(given, path).items()
        return dict(_all(partial(self._named, name, options, path) for name, options in entries))

    def _named(self, name: Any, given: Any, path: str) -> tuple[str, Any]:
        path = f"{path}.{problems.shortened(str(name))}"
        name = self._checked(partial(check_name, self._kind), name, path)
        return name, self._entry(self._checked(parsing.mapping, given, path), f"{path}.")


def _all(reads: Iterable[Callable[[], T]]) -> list[T]:
    """Call each; one ConfigurationError names all that is wrong."""
    found, wrong = [], []
    for read_one in reads:
        try:
            found.append(read_one())
        except ConfigurationError as error:
            wrong.append(str(error))
    problems.refuse(wrong)
    return found


def read(fields: Mapping[str, Field], options: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Read what was given; ``path`` stands before names in messages, and ends in a dot.

    A burst has no effect without its rate, and is refused.
    """
    problems.refuse_unknown(map(str, options), fields, path)
    reads = (partial(fields[name].read, given, path + name) for name, given in options.items())
    found = dict(zip(options, _all(reads), strict=True))
    for burst, starts in found.items():
        rate = f"{burst.removesuffix('burst')}rate"
        if burst.endswith("burst") and starts is not None and found.get(rate) is None:
            raise ConfigurationError(
                f"setting '{path}{burst}' has no effect without a rate: set '{path}{rate}', too; "
                f"expected: {fields[burst].description}"
            )
    return found
