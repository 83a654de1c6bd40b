"""Models of settings: fields with a reader each, and one error that names all wrong values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from fairqueue._settings import parsing, problems
from fairqueue._validation import check_name

Reader = Callable[[Any], Any]


class Field(NamedTuple):
    """A field; ``read`` returns a given value as the model keeps it, or raises ValueError."""

    read: Reader
    default: Any
    description: str


def setting(read: Reader, default: Any, description: str) -> Any:
    """Declare a field of a model."""
    return Field(read, default, description)


class Fields:
    """A model: the values of its fields, read from options. Immutable."""

    fields: ClassVar[Mapping[str, Field]] = {}
    given: Mapping[str, Any]
    """The options; all other fields have their defaults."""

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        cls.fields = {**cls.fields, **own}

    def __init__(self, options: Mapping[str, Any]) -> None:
        wrong, values = problems.unknown(options, self.fields), {}
        for name, field in self.fields.items():
            try:
                values[name] = field.read(options.get(name, field.default))
            except ValueError as error:
                wrong += problems.within(name, error, field.description)
        problems.refuse(wrong)
        vars(self).update(values, given=dict(options))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings cannot be changed: {name}")


def by_name(kind: str, entry: type[Fields], description: str) -> Any:
    """Declare a field that has an entry, a model of its own, for each name of a kind."""

    def read(given: Any) -> dict[str, Any]:
        wrong: list[problems.Problem] = []
        entries = {}
        for name, options in parsing.mapping(given).items():
            try:
                entries[check_name(kind, name)] = entry(parsing.entry(options))
            except ValueError as error:
                wrong += problems.within(problems.shortened(str(name)), error, description)
        problems.refuse(wrong)
        return entries

    return setting(read, {}, description)
