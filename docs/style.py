"""Check the repository's texts for the words and phrases of ``style.toml``.

``python docs/style.py`` prints the rules that are broken; ``python docs/style.py RULE`` prints
every place of a rule; ``python docs/style.py --spelled`` prints the paths that codespell checks.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = (
    *("*.md", "docs/*.md", "examples/**/*.md", "simulator/**/*.md"),
    *("tests/README.md", "tests/records/README.md"),
)
CODE = ("modules", "stacks", "cluster", "host", "simulator/terradask_simulator")
#: Paths that codespell checks, without the modules of the tests, which misspell on purpose.
SPELLED = (*PAGES, "docs/decisions", "examples", "benchmarks", *CODE)

# Generated parts of pages are checked in the code. Sources of claims, code blocks, code names and
# link targets aren't text.
_GENERATED = r"<!-- generated: .*?<!-- end of generated -->|<!-- Made by .*\Z"
_SOURCE = r"<!-- AWS \(.*?-->"
_BLOCK = r"^ *```.*?^ *```|^ *~~~.*?^ *~~~"
_NOT_TEXT = re.compile(
    rf"{_GENERATED}|{_SOURCE}|{_BLOCK}|`[^`]+`|\]\([^)\s]*\)", re.MULTILINE | re.DOTALL
)
_SHOWN = 20
# What a space of a pattern matches: also a line break, in a comment or between two strings.
_SPACE = r"""(?:\s+(?:\#:?\s+)?|\s*["']\s+f?["'])"""


class Rule(NamedTuple):
    """A rule of ``style.toml``, with the number of places that are left."""

    name: str
    pattern: str
    instead: str
    left: Mapping[str, int]

    def places(self, texts: Mapping[str, str]) -> Iterator[str]:
        """Yield each place of the rule, as file, line and the words there."""
        for where, text in texts.items():
            for match in _expression(self.pattern).finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                words = " ".join(match[0].split())
                yield f"{where}:{line}: {words!r}"


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"(?<!\[) ", lambda _: _SPACE, pattern))


def rules() -> list[Rule]:
    """Return the rules of ``style.toml``."""
    tables = tomllib.loads((ROOT / "docs/style.toml").read_text(encoding="utf-8"))
    return [
        Rule(name, of["pattern"], of["instead"], {"pages": of["pages"], "code": of["code"]})
        for table in tables.values()
        for name, of in table.items()
    ]


def pages(top: Path = ROOT) -> dict[str, str]:
    """Return the hand-written text of each page."""
    found = sorted(path for pattern in PAGES for path in top.glob(pattern))
    return {path.relative_to(top).as_posix(): prose(path.read_text("utf-8")) for path in found}


def code(top: Path = ROOT) -> dict[str, str]:
    """Return the source of each module of the product."""
    found = sorted(path for folder in CODE for path in (top / folder).rglob("*.py"))
    wanted = [
        path for path in found if not {"tests", "node_modules"} & {*path.relative_to(top).parts}
    ]
    return {path.relative_to(top).as_posix(): path.read_text("utf-8") for path in wanted}


def prose(page: str) -> str:
    """Return a page with everything but its text blanked; lines keep their numbers."""
    return _NOT_TEXT.sub(lambda match: re.sub(r"[^\n]", "#", match[0]), page)


def broken(checked: Iterable[Rule], **texts: Mapping[str, str]) -> list[str]:
    """Return each rule with more places than its number allows, and the places."""
    found = []
    for rule in checked:
        for kind, of in texts.items():
            places, allowed = list(rule.places(of)), rule.left[kind]
            if len(places) > allowed:
                found.append(
                    f"{rule.name}: {len(places)} in {kind}, allowed {allowed}; write {rule.instead}"
                )
                found += places[:_SHOWN]
                if len(places) > _SHOWN:
                    found.append(f"... python docs/style.py {rule.name} shows all")
    return found


def lowered(checked: Iterable[Rule], **texts: Mapping[str, str]) -> list[str]:
    """Return the numbers of ``style.toml`` that are higher than needed, with the new ones."""
    return [
        f"{rule.name}: lower {kind} to {count} in docs/style.toml"
        for rule in checked
        for kind, of in texts.items()
        if (count := len(list(rule.places(of)))) < rule.left[kind]
    ]


def main(names: list[str]) -> int:
    """Print what the arguments ask for; return the exit code."""
    if names == ["--spelled"]:
        paths = (path for pattern in SPELLED for path in ROOT.glob(pattern))
        print(*sorted(path.relative_to(ROOT).as_posix() for path in paths), sep="\n")
        return 0
    texts = {"pages": pages(), "code": code()}
    chosen = [rule for rule in rules() if rule.name in names or not names]
    if names:
        print(
            *(each for of in texts.values() for rule in chosen for each in rule.places(of)),
            sep="\n",
        )
        return 0
    found = broken(chosen, **texts)
    print("\n".join([*lowered(chosen, **texts), *found]) or "style: no findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
