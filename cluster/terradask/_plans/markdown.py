"""Write Markdown with safely escaped content, cut to a limit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from terradask_host.documents import plain_text

_ESCAPES = (
    ("&", "&amp;"),
    ("<", "&lt;"),
    (">", "&gt;"),
    ("#", "#\u200b"),
    ("|", "\\|"),
    ("\n", " "),
    ("@", "@\u200b"),
    ("`", "&#96;"),
    ("*", "&#42;"),
    ("](", "]\u200b("),
    ("~~", "~\u200b~"),
    ("://", ":\u200b//"),
)


@dataclass(frozen=True)
class Section:
    """A part of a page that may be shortened."""

    name: str
    #: Its importance: the section with the lowest number is kept longest.
    rank: int
    #: `head`, `tail`: the text around the blocks; without blocks there is no section.
    head: str
    #: Its content, in blocks that are each kept whole or left out.
    blocks: Sequence[str]
    #: What the blocks are, for the line with the number of missing ones.
    what: str
    tail: str = ""


def fitted(sections: Sequence[Section], room: int) -> str:
    """Return sections in their order, the least important cut to fit a number of characters."""
    sections = [section for section in sections if section.blocks]
    # First a line for every section, in case it is left out.
    texts = [_missing(section, len(section.blocks), whole=True) for section in sections]
    left = room - sum(map(len, texts))
    for at in sorted(range(len(sections)), key=lambda at: sections[at].rank):
        note = texts[at]
        texts[at] = _cut(sections[at], left + len(note)) or note
        left += len(note) - len(texts[at])
    page = "".join(texts)
    return page if len(page) <= room else ""


def _cut(section: Section, room: int) -> str:
    """Return a section with as many blocks as fit; empty if none fits."""
    around = len(section.head) + len(section.tail)
    ends = list(accumulate(map(len, section.blocks)))
    kept, note = len(ends), ""
    if around + ends[-1] > room:
        kept = bisect_right(ends, room - around - len(_missing(section, len(ends))))
        note = _missing(section, len(ends) - kept)
    return section.head + "".join(section.blocks[:kept]) + section.tail + note if kept else ""


def _missing(section: Section, number: int, *, whole: bool = False) -> str:
    more = "" if whole else "more "
    return (
        f"\n… left out for length: {section.name}, {number} {more}{section.what}; report.json "
        "has them.\n"
    )


def table(heads: Sequence[str], rows: Sequence[str] = ()) -> str:
    """Return a table, or the start of one, from rows and column names that are Markdown already."""
    named = row(heads).replace("  ", " ")
    return f"{named}|{'---|' * len(heads)}\n{''.join(rows)}"


def row(cells: Sequence[str]) -> str:
    """Return a row of a table, from cells that are Markdown already."""
    return f"| {' | '.join(cells)} |\n"


def small(text: str) -> str:
    """Return Markdown in small letters."""
    return f"<sub>{text}</sub>"


def escaped(text: str) -> str:
    """Return text escaped for Markdown: it creates no tag, table cell, link or mention."""
    text = plain_text(text.replace("\r", " "))
    for old, new in _ESCAPES:
        text = text.replace(old, new)
    return text


def code(text: str) -> str:
    """Return text as inline code: as HTML, so that backticks do no harm."""
    return f"<code>{escaped(text)}</code>"


def fenced(text: str) -> str:
    """Return text that can't end a fenced block."""
    return plain_text(text).replace("```", "``\u200b`")
