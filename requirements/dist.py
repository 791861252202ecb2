"""Build what a release publishes, and check it as an index does.

``python requirements/dist.py FOLDER`` writes the source archives and wheels of terradask and the
embedded AWS. The same sources give the same bytes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from markdown_it import MarkdownIt
from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
PROJECTS = (ROOT, ROOT / "simulator")


class _Links(HTMLParser):
    """Collects what a page leads to and shows."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [
            value for name, value in attrs if value and name in ("href", "src", "srcset")
        ]


def relative_links(markdown: str) -> list[str]:
    """Return links and pictures of a text that lead to files beside it."""
    page = _Links()
    page.feed(MarkdownIt("commonmark").enable("table").render(markdown))
    return [to for to in page.targets if not to.startswith(("https://", "http://", "#"))]


def metadata(file: Path) -> Metadata:
    """Return the metadata of a wheel or a source archive.

    Raises
    ------
    packaging.metadata.InvalidMetadata
        An index would refuse it.
    """
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
            content = wheel.read(name)
    else:
        with tarfile.open(file) as archive:
            found = archive.extractfile(f"{file.name.removesuffix('.tar.gz')}/PKG-INFO")
            content = found.read() if found else b""
    return Metadata.from_email(content, validate=True)


def problems(file: Path) -> list[str]:
    """Return why an index would refuse a file, or show it with dead links."""
    try:
        found = metadata(file)
    except ExceptionGroup as refused:
        return [f"{file.name}: {each}" for each in refused.exceptions]
    if not found.description:
        return [f"{file.name}: no description"]
    return [f"{file.name}: a link to {to}" for to in relative_links(found.description)]


def build(folder: Path, projects: Sequence[Path] = PROJECTS) -> list[Path]:
    """Build source archives and wheels into a folder, and return them, sorted by name."""
    for project in projects:
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder.resolve())]
        # It writes what it builds to standard error.
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"dist: {project} can't be built:\n{done.stderr}")
    return sorted(folder.iterdir())


def main(folder: str) -> int:
    """Build, print each file with its SHA-256, and return the exit code."""
    files = build(Path(folder))
    for file in files:
        print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}")
    wrong = [each for file in files for each in problems(file)]
    sys.stderr.writelines(f"dist: {each}\n" for each in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
