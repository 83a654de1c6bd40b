"""A real Chromium loads each page: no errors, no sideways scrolling, live, and used by keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from urllib.parse import urlencode, urlsplit

import pytest

from fairqueue import FairQueue, Pause, Scope
from fairqueue.dashboard import _pages as pages
from fairqueue.dashboard import app
from tests.dashboard import chromium
from tests.dashboard.busy import busy_queue
from tests.dashboard.chromium import Chromium
from tests.dashboard.serving import served
from tests.pauses import paused

pytestmark = pytest.mark.system

HOSTILE = '<img src=x onerror="alert(1)">'
UNEVEN_ROWS = """[...document.querySelectorAll('table')].flatMap((table) => {
  const seen = (row) => [...row.cells].filter((cell) => cell.offsetParent).length;
  const [head, ...rows] = [...table.rows];
  const shown = (cell) => ['none', 'table-cell'].includes(getComputedStyle(cell).display);
  return rows.filter((row) => seen(row) !== seen(head) || ![...head.cells].every(shown))
    .map((row) => row.innerText);
})"""
"""Rows that show more or fewer cells than the head of their table, or another layout than its."""
WIDTHS = {"desk": (1280, False), "phone": (390, True)}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests of this module."""
    if chromium.PROGRAM is None and not os.environ.get("CI"):
        pytest.skip("no chromium here; CI has one")
    with chromium.opened(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="module")
def busy() -> FairQueue:
    """A queue with some minutes behind it, and a name that would be a script."""
    queue = busy_queue(hour=400)
    for _ in range(2):
        queue.publish(b"<b>x</b>", queue="mail", workspace=HOSTILE, task=HOSTILE)
    for job_id in ("dead", "runs"):
        queue.publish(b"<b>x</b>", queue="apart", workspace=HOSTILE, task=HOSTILE, job_id=job_id)
    queue.reject(queue.claim(["apart"]).leases[0], reason=HOSTILE, details=f"{HOSTILE}\n" * 9)
    queue.claim(["apart"])
    return queue


@pytest.fixture(scope="module")
def site(busy: FairQueue) -> Iterator[str]:
    """Its dashboard."""
    with served(app(busy, allow_anyone=True)) as url:
        yield url


@pytest.fixture(autouse=True)
def _fresh(browser: Chromium) -> None:
    browser.problems.clear()
    browser.dialogs.clear()
    browser.window(1280, 800)


NAME = urlencode({"name": HOSTILE})
PAGES = (
    *("/", "/workspaces", f"/workspace?{NAME}", "/queues", "/running", "/waiting", "/dead"),
    *("/queue?name=mail", "/task?name=render", f"/task?{NAME}"),
    *("/tasks", "/limits", "/limits?scope=default", f"/limits?scope=task&{NAME}", "/pauses"),
    *("/schedules", "/history", "/acts", "/workers", "/doctor", "/sign-in"),
    *("/job?id=dead", "/job?id=runs", "/job?id=unknown"),
    *("/dead?task=render", "/workspaces?filter=none", "/history?outcome=failed", "/waiting?task=x"),
    *("/nowhere", "/find?q=nowhere", "/dead?since=never"),
)
AXE = (files("axe_core_python") / "axe.min.js").read_text()
UNREACHABLE = """[...document.querySelectorAll('a[href], button, input, select, summary')]
  .filter((each) => each.offsetParent && each.type !== 'hidden')
  .filter((each) => { each.focus(); return document.activeElement !== each || each.tabIndex < 0; })
  .map((each) => each.outerHTML)"""
"""What a visitor sees, and cannot reach with the Tab key."""
IN_SIGHT = """(() => { const link = document.querySelector("nav [aria-current='page']");
  const at = link ? link.getBoundingClientRect() : null;
  return !at || (at.left >= 0 && at.right <= innerWidth); })()"""
