"""The demo's figures, ledger, view and picture, without a worker."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("rich", reason="the demo is an extra")

from click.testing import CliRunner
from rich.console import Console

from fairqueue.cli import main
from fairqueue.demo._picture import picture
from fairqueue.demo._starts import FLOOD, SMALL, Run, Start, usual_load
from fairqueue.demo._view import summary, view


def _run(title: str, *, jobs: int = 100, small_wait: float) -> Run:
    load = usual_load(jobs)
    flood = [Start(FLOOD, n, 0.0, n / 100) for n in range(jobs)]
    small = [
        Start(name, n, 1.0, 1.0 + small_wait + n / 1000)
        for name in SMALL
        for n in range(load[name])
    ]
    return Run(title, load, sorted(flood + small, key=lambda start: start.started_at))


def _both(*, jobs: int = 100) -> list[Run]:
    slow, fast = "redis://", "fairqueue://"
    return [_run(slow, jobs=jobs, small_wait=19), _run(fast, jobs=jobs, small_wait=0.1)]


def _report(*runs: Run) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(view(runs), *summary(runs), sep="\n")
    return out.getvalue()


def test_an_incomplete_line_is_read_later() -> None:
    """The ledger is read while tasks write it: no line is lost, and none is read twice."""
    run = Run("redis://", usual_load(100))
    run.read('["ada", 0, 1.0, 2.0]\n["be')
    assert [start.workspace for start in run.starts] == ["ada"]
    run.read('n", 0, 1.0, 4.0]\n')
    assert (run.positions("ben"), run.waits("ben")) == ([2], [3.0])


def test_the_picture_is_one_valid_document_with_both_runs() -> None:
    """It is self-contained XML, with a panel for each run and a dot for each job."""
    text = picture(_both())
    root = ET.fromstring(text)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    labels = {"wait before start (s)", "order of starts, first to last", "19.0 s", "0.1 s", "20"}
    assert {"redis://", "fairqueue://", "ada"} | labels <= set(words)
    dots = [e for e in root.iter("{http://www.w3.org/2000/svg}circle") if e.get("r") == "3.6"]
    assert len(dots) == 2 * 80
    assert "href" not in text


def test_a_run_without_starts_is_shown_too() -> None:
    """The picture and the report are complete even if no job ran."""
    run = Run("redis://", usual_load(100))
    assert any("redis://" in text for text in ET.fromstring(picture([run])).itertext())
    assert "redis://: out of time after 0 of 180 jobs" in _report(run)


def test_the_report_fits_a_terminal_and_has_a_summary() -> None:
    """Both brokers fit into 80 columns, and the last line compares the small workspaces."""
    report = _report(*_both(jobs=2000))
    assert max(map(len, report.splitlines())) <= 80
    assert "…" not in report
    assert "small workspaces: 19.01 s on redis:// → 0.11 s on" in report


def test_an_impossible_path_of_the_picture_is_bad_usage(tmp_path: Path) -> None:
    """The command checks the path before it starts anything."""
    result = CliRunner().invoke(main, ["demo", "--svg", str(tmp_path / "no\x1b[31m" / "x.svg")])
    assert (result.exit_code, "\x1b" in result.output) == (2, False)
    assert "does not exist" in result.output
