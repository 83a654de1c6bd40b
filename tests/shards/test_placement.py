"""On which shard a workspace lives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fairqueue._shards.placement import shard_of, shard_of_fence

NAMES = [f"workspace-{n}" for n in range(20_000)]


def test_the_shard_of_a_name_never_changes() -> None:
    """Processes of all releases agree on it: these numbers stand for ever."""
    placed = [shard_of(name, 8) for name in ("ada", "bob", "", "ärzte", "x" * 200)]
    assert placed == [6, 7, 5, 5, 4]
    assert [shard_of(name, 1) for name in NAMES[:100]] == [0] * 100


@pytest.mark.parametrize("shards", [2, 3, 8, 64])
def test_shards_have_equal_parts(shards: int) -> None:
    """None has a fifth more workspaces than its part, but for chance."""
    counts = Counter(shard_of(name, shards) for name in NAMES)
    part = len(NAMES) / shards
    assert set(counts) == set(range(shards))
    assert all(abs(n - part) < max(0.05 * part, 5 * part**0.5) for n in counts.values())


@pytest.mark.parametrize("shards", [2, 8, 64])
def test_few_workspaces_are_spread_unevenly(shards: int) -> None:
    """As the page about more than one Redis says."""
    told = []
    for n in (10, 100, 1000, 10_000):
        fullest = max(Counter(shard_of(name, shards) for name in NAMES[:n]).values())
        told.append(f"{fullest * shards / n:.2f}")
    page = Path("docs/operate/shards.md").read_text()
    assert f"| {shards} | {' | '.join(told)} |" in page


def test_one_more_shard_moves_only_what_goes_there() -> None:
    """A ninth of the workspaces goes to the ninth shard, and the others stay."""
    moved = [name for name in NAMES if shard_of(name, 8) != shard_of(name, 9)]
    assert {shard_of(name, 9) for name in moved} == {8}
    assert abs(len(moved) - len(NAMES) / 9) < 300


def test_a_fence_names_its_shard() -> None:
    """It is what the fence leaves when it is divided by 64."""
    assert [shard_of_fence(fence) for fence in (64, 65, 127, 1795434889669184 + 7)] == [0, 1, 63, 7]
