"""The demo's arithmetic, ledger and picture are right without a worker."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("rich", reason="the demo is an extra")

import redis
from click.testing import CliRunner
from rich.console import Console

from fairqueue.cli import main
from fairqueue.demo import _svg
from fairqueue.demo._emulated import emulated_redis
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


def test_figures_count_places_over_all_workspaces() -> None:
    """A place is counted from 1 among all starts, a wait from order to start."""
    starts = [Start("big", 0, 0.0, 0.0), Start("ada", 0, 0.0, 2.0), Start("big", 1, 0.0, 3.0)]
    found = figures(starts)
    assert (found["ada"].first_place, found["ada"].last_place, found["ada"].p50) == (2, 2, 2.0)
    assert (found["big"].first_place, found["big"].last_place) == (1, 3)


def test_a_half_written_line_is_read_later(tmp_path: Path) -> None:
    """The ledger is read while it is written: no line is lost, none is read twice."""
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    assert ledger.look() == []
    path.write_text('["ada", 0, 1.0, 2.0]\n["be')
    assert len(ledger.look()) == 1
    with path.open("a") as file:
        file.write('n", 0, 1.0, 2.0]\n')
    assert [start.tenant for start in ledger.look()] == ["ada", "ben"]


def test_the_picture_is_one_valid_document_with_both_runs() -> None:
    """It is XML that needs nothing from outside, with a panel and a dot per job for each run."""
    load = usual_load(jobs=100)
    runs = [_run("redis://", load, small_wait=9), _run("fairqueue://", load, small_wait=0.1)]
    text = picture(load, runs)
    root = ET.fromstring(text)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"redis://", "fairqueue://", "wait before start (s)", "ada"} <= set(words)
    dots = [e for e in root.iter("{http://www.w3.org/2000/svg}circle") if e.get("r") == "3.6"]
    assert len(dots) == 2 * 80
    assert "href" not in text


def test_names_are_escaped_in_the_picture() -> None:
    """A name is text, never markup, whatever it holds."""
    load = Load(customers=(Customer("big", 10), Customer(NASTY, 2)))
    root = ET.fromstring(picture(load, [_run("redis://", load, small_wait=1)]))
    words = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any('a<b>&"�' in word for word in words)


def test_a_run_without_starts_is_drawn_too() -> None:
    """A picture comes out even where nothing ran."""
    load = usual_load(jobs=100)
    drawn = ET.fromstring(picture(load, [Run(title="redis://", starts=(), complete=False)]))
    assert any("redis://" in text for text in drawn.itertext())


def test_the_report_fits_a_terminal_and_says_what_it_comes_to() -> None:
    """Eighty columns hold both brokers, and the last line compares the small ones."""
    load = usual_load(jobs=2000)
    runs = [_run("redis://", load, small_wait=19), _run("fairqueue://", load, small_wait=0.1)]
    out = io.StringIO()
    report(Console(file=out, width=80), load, runs)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in out.getvalue()
    assert "small workspaces: 19.01 s on redis:// → 0.11 s on" in out.getvalue()


def test_the_report_tells_of_jobs_that_ran_twice() -> None:
    """A broker that hands a job out twice does not look good in silence."""
    load = usual_load(jobs=100)
    run = _run("redis://", load, small_wait=1)
    out = io.StringIO()
    twice = Run(title=run.title, starts=(*run.starts, run.starts[0]), complete=True)
    report(Console(file=out, width=80), load, [twice])
    assert "redis://: 1 jobs started more than once" in out.getvalue()


@pytest.mark.parametrize(("most", "values"), [(10, [0, 2, 4, 6, 8, 10]), (0.3, [0, 0.1, 0.2, 0.3])])
def test_ticks_are_round(most: float, values: list[float]) -> None:
    """Axes carry round numbers up to their end."""
    assert list(_svg.ticks(most)) == pytest.approx(values)


def test_an_emulation_stands_in_where_there_is_no_server() -> None:
    """Without any server program the demo still has something to talk to."""
    pytest.importorskip("fakeredis", reason="it is installed where there is no server")
    with emulated_redis() as address, redis.Redis.from_url(f"redis://{address}/0") as client:
        assert client.ping()


def test_a_picture_that_cannot_be_kept_is_told_first(tmp_path: Path) -> None:
    """Bad usage, before anything is started."""
    result = CliRunner().invoke(main, ["demo", "--svg", str(tmp_path / "no\x1b[31m" / "x.svg")])
    assert (result.exit_code, "\x1b" in result.output) == (2, False)
    assert "there is no folder" in result.output
