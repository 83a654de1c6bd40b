"""Models of settings: values by name, each with a check, a default and a description."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from fairqueue._settings import parsing, problems
from fairqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # for type checkers only, in "typing" from Python 3.11 on

    def dataclass_transform(**_: Any) -> Any:
        return lambda model: model


Check = Callable[[Any], Any]
"""Returns a value as it is kept; raises ValueError for one that is impossible."""


class Field(NamedTuple):
    """One setting of a model."""

    check: Check
    default: Any
    description: str


def setting(check: Check, default: Any, description: str) -> Any:
    """Define a setting as a model's attribute, which is typed as its value."""
    return Field(check, default, description)


class Problem(NamedTuple):
    """What is wrong with one value."""

    path: tuple[str, ...]
    text: str
    expected: str = ""
    """The description of the setting."""

    def __str__(self) -> str:
        where = f"setting {'.'.join(map(problems.shortened, self.path))!r}: " * bool(self.path)
        return f"{where}{self.text}" + f"; expected: {self.expected}" * bool(self.expected)


class UnknownName(Problem):
    """A name in a model that has no such setting."""

    def __str__(self) -> str:
        where = f"{'.'.join(map(problems.shortened, self.path))}: " * bool(self.path)
        return f"{where}{self.text}"


class Refused(ConfigurationError):
    """Values are impossible. The message has no value: one might be a secret."""

    def __init__(self, found: Iterable[Problem]) -> None:
        self.problems = tuple(found)
        super().__init__("; ".join(map(str, self.problems)))

    def below(self, name: str, expected: str = "") -> Iterator[Problem]:
        """Return the problems as those of the model that has this one under a name."""
        for each in self.problems:
            text = each.expected or expected
            yield each._replace(path=(name, *each.path), expected=text)


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
class Model:
    """Values by name. Immutable. Those that are not given have their defaults."""

    fields: ClassVar[Mapping[str, Field]] = {}
    given: Mapping[str, Any]
    """The values that were given, as they were given."""

    def __init_subclass__(cls) -> None:
        own = {name: of for name, of in vars(cls).items() if isinstance(of, Field)}
        cls.fields = {**cls.fields, **own}

    def __init__(self, **given: Any) -> None:
        values = {name: of.default for name, of in self.fields.items()} | {"given": given}
        found: list[Problem] = []
        for name in [name for name in self.fields if name in given]:
            expected = self.fields[name].description
            try:
                values[name] = self.fields[name].check(given[name])
            except Refused as error:
                found += error.below(name, expected)
            except ValueError as error:
                found.append(Problem((name,), str(error), expected))
        names = list(self.fields)
        unknown = (name for name in given if name not in self.fields)
        found += [UnknownName((), problems.unknown(name, names)) for name in unknown]
        vars(self).update(values)
        found += [] if found else [Problem((), text) for text in self.conflicts()]
        if found:
            raise Refused(found)

    def conflicts(self) -> Iterator[str]:
        """Say which values cannot stand together."""
        return iter(())

    def __setattr__(self, name: str, _: Any) -> NoReturn:
        raise AttributeError(f"settings are immutable: {name} cannot be set")

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"{type(self).__name__}({given})"


def by_name(check_key: Check, model: type[Model]) -> Check:
    """Check a mapping of names to models, or JSON text of one."""

    def check(value: Any) -> dict[str, Model]:
        entries: dict[str, Model] = {}
        found: list[Problem] = []
        for name, entry in parsing.mapping(value).items():
            try:
                entries[check_key(name)] = model(**parsing.options(entry))
            except Refused as error:
                found += error.below(str(name))
            except ValueError as error:
                found.append(Problem((str(name),), str(error)))
        if found:
            raise Refused(found)
        return entries

    return check
