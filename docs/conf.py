"""Sphinx's settings for the site, of README, docs/, and the pages of examples and of the simulator:
`make docs`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sphinx.application import Sphinx

project = "terradask"
extensions = ["myst_parser"]
# Links use GitHub's names of headings, which shows the same files.
myst_heading_anchors = 6
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/**.md",
    "examples/**.md",
    "simulator/README.md",
    "simulator/docs/**.md",
    "tests/README.md",
    "tests/records/README.md",
]
exclude_patterns = [".*", "**/node_modules", "**/.terradask", "build"]
# Pages of examples and decisions are in their own lists alone: with them the menu is three times
# as long.
suppress_warnings = ["toc.not_included"]

html_theme = "furo"
html_title = "terradask"
html_show_sphinx = False
html_copy_source = False
html_permalinks_icon = "#"

_ROOT = Path(__file__).parents[1]
_PART = re.compile(r"^(?:## )?(For users|For contributors):?$", re.MULTILINE)
#: What contributors read beside the list for them.
_MORE = (
    "/CONTRIBUTING.md",
    "How the tests work </tests/README.md>",
    "/tests/records/README.md",
    "/CHANGELOG.md",
)
_LINK = re.compile(r"^- \[[^]]*\]\((.+\.md)\)", re.MULTILINE)


def setup(app: Sphinx) -> None:
    """Give the first page a menu, and put beside it what its HTML shows."""
    app.connect("source-read", _add_menu)
    app.connect("build-finished", _add_files)


def _add_menu(_app: Sphinx, name: str, source: list[str]) -> None:
    """Add the lists of docs/index.md as the menu of all pages."""
    if name == root_doc:
        parts = _PART.split((_ROOT / "docs/index.md").read_text(encoding="utf-8"))[1:]
        source[0] += _menu(parts[0], parts[1]) + _menu(parts[2], parts[3], _MORE)


def _menu(caption: str, listed: str, more: Sequence[str] = ()) -> str:
    pages = "\n".join([*(f"/docs/{page}" for page in _LINK.findall(listed)), *more])
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def _add_files(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        # Sphinx doesn't follow the pictures of a page's own HTML.
        shutil.copytree(_ROOT / "docs/images", app.outdir / "docs/images", dirs_exist_ok=True)
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")
