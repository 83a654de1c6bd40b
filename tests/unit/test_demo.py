"""The demo's figures, ledger and picture, without a worker."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("rich", reason="the demo is an extra")

from click.testing import CliRunner
from rich.console import Console

from fairqueue.cli import main
from fairqueue.demo import _svg
from fairqueue.demo._figures import figures, percentile
from fairqueue.demo._ledger import Ledger, Start
from fairqueue.demo._load import Customer, Load, usual_load
from fairqueue.demo._picture import picture
from fairqueue.demo._report import report
from fairqueue.demo._run import Run

NASTY = 'a<b>&"\x1b[31m'


def _run(title: str, load: Load, *, small_wait: float) -> Run:
    flood = [Start(load.big, n, 0.0, n / 100) for n in range(load.customers[0].jobs)]
    small = [
        Start(customer.name, n, 1.0, 1.0 + small_wait + n / 1000)
        for customer in load.customers[1:]
        for n in range(customer.jobs)
    ]
    starts = sorted(flood + small, key=lambda start: start.started_at)
    return Run(title=title, starts=tuple(starts), complete=True)


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (0.0, 1), (1.0, 100)])
def test_percentiles_are_by_nearest_rank(share: float, value: int) -> None:
    """Of 1 to 100, p50 is 50 and p99 is 99."""
    assert percentile([float(n) for n in range(1, 101)], share) == value


def test_figures_count_positions_over_all_workspaces() -> None:
    """Positions count from 1 over all starts, and a wait lasts from the order to the start."""
    starts = [Start("big", 0, 0.0, 0.0), Start("ada", 0, 0.0, 2.0), Start("big", 1, 0.0, 3.0)]
    found = figures(starts)
    assert (found["ada"].first_position, found["ada"].last_position, found["ada"].p50) == (
        2,
        2,
        2.0,
    )
    assert (found["big"].first_position, found["big"].last_position) == (1, 3)


def test_an_incomplete_line_is_read_later(tmp_path: Path) -> None:
    """The ledger is read while tasks write it: no line is lost, and none is read twice."""
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    assert ledger.read() == []
    path.write_text('["ada", 0, 1.0, 2.0]\n["be')
    assert len(ledger.read()) == 1
    with path.open("a") as file:
        file.write('n", 0, 1.0, 2.0]\n')
    assert [start.workspace for start in ledger.read()] == ["ada", "ben"]


def test_the_picture_is_one_valid_document_with_both_runs() -> None:
    """It is self-contained XML, with a panel for each run and a dot for each job."""
    load = usual_load(jobs=100)
    runs = [_run("redis://", load, small_wait=9), _run("fairqueue://", load, small_wait=0.1)]
    text = picture(load, runs)
    root = ET.fromstring(text)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    labels = {"wait before start (s)", "order of starts, first to last"}
    assert {"redis://", "fairqueue://", "ada"} | labels <= set(words)
    dots = [e for e in root.iter("{http://www.w3.org/2000/svg}circle") if e.get("r") == "3.6"]
    assert len(dots) == 2 * 80
    assert "href" not in text


def test_names_are_escaped_in_the_picture() -> None:
    """A name is text and never markup, whatever it contains."""
    load = Load(customers=(Customer("big", 10), Customer(NASTY, 2)))
    root = ET.fromstring(picture(load, [_run("redis://", load, small_wait=1)]))
    words = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any('a<b>&"�' in word for word in words)


def test_a_run_without_starts_is_drawn_too() -> None:
    """The picture is complete even if no job ran."""
    load = usual_load(jobs=100)
    drawn = ET.fromstring(picture(load, [Run(title="redis://", starts=(), complete=False)]))
    assert any("redis://" in text for text in drawn.itertext())


def test_the_report_fits_a_terminal_and_has_a_summary() -> None:
    """Both brokers fit into 80 columns, and the last line compares the small workspaces."""
    load = usual_load(jobs=2000)
    runs = [_run("redis://", load, small_wait=19), _run("fairqueue://", load, small_wait=0.1)]
    out = io.StringIO()
    report(Console(file=out, width=80), load, runs)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in out.getvalue()
    assert "small workspaces: 19.01 s on redis:// → 0.11 s on" in out.getvalue()


def test_the_report_shows_jobs_that_ran_twice() -> None:
    """If a broker delivers a job twice, the report says so."""
    load = usual_load(jobs=100)
    run = _run("redis://", load, small_wait=1)
    out = io.StringIO()
    twice = Run(title=run.title, starts=(*run.starts, run.starts[0]), complete=True)
    report(Console(file=out, width=80), load, [twice])
    assert "redis://: 1 jobs started more than once" in out.getvalue()


@pytest.mark.parametrize(("most", "values"), [(10, [0, 2, 4, 6, 8, 10]), (0.3, [0, 0.1, 0.2, 0.3])])
def test_ticks_are_round(most: float, values: list[float]) -> None:
    """The ticks of an axis are round numbers up to its end."""
    assert list(_svg.ticks(most)) == pytest.approx(values)


def test_an_impossible_path_of_the_picture_is_bad_usage(tmp_path: Path) -> None:
    """The command checks the path before it starts anything."""
    result = CliRunner().invoke(main, ["demo", "--svg", str(tmp_path / "no\x1b[31m" / "x.svg")])
    assert (result.exit_code, "\x1b" in result.output) == (2, False)
    assert "does not exist" in result.output
