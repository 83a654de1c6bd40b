"""The pages agree with the code, where a test can check it."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from fairqueue._keys import KINDS
from fairqueue._settings import LIMITS, Settings
from fairqueue._stores.library import MODULES
from tests.pages import PAGES, ROOT, check_command, label


@pytest.mark.parametrize("scope", ["", "workspace", "task", "queue"])
def test_every_setting_has_its_row(scope: str) -> None:
    """The reference has the name, the default and the meaning of each setting, as in the code."""
    page = (ROOT / "docs" / "settings.md").read_text()
    for name, field in (LIMITS[scope] if scope else Settings.model_fields).items():
        default = repr(field.default).replace("'", '"')
        row = f"| `{name}` | `{default}` | {field.description} |"
        assert row in page, row


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link names a file that exists."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


COMMAND = re.compile(r"^ *\$ fairqueue (.*)$", re.MULTILINE)
COMMANDS = sorted({line for page in PAGES for line in COMMAND.findall(page.read_text())})


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_pages_parse(line: str) -> None:
    """Each command in a console block exists and has the options that it is shown with."""
    check_command(shlex.split(line))


def test_the_targets_of_make_exist() -> None:
    """Every ``make`` of a page is one of the Makefile."""
    in_code = re.compile(r"(?:`|\$ )make ([a-z][a-z-]*)")
    named = {word for page in PAGES for word in in_code.findall(page.read_text())}
    assert {"demo", "test", "docs", "bench"} <= named
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named <= made


def test_a_public_ci_runs_the_same_targets() -> None:
    """Its workflows run targets of the Makefile only, and all that make check has."""
    yaml = pytest.importorskip("yaml", reason="the extra 'dev' has it")
    makefile = (ROOT / "Makefile").read_text()
    made = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named: set[str] = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            runs = {step["run"] for step in job["steps"] if "run" in step}
            named |= {run.removeprefix("make ") for run in runs if run.startswith("make ")}
            named |= set(job.get("strategy", {}).get("matrix", {}).get("target", []))
    named.remove('"$TARGET"')
    assert named <= made
    (check,) = re.findall(r"^check: ([a-z -]+?) *##", makefile, re.MULTILINE)
    assert named >= {*check.split(), "test-valkey", "release-check"}


ARCHITECTURE = ROOT / "docs" / "architecture"
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
NAMED = sorted({found for page in PAGES for found in _TEST.findall(page.read_text())})


def _rows(page: Path, heading: str) -> list[list[str]]:
    """Cells of the rows of the tables in one section of a page."""
    text = page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = (line for line in text.splitlines() if line.startswith("| "))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize(("path", "function"), NAMED)
def test_the_named_tests_exist(path: str, function: str) -> None:
    """Every test that a page names exists."""
    source = (ROOT / path).read_text()
    assert not function or f"\ndef {function}(" in source


def test_each_flaw_found_elsewhere_names_its_test() -> None:
    """Every row of that table of docs/guarantees.md names a test that exists."""
    source = (ROOT / "tests" / "contract" / "test_known_flaws.py").read_text()
    rows = _rows(ROOT / "docs" / "guarantees.md", "What went wrong elsewhere")[1:]
    assert len(rows) == 25
    for *_, tests in rows:
        named = re.findall(r"`(test_\w+)`", tests)
        assert named or _TEST.search(tests)
        assert [name for name in named if f"\ndef {name}(" not in source] == []


def test_the_table_of_upstream_issues_names_tests() -> None:
    """There is one for each row at least."""
    page = (ROOT / "docs" / "guarantees.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert len(rows) == 10
    assert all("`tests/" in row for row in rows)


def test_the_law_is_short() -> None:
    """Its pages have at most 12,000 words together."""
    words = (len(page.read_text().split()) for page in ARCHITECTURE.glob("*.md"))
    assert sum(words) <= 12_000


GENERATED = {"endings.md", "fairness.md", "peers.md"}


def test_the_pages_are_few_and_short() -> None:
    """Without the law, and the pages that reports write: 30 pages (stubs apart).

    They have 40,000 words, as ``wc -w`` counts.
    """
    docs = (ROOT / "docs").rglob("*.md")
    pages = [
        page for page in docs if not {page.name, page.parent.name} & {*GENERATED, "architecture"}
    ]
    words = [len(page.read_text().split()) for page in pages]
    assert sum(words) <= 40_000
    assert sum(count > 50 for count in words) <= 30


def test_the_keyspace_table_is_that_of_the_layout() -> None:
    """The page says of each kind of key what _keys.py does; UPDATE_DOCS=1 writes it there."""
    page = ARCHITECTURE / "keys.md"
    before, rest = page.read_text().split("<!-- KINDS -->")
    rows = ["| key | what it holds | when it goes |", "|---|---|---|"]
    for kind, of in KINDS.items():
        key = ":".join([kind, *(f"{{{part}}}" for part in of.parts)])
        rows.append(f"| `{key}` {of.type} | {of.holds} | {of.goes} |")
    table = "\n".join(["", "", *rows, "", ""])
    wanted = f"{before}<!-- KINDS -->{table}<!-- END -->{rest.split('<!-- END -->')[1]}"
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(wanted)
    assert page.read_text() == wanted, "UPDATE_DOCS=1 writes the table"


def test_the_module_table_is_the_order_of_the_modules() -> None:
    """The law lists the Lua modules bottom up, as the library orders them."""
    rows = _rows(ARCHITECTURE / "change.md", "Lua modules")[1:]
    assert tuple(row[0].strip("`") for row in rows) == MODULES


def test_the_page_of_upgrades_has_this_release() -> None:
    """docs/upgrade.md names the format of the keys that this release writes."""
    project = (ROOT / "pyproject.toml").read_text()
    release = re.findall(r'^version = "(.*)"', project, re.MULTILINE)
    base = (ROOT / "fairqueue" / "lua" / "calls" / "base.lua").read_text()
    (written,) = re.findall(r"local FORMAT, META = '(\d+)'", base)
    page = (ROOT / "docs" / "upgrade.md").read_text()
    assert f"| {release[0]} | {written} |" in page


def test_the_first_page_has_the_versions_that_are_tested() -> None:
    """Those of the matrix, which are also those of the package's metadata."""
    environments = re.findall(
        r"-(celery|dramatiq)(\d)(\d+)\b|-(celery|dramatiq)\{([\d,]+)\}", _matrix()
    )
    found: dict[str, set[tuple[int, int]]] = {"celery": set(), "dramatiq": set()}
    for one, major, minor, many, listed in environments:
        versions = [f"{major}{minor}"] if one else listed.split(",")
        found[one or many] |= {(int(text[0]), int(text[1:])) for text in versions}
    (supported,) = re.findall("^Supported: .*", (ROOT / "README.md").read_text(), re.MULTILINE)
    for framework, versions in found.items():
        first, last = (".".join(map(str, end)) for end in (min(versions), max(versions)))
        assert f"{framework.capitalize()} {first} to {last}" in supported
    pythons = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert f"Python {pythons[0]} to {pythons[-1]}" in supported


def _matrix() -> str:
    return (ROOT / "tox.ini").read_text().split("env_list =")[1].split("skip_missing")[0]
