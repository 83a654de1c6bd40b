"""The site builds without a warning, and every link inside it leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.pages import DOCS, PAGES

pytest.importorskip("sphinx", reason="the site's tools are in the extra 'docs'")
pytestmark = pytest.mark.slow


class _Page(HTMLParser):
    """What one page of the site has: names to link to, and its own links."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.names |= {name for name in (of.get("id"), of.get("name")) if name}
        self.links += [link for link in (of.get("href"), of.get("src")) if link]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as ``make docs`` builds it."""
    out = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(out / ".doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(DOCS), str(out / "html")],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


def _dead_links(site: Path) -> Iterator[str]:
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[to].names if to in pages else set()
            if not to.exists() or (parts.fragment and unquote(parts.fragment) not in known):
                yield f"{path.relative_to(site)}: {link}"


def test_its_links_lead_somewhere(site: Path) -> None:
    """It builds without a warning, and each link and anchor of its own pages exists."""
    assert sorted(set(_dead_links(site))) == []


def test_every_page_is_in_it(site: Path) -> None:
    """No page of docs/ is left out."""
    pages = [page.relative_to(DOCS) for page in PAGES if page.is_relative_to(DOCS)]
    assert [page for page in pages if not (site / page).with_suffix(".html").exists()] == []


def test_the_reference_has_every_public_name(site: Path) -> None:
    """What users import is in the reference, from its docstring."""
    import fairqueue  # noqa: PLC0415
    import fairqueue_celery  # noqa: PLC0415
    import fairqueue_dramatiq  # noqa: PLC0415
    import fairqueue_web  # noqa: PLC0415

    names = _Page(site / "reference" / "api.html").names
    for module in (fairqueue, fairqueue_celery, fairqueue_dramatiq, fairqueue_web):
        for name in module.__all__:
            own = f"{module.__name__}.{name}"
            places = (own, f"module-{own}", f"fairqueue.errors.{name}")
            assert names & set(places), places
