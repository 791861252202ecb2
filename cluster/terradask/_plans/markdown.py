"""Markdown with escaped content: code, tables, folds, and a page cut to a limit. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from terradask_host.documents import plain_text

#: What Markdown, or a code host afterwards, makes something of: markup; money, which GitLab takes
#: for a snippet or a formula, and its signs of labels, milestones and epics; mentions, numbers of
#: issues, links, emoji, and additions and deletions in brackets.
_MEANT = re.compile(
    r"(?P<markup>[<>|`*\\]|(?<!\w)_|_(?!\w))"
    r"|(?P<sign>[$\[]|[!&](?=\d)|[%~](?=[\w\"~]))"
    r"|(?P<apart>[@#]|:(?=//)|(?<![\w:]):(?=[\w+-]+:)|(?<=[\[{])[+-]|(?<=\bG[HL])-(?=\d)|(?<=\bwww)\.)"
    r"|(?P<rest>&)",
    re.IGNORECASE,
)
#: The same in code as HTML, whose text Markdown still reads.
_MEANT_IN_CODE = re.compile(r"[&<>|`*\\\[\]$~:!]|(?<!\w)_|_(?!\w)|(?<=\bwww)\.", re.IGNORECASE)
_NAMES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
#: Nothing that is seen: what would follow a sign no longer does.
_APART = "\u200b"

#: Characters that end inline code, a line or a table's cell, or that it trims.
_NOT_IN_CODE = frozenset("`|\n\r")


@dataclass(frozen=True)
class Section:
    """A part of a page that may be shortened."""

    name: str
    #: Its priority: the lowest number is kept longest.
    rank: int
    #: `head`, `tail`: the text around the blocks; without blocks there is no section.
    head: str
    #: Its content in blocks, each kept or left out entirely.
    blocks: Sequence[str]
    #: The noun for the blocks, in the line about missing ones.
    what: str
    tail: str = ""


def fitted(sections: Iterable[Section], room: int) -> str:
    """Return sections in order, the least important ones cut to fit a number of characters."""
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


def fold(summary: str, rank: int, blocks: Sequence[str], *, name: str, what: str) -> Section:
    """Return a section that is closed at first; its summary is HTML."""
    head = f"\n<details><summary>{summary}</summary>\n\n"
    return Section(name, rank, head, blocks, what, tail="\n</details>\n")


def fence(lines: Iterable[str], language: str = "") -> str:
    """Return lines as a block of code that they can't end."""
    inner = "".join(f"{fenced(line)}\n" for line in lines)
    return f"```{language}\n{inner}```\n"


def small(text: str) -> str:
    """Return Markdown in small letters."""
    return f"<sub>{text}</sub>"


def escaped(text: str) -> str:
    """Return text escaped for Markdown: it creates no tag, table cell, link, formula or mention."""
    return _MEANT.sub(_inert, _one_line(text))


def _inert(found: re.Match[str]) -> str:
    sign = found[0]
    match found.lastgroup:
        case "sign":
            return f"\\{sign}"
        case "apart":
            return f"{sign}{_APART}" if sign in "@#:" else f"{_APART}{sign}"
    return _entity(sign)


def _entity(sign: str) -> str:
    return _NAMES.get(sign, f"&#{ord(sign)};")


def _one_line(text: str) -> str:
    return plain_text(text.replace("\r", " ")).replace("\n", " ")


def code(text: str) -> str:
    """Return text as inline code, for Markdown; as HTML if it has a backtick."""
    if not text.strip() or _NOT_IN_CODE & set(text):
        return html_code(text)
    return f"`{plain_text(text)}`"


def prose(text: str) -> str:
    """Return text escaped for Markdown, with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escaped(text)
    return "".join(code(part) if at % 2 else escaped(part) for at, part in enumerate(parts))


def html_code(text: str) -> str:
    """Return text as inline code, for HTML such as a fold's summary."""
    inert = _MEANT_IN_CODE.sub(lambda found: _entity(found[0]), _one_line(text))
    # An address becomes a link from what the entity means.
    return f"<code>{inert.replace('@', f'@{_APART}')}</code>"


def fenced(text: str) -> str:
    """Return a line that can't end a fenced block."""
    return plain_text(text).replace("\n", " ").replace("```", "``\u200b`")
