"""The groups and pages of the site, which ``docs/index.md`` lists."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

_GROUP = re.compile(r"^## (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"^- \[([^\]]*)\]\(([^)\s]+\.md)\): (.*(?:\n  .*)*)$", re.MULTILINE)


class Entry(NamedTuple):
    """A page in the list of all pages."""

    title: str
    #: From the repository's root.
    path: str
    summary: str


def entries(root: Path) -> dict[str, list[Entry]]:
    """Return the pages that ``docs/index.md`` lists, by their group."""
    parts = _GROUP.split((root / "docs/index.md").read_text(encoding="utf-8"))
    return {
        group: [
            Entry(title, os.path.normpath(f"docs/{path}"), " ".join(summary.split()))
            for title, path, summary in _ENTRY.findall(listed)
        ]
        for group, listed in zip(parts[1::2], parts[2::2], strict=True)
    }


def menu_groups(root: Path) -> dict[str, list[str]]:
    """Return the site's menu: each group's pages, as Sphinx names documents."""
    return {
        group: [f"/{entry.path.removesuffix('.md')}" for entry in listed]
        for group, listed in entries(root).items()
    }
