"""The version of a release is in one file; this checks the few that repeat it.

``python requirements/version.py v0.1.0`` ends with 1 where a file has another version than the tag,
or the changelog has no dated section for it; without a tag, where files differ.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Where the version is changed; the distribution, the documents and the hosts read it there.
SOURCE = "host/terradask_host/__init__.py"


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return the version by each place that has it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    simulator = tomllib.loads((root / "simulator/pyproject.toml").read_text(encoding="utf-8"))
    pins = {
        f"pyproject.toml, the extra {extra}": requirement.partition("==")[2]
        for extra, requirements in project["optional-dependencies"].items()
        for requirement in requirements
        if requirement.startswith("terradask-simulator")
    }
    examples = {
        path.relative_to(root).as_posix(): _found("^terradask.*==(.+)$", path.read_text("utf-8"))
        for path in sorted((root / "examples").glob("*/requirements.in"))
    }
    source = (root / SOURCE).read_text(encoding="utf-8")
    recipe = (root / "conda/recipe.yaml").read_text(encoding="utf-8")
    return {
        SOURCE: _found(r'^__version__ = "(.+)"$', source),
        "simulator/pyproject.toml": simulator["project"]["version"],
        **pins,
        "conda/recipe.yaml": _found(r'^  version: "(.+)"$', recipe),
        **examples,
    }


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what differs from the tag, or with an empty one from ``SOURCE``; nothing if all
    agree.
    """
    found = versions(root)
    wanted = tag.removeprefix("v") if tag else found[SOURCE]
    wrong = [f"{place} has {it or 'none'}" for place, it in found.items() if it != wanted]
    if tag and not tag.startswith("v"):
        wrong.append(f"the tag is {tag}, not v{tag}")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if tag and not re.search(
        rf"^## \[{re.escape(wanted)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE
    ):
        wrong.append(f"CHANGELOG.md has no section [{wanted}] with a date")
    return wrong


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""


def main(tag: str = "") -> int:
    """Print what differs, and return the exit code."""
    wrong = problems(tag)
    if wrong:
        sys.stderr.write(f"version: {tag or versions()[SOURCE]} was expected\n")
        sys.stderr.writelines(f"  {each}\n" for each in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
