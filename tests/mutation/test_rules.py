"""The list of mutations stays true to the Lua that it breaks."""

from __future__ import annotations

from fairqueue._stores.library import read_source
from tests.mutation.__main__ import NEAREST
from tests.mutation.rules import mutations


def test_each_rule_stands_once_in_its_file() -> None:
    """A rule that has moved or changed is found, so that no mutation becomes the law itself."""
    wrong = []
    for mutation in mutations():
        try:
            assert mutation.applied(read_source(mutation.file)) != read_source(mutation.file)
        except AssertionError as error:
            wrong.append(f"{error}")
    assert wrong == []
    names = [mutation.broken for mutation in mutations()]
    assert len(names) > 100
    assert len(set(names)) == len(names)
    assert {mutation.file for mutation in mutations()} <= NEAREST.keys()
