"""docs/metrics.md has every metric as the code has it."""

from __future__ import annotations

from pathlib import Path

from fairqueue.metrics._families import OF_PROCESS, OF_STORE

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_has_every_metric() -> None:
    """In the order of the code, with type, labels and meaning."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `fairqueue_")]
    families = [*OF_STORE, *OF_PROCESS]
    assert rows == [
        f"| `{family.shown}` | {family.kind} | "
        f"{', '.join(f'`{label}`' for label in family.labels) or '–'} | {family.meaning} |"
        for family in families
    ]