BARRIERS = """axe.run(document, {resultTypes: ['violations']}).then((found) =>
  found.violations.flatMap((each) => each.nodes.map((node) => each.id + ': ' + node.html)))"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_each_page_loads_cleanly(browser: Chromium, site: str, width: str, dark: bool) -> None:
    """Nothing violates the policy, no name is run, no page is too wide, and axe finds nothing."""
    pixels, phone = WIDTHS[width]
    browser.window(pixels, 800, phone=phone, dark=dark)
    found = set[str]()
    assert set(pages.PAGES) <= {urlsplit(page).path for page in PAGES}, "each route is loaded"
    for page in PAGES:
        browser.load(site + page)
        assert browser.run("document.documentElement.scrollWidth") <= pixels, page
        assert browser.run("document.querySelector('h1').innerText.length") > 0
        assert browser.run(UNEVEN_ROWS) == [], page
        assert browser.run("[...document.images].length") == 0
        assert browser.run(IN_SIGHT), page
        assert browser.run(UNREACHABLE) == [], page
        browser.run(AXE)
        found.update(f"{page} {each}" for each in browser.run(BARRIERS))
    assert not found
    refused = "Failed to load resource: the server responded with a status of 40"
    assert [each for each in browser.problems if not each.startswith(refused)] == []
    assert browser.dialogs == []


def test_a_page_follows_without_a_reload(browser: Chromium, site: str, busy: FairQueue) -> None:
    """What is published while it is open comes to stand in it, and what is typed stays."""
    browser.load(f"{site}/workspace?name=wonka")
    browser.run("window.same = 1; document.querySelector('[name=concurrency]').value = '7'")
    browser.wait("document.getElementById('live-state').classList.contains('on')")
    busy.publish(b"", queue="mail", workspace="wonka", task="brand_new_task")
    browser.wait("document.body.innerText.includes('brand_new_task')")
    assert browser.run("window.same") == 1
    assert browser.run("document.querySelector('[name=concurrency]').value") == "7"
    assert browser.problems == []


def test_a_question_is_asked_before_harm(browser: Chromium, site: str, busy: FairQueue) -> None:
    """A drain rejects what producers publish."""
    browser.load(f"{site}/workspace?name=acme")
    browser.click("form[action='/act/drain'] button")
    assert browser.dialogs == ["Reject new jobs of this workspace until it is resumed?"]
    assert paused(busy)["workspace", "acme"] is Pause.DRAINING
    browser.click("form[action='/act/resume'] button")
    assert ("workspace", "acme") not in paused(busy)


def test_limits_of_a_queue_are_set_by_typing(browser: Chromium, site: str, busy: FairQueue) -> None:
    """From the list of queues to the form and back, by clicks."""
    browser.load(f"{site}/queues")
    browser.click("a[title='Limits of this queue'][href*='default']")
    browser.run("document.querySelector('[name=capacity]').value = '9000'")
    browser.click("form[action='/act/set-limits'] button")
    assert "capacity 9000" in browser.text()
    assert busy.limits.get(Scope.queue("default"))["capacity"].value == 9000


def test_keys_lead_anywhere(browser: Chromium, site: str) -> None:
    """A letter after g opens a page, j and Enter a row, and ? lists the keys."""
    browser.load(f"{site}/")
    browser.press("?")
    assert browser.run("document.getElementById('help').open")
    browser.run("document.getElementById('help').close()")
    browser.press("g")
    browser.follow("w")
    assert browser.run("location.pathname") == "/workspaces"
    browser.press("j")
    name = browser.run("document.querySelector('tr.at a').innerText")
    browser.follow("Enter")
    assert browser.run("document.querySelector('h1').innerText") == name
    browser.press("/")
    assert browser.run("document.activeElement.id") == "find"


def test_light_and_dark(browser: Chromium, site: str) -> None:
    """It follows the system, until a visitor chooses."""
    background = "getComputedStyle(document.body).backgroundColor"
    browser.load(f"{site}/")
    light = browser.run(background)
    browser.window(1280, 800, dark=True)
    dark = browser.run(background)
    assert light != dark
    browser.press("t")
    assert browser.run(background) == light
    browser.load(f"{site}/queues")
    assert browser.run(background) == light
    browser.run("localStorage.clear()")
