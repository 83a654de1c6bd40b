"""The page about web frameworks runs as it is written."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from fairqueue_web import FrontDoor
from tests.integrations.web import django_site

django_site.configure()  # a block calls on_commit

PAGE = Path(__file__).parents[3] / "docs" / "web.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_each_example_runs(block: str) -> None:
    """Nothing in it connects before the first request."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, str(PAGE), "exec"), names)
    if "FAIRQUEUE" in names:
        assert set(names["FAIRQUEUE"]) == {"url", "workspace_from"}


def test_the_page_names_every_argument() -> None:
    """Of the front door, but for what is explained before."""
    arguments = set(signature(FrontDoor).parameters) - {"workspace_from", "settings"}
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert rows == arguments
