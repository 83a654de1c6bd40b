"""The pages agree with the code where a machine can tell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairqueue._refusals import UNSUPPORTED
from fairqueue._settings import QueueSettings, Settings, WorkspaceSettings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_BUILT = set(UNSUPPORTED)


@pytest.mark.parametrize("model", [Settings, WorkspaceSettings, QueueSettings])
def test_every_setting_has_its_row(model: type[Settings]) -> None:
    """Name, default and meaning of each setting stand in the reference as in the code."""
    page = (ROOT / "docs" / "settings.md").read_text()
    for name, field in model.model_fields.items():
        default = repr(field.get_default(call_default_factory=True)).replace("'", '"')
        row = f"| `{name}` | `{default}` | {field.description} |"
        assert (row in page) == (name not in NOT_BUILT), row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link names a file that exists."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


UPSTREAM = ROOT / "docs" / "upstream.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", UPSTREAM.read_text())))


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_named_tests_exist(path: str, name: str) -> None:
    """Every test that docs/upstream.md names is there."""
    source = (ROOT / path).read_text()
    assert not name or f"\ndef {name}(" in source


def test_the_page_of_upstream_issues_names_tests() -> None:
    """There is one for each row at least."""
    rows = [line for line in UPSTREAM.read_text().splitlines() if line.startswith("| [")]
    assert len(rows) == 10
    assert all("`tests/" in row for row in rows)
