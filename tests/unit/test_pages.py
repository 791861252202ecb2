"""The shape of pages: what a page gives comes first, each has one name, and together they are no
longer than a reader bears.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .public_surface import docs_page

ROOT = Path(__file__).parents[2]
#: README and the pages, generated ones included, without decisions.
MOST_WORDS = 75_000
FIRST_WORDS = range(6, 61)
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("simulator/*.md"),
        *ROOT.glob("simulator/docs/*.md"),
        *ROOT.glob("tests/*.md"),
        *ROOT.glob("tests/records/*.md"),
        ROOT / "docs/decisions/README.md",
    ]
)
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end of generated -->|<!-- Made by .*\Z", re.S)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.S)
_CODE = re.compile(r"^ *```.*?^ *```", re.S | re.M)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+\.md)\)")
#: A list's entry, or a table's row, for a page.
_ENTRY = re.compile(r"^(?:- |\| )\[([^\]]*)\]\(([^)\s#]+\.md)\)(?:: | \||\\\n)", re.M)
#: What begins another block than a paragraph.
_NO_PARAGRAPH = re.compile(r"\||```|<|#|[-*] |\d+\. ")


def title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def first_block(page: str) -> str:
    return _COMMENT.sub("", page).partition("\n")[2].strip().partition("\n\n")[0]


def problem_of(block: str) -> str:
    """Return what is wrong with a page's first block."""
    if _NO_PARAGRAPH.match(block):
        return f"begins with {block.split(maxsplit=1)[0]}"
    count = len(block.split())
    return "" if count in FIRST_WORDS else f"{count} words"


def words(page: str) -> int:
    """Count the words of a page, without bars of tables, arrows and other signs."""
    return sum(bool(re.search(r"\w", word)) for word in page.replace("|", " ").split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_what_it_gives(page: Path) -> None:
    assert problem_of(first_block(page.read_text(encoding="utf-8"))) == ""


def test_other_beginnings_are_found() -> None:
    assert problem_of("| setting | what |\n| --- | --- |") == "begins with |"
    assert problem_of("- **one**: and two") == "begins with -"
    assert problem_of("Short.") == "1 words"
    assert problem_of("word " * 61) == "61 words"


def test_lists_and_tables_name_pages_by_their_titles() -> None:
    """The site's menu shows titles."""
    others = []
    for page in PAGES:
        text = _CODE.sub("", _GENERATED.sub("", page.read_text(encoding="utf-8")))
        for shown, target in _ENTRY.findall(text):
            name = title(Path(os.path.normpath(page.parent / target)))
            if shown != name and not re.fullmatch(r"\d{3}", shown):
                others.append(f"{page.relative_to(ROOT)}: [{shown}] is {name}")
    assert others == []


def test_links_have_texts_and_not_files_names() -> None:
    bare = [
        f"{page.relative_to(ROOT)}: [{shown}]"
        for page in PAGES
        for shown, _ in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
        if re.fullmatch(r"(?i)\S+\.md|here|more|how|this page|the page", shown)
    ]
    assert bare == []


def test_every_page_is_in_the_menu_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    listed = [
        entry.path for group in docs_page("site_menu").entries(ROOT).values() for entry in group
    ]
    assert len(listed) == len(set(listed))
    pages = {f"docs/{page.name}" for page in ROOT.glob("docs/*.md")}
    assert pages - set(listed) == {"docs/index.md"}


def test_the_pages_are_no_longer_than_a_reader_bears() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    counted = {page.name: words(page.read_text(encoding="utf-8")) for page in pages}
    assert sum(counted.values()) <= MOST_WORDS, sorted(counted.items(), key=lambda one: -one[1])


def test_what_counts_as_a_word() -> None:
    assert words("| a | → b |\n| --- | :-: |\n") == 2
    generated = "<!-- generated: x -->\n| c |\n<!-- end of generated -->"
    assert words(generated) == words("generated: x c end of generated")
