"""The simulation of many masters: it agrees with what is known, and its page and picture hold."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("greenlet", reason="simulated processes are greenlets")

from tests.scale.prices import Measured, Prices, price_of_claim
from tests.scale.report import BEGIN, END, main
from tests.scale.scenarios import Load, Scenario, held, spread

MICROS = {
    "publish": 40.0, "wait and unblock": 20.0, "stands": 60.0, "renew 8": 150.0,
    "empty, alone": 120.0, "claim 1, alone": 130.0, "both 1, alone": 160.0,
    "claim 8, alone": 380.0, "both 8, alone": 560.0,
    "empty, told": 130.0, "claim 1, told": 140.0, "both 1, told": 170.0,
    "claim 8, told": 400.0, "both 8, told": 600.0,
}  # fmt: skip
FEW = Measured(10, {kind: each / 1e6 for kind, each in MICROS.items()})
PRICES = Prices((FEW,), client=0.0001)
FULL = Load(1, 100, warm=0.02, seconds=0.03)
DOCS = Path(__file__).parents[2] / "docs"


def test_a_full_master_carries_what_its_time_allows() -> None:
    """All its time is spent, and a job costs a publish and about an eighth of a claim."""
    found = Scenario(FULL, PRICES).play()
    assert found.mean_busy == pytest.approx(1.0, abs=0.02)
    assert 1 / 170e-6 < found.rate < 1 / 110e-6


def test_it_is_the_same_in_each_run() -> None:
    """With the same seed."""
    load = replace(FULL, masters=2)
    first, again = (Scenario(load, PRICES, seed=3).play() for _ in range(2))
    assert (first.jobs, first.calls, first.busy) == (again.jobs, again.calls, again.busy)


def test_two_masters_carry_nearly_twice_as_much() -> None:
    """With many workspaces."""
    one, two = (Scenario(replace(FULL, masters=n), PRICES).play() for n in (1, 2))
    assert 1.6 < two.rate / one.rate < 2.1


def test_the_fullest_shard_decides_in_the_long_run() -> None:
    """Four of ten workspaces live on one of four shards."""
    found = Scenario(replace(FULL, masters=4, workspaces=10), PRICES).play()
    assert found.evenness == pytest.approx(10 / 4 / 4)
    assert found.lasting == pytest.approx(found.rate * 10 / 16)


def test_a_wait_grows_with_the_shards() -> None:
    """A woken process ends its waits on all of them."""
    load = Load(1, 100, rate=200.0, processes=2, seconds=0.2)
    one, four = (Scenario(replace(load, masters=n), PRICES).play() for n in (1, 4))
    assert 0.0003 < one.wait(0.5) < 0.002
    assert one.wait(0.5) < four.wait(0.5)


def test_a_price_follows_the_number_of_workspaces() -> None:
    """Between what was measured and beyond it, and never falls where there are many."""
    more = [replace(FEW, workspaces=n, server={"publish": s}) for n, s in ((10, 1.0), (1000, 2.0))]
    most = replace(FEW, workspaces=100_000, server={"publish": 3.0})
    prices = Prices((*more, most), client=0.0, plain=2.0)
    assert [prices.at(n)["publish"] for n in (1, 100, 10_000, 10_000_000)] == [1.0, 1.5, 2.5, 4.0]
    assert prices.scaled(1.0).at(1000)["publish"] == pytest.approx(1.0)


def test_a_claim_costs_what_it_ends_and_leases() -> None:
    """Between one and eight by a line."""
    of = FEW.server
    assert price_of_claim(of, 8, 8, told=True) == pytest.approx(600e-6)
    assert price_of_claim(of, 0, 0, told=False) == pytest.approx(120e-6)
    assert price_of_claim(of, 1, 1, told=True) == pytest.approx(170e-6)


@pytest.mark.parametrize("workspaces", [10, 1_000, 10_000_000])
def test_those_held_are_as_uneven_as_all(workspaces: int) -> None:
    """Though they are few of many."""
    counts = spread(workspaces, 8, seed=1)
    assert sum(counts) == pytest.approx(workspaces, rel=0.01)
    assert len(held(counts, workspaces)) == pytest.approx(min(workspaces, 2048), abs=8)


@pytest.mark.usefixtures("redis_server")
def test_the_short_form_writes_the_page_and_the_picture(tmp_path: Path) -> None:
    """From a measurement on a real server; the picture stands alone."""
    (tmp_path / "production.md").write_text(f"a\n{BEGIN}\nold\n{END}\nb\n")
    main(["--short", "--into", str(tmp_path)])
    text, drawn = (tmp_path / name for name in ("operate/scale.md", "scale.svg"))
    assert "| 2 | " in text.read_text()
    told = (tmp_path / "production.md").read_text()
    assert told.startswith(f"a\n{BEGIN}\n| servers")
    assert told.endswith(f" |\n{END}\nb\n")
    ET.fromstring(drawn.read_text())
    assert not re.search(r"href|url\(|<script|nan", drawn.read_text())


def test_the_page_in_the_docs_covers_the_range() -> None:
    """From one master to 64, and to ten million workspaces."""
    text = (DOCS / "operate" / "scale.md").read_text()
    assert "10,000,000 workspaces" in text
    assert all(f"\n| {masters} | " in text for masters in (1, 2, 4, 8, 16, 32, 64))
