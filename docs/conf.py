"""Sphinx's settings for the site, of README, docs/, and the pages of examples and of the simulator:
`make docs`.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import assistants
from site_menu import menu_groups

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
    "tests/*.md",
    "tests/records/*.md",
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
html_static_path = ["_static"]
html_css_files = ["site.css"]

_ROOT = Path(__file__).parents[1]
#: A picture with a dark twin, as GitHub shows it: by the system's colours.
_PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*'
    r'<img src="([^"]+)"([^>]*?)/?>\s*</picture>'
)
#: A page's own picture, as Sphinx copies it.
_IMAGE = re.compile(r'<img ([^>]*?)src="((?:\.\./)*)_images/([^"]+)\.(png|svg)"([^>]*?)/?>')


def setup(app: Sphinx) -> None:
    """Give the first page a menu, and put beside it what its HTML shows."""
    app.connect("source-read", _add_menu)
    app.connect("html-page-context", _follow_theme)
    app.connect("build-finished", _add_files)


def _add_menu(_app: Sphinx, name: str, source: list[str]) -> None:
    """Add the lists of docs/index.md as the menu of all pages."""
    if name == root_doc:
        source[0] += "".join(
            f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
            for caption, pages in menu_groups(_ROOT).items()
        )


def _follow_theme(
    _app: Sphinx, _name: str, _template: str, context: dict[str, object], _doctree: object
) -> None:
    """Let pictures follow the site's own switch of light and dark."""
    if isinstance(body := context.get("body"), str):
        context["body"] = with_dark_twins(body, _ROOT / "docs/images")


def with_dark_twins(body: str, images: Path) -> str:
    """Return a page with two of each picture that has a dark twin; the theme hides one."""

    def both(match: re.Match[str]) -> str:
        before, up, name, suffix, after = match.groups()
        if not (images / f"{name}-dark.{suffix}").exists():
            return match[0]
        dark = f"{up}docs/images/{name}-dark.{suffix}"
        light = f"{up}_images/{name}.{suffix}"
        return "".join(
            f'<img class="only-{theme}" {before}src="{source}"{after}>'
            for theme, source in (("dark", dark), ("light", light))
        )

    body = _PICTURE.sub(
        r'<img class="only-dark" src="\1"\3><img class="only-light" src="\2"\3>', body
    )
    return _IMAGE.sub(both, body)


def _add_files(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        # Sphinx doesn't follow the pictures of a page's own HTML.
        shutil.copytree(_ROOT / "docs/images", app.outdir / "docs/images", dirs_exist_ok=True)
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")
        # The page's link has an address that changes with the content.
        shutil.copy(_ROOT / "docs/report.schema.json", app.outdir / "docs")
        assistants.write(_ROOT, Path(app.outdir))
