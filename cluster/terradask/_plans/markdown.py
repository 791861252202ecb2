"""Write Markdown with safely escaped content, cut to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    order = sorted(range(len(sections)), key=lambda index: sections[index].rank)
    # A line for every section, in case it is left out.
    notes = {
        index: _missing(sections[index], len(sections[index].blocks), whole=True)
        for index in order
        if sections[index].blocks
    }
    left = room - sum(map(len, notes.values()))
    texts: dict[int, str] = {}
    for index, note in ((index, notes[index]) for index in order if index in notes):
        text = _cut(sections[index], left + len(note))
        texts[index] = text or note
        left += len(note) - len(texts[index])
    page = "".join(texts[index] for index in range(len(sections)) if index in texts)
    return page if len(page) <= room else ""


def _cut(section: Section, room: int) -> str:
    """Return a section with as many blocks as fit; empty if none fits."""
    whole = section.head + "".join(section.blocks) + section.tail
    if len(whole) <= room:
        return whole
    used = len(section.head) + len(section.tail) + len(_missing(section, len(section.blocks)))
    kept = 0
    for block in section.blocks:
        if used + len(block) > room:
            break
        used += len(block)
        kept += 1
    if not kept:
        return ""
    return (
        section.head
        + "".join(section.blocks[:kept])
        + section.tail
        + _missing(section, len(section.blocks) - kept)
    )


def _missing(section: Section, number: int, *, whole: bool = False) -> str:
    more = "" if whole else "more "
    return (
        f"\n… left out for length: {section.name}, {number} {more}{section.what}; report.json "
        "has them.\n"
    )


def row(cells: Sequence[str]) -> str:
    """Return a row of a table, from cells that are Markdown already."""
    return f"| {' | '.join(cells)} |\n"


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
