"""What assistants read: ``llms.txt``, a list of the pages, and all of them as one Markdown text."""

from __future__ import annotations

import os
import re
from pathlib import Path

from site_menu import entries

_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_HEADING = re.compile(r"^(#+ )", re.MULTILINE)
_CODE = re.compile(r"^( *```.*?^ *```)", re.MULTILINE | re.DOTALL)
_SOURCE = re.compile(r"\n<!--.*?-->", re.DOTALL)
#: Contributors read these in the repository.
_LEFT_OUT = "For contributors"


def write(root: Path, folder: Path) -> None:
    """Write both into the folder of the site."""
    (folder / "llms.txt").write_text(overview(root), encoding="utf-8")
    (folder / "llms-full.txt").write_text(whole(root), encoding="utf-8")


def overview(root: Path) -> str:
    """Return ``llms.txt``: what terradask is, and its pages, as the site has them."""
    parts = [
        "# terradask\n",
        "> Dask clusters in your own AWS account, as Terraform you can review.\n",
        "`llms-full.txt`, beside this file, has the README and these pages in one Markdown text.\n",
    ]
    for group, listed in entries(root).items():
        lines = [f"- [{e.title}]({_page(e.path)}): {e.summary}" for e in listed]
        parts.append(f"## {'Optional' if group == _LEFT_OUT else group}\n\n" + "\n".join(lines))
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def whole(root: Path) -> str:
    """Return the README and the pages for users as one text, each under its path."""
    listed = [e for group, of in entries(root).items() if group != _LEFT_OUT for e in of]
    paths = ["README.md", "docs/index.md", *(entry.path for entry in listed)]
    return "\n\n".join(_part(root, path) for path in paths) + "\n"


def _part(root: Path, path: str) -> str:
    """Return a page one level lower, with links from the repository's root, without comments."""
    folder = Path(path).parent

    def link(match: re.Match[str]) -> str:
        if "://" in match[2]:
            return match[0]
        return f"{match[1]}{os.path.normpath(folder / match[2])}{match[3] or ''})"

    text = _SOURCE.sub("", (root / path).read_text(encoding="utf-8"))
    # A `#` in code begins a comment.
    pieces = _CODE.split(text)
    pieces[::2] = [_LINK.sub(link, _HEADING.sub(r"#\1", piece)) for piece in pieces[::2]]
    return f"<!-- {path} -->\n\n" + "".join(pieces).strip()


def _page(path: str) -> str:
    return path.removesuffix(".md") + ".html"
