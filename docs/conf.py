"""How Sphinx builds the site from these pages: ``make docs``."""

from __future__ import annotations

import re
from importlib.metadata import version as installed

from sphinx.application import Sphinx

import fairqueue_web.fastapi  # noqa: F401 - autodoc sets TYPE_CHECKING, and FastAPI fails then

project = "fairqueue"
author = "The fairqueue maintainers"
release = version = installed("fairqueue")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4

autodoc_typehints = "none"  # the docstrings say what an argument may be
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
add_module_names = False

smartquotes = False  # texts are searched for as they are said

html_theme = "furo"
html_title = f"fairqueue {release}"
html_copy_source = False
html_show_sphinx = False

# Files of the repository that pages link to and that are no pages, and where the site has them.
ELSEWHERE = {
    "CHANGELOG.md": "/reference/changelog.md",
    "CONTRIBUTING.md": "/reference/contributing.md",
    "benchmarks/README.md": "/reference/benchmarks.md",
    "examples/": "/examples.md#",
}
_LINK = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, ELSEWHERE))})([\w-]*)\)")


def lead_to_the_site(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Let links that leave ``docs/``, as they must on a code host, lead to pages of the site."""
    source[0] = _LINK.sub(lambda link: f"]({ELSEWHERE[link[1]]}{link[2]})", source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", lead_to_the_site)
