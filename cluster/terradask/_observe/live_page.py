"""Draw a cluster's live view as HTML, for notebooks with light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from terradask._common.pages import html_page
from terradask._observe.live_frame import FOLD, HOST_HEADS, Kind, Strip, frame_of
from terradask._observe.live_view import LiveView

#: A cell of a square and its gap; a square is two units smaller.
_CELL = 10
#: Most squares, those in a row, and pixels of a cell: of a few hosts, and of many.
_MOST_SQUARES, _FEW = 2_000, 200
_FEW_IN_ROW, _MANY_IN_ROW = 50, 100
_FEW_PIXELS, _MANY_PIXELS = 12, 8
#: Heights in pixels, as in the template.
_LINE, _GROUP, _ROW, _BORDER = 20, 54, 23, 22
#: Lines of the cluster itself, groups and hosts whose height is reserved.
_LINES, _GROUPS, _HOSTS = 6, 2, 2

#: Columns of hosts that keep their place while they are empty.
_ALWAYS = ("host", "group", "state", "for")

#: Kind -> the strokes that make its square: their height and dashes.
_HOLLOW = ((6.0, "1 6 1 2"),)
_STROKES: dict[Kind, tuple[tuple[float, str], ...]] = {
    "running": ((8.0, "8 2"),),
    "coming": (*_HOLLOW, (4.0, "0 2 4 4")),
    "planned": _HOLLOW,
    "leaving": (*_HOLLOW, (8.0, "4 6")),
}


@dataclass(frozen=True)
class _Stroke:
    kind: Kind
    path: str
    width: float
    dashes: str


@dataclass(frozen=True)
class _Squares:
    """The squares of a group, as strokes of an image."""

    strokes: tuple[_Stroke, ...]
    columns: int
    rows: int
    pixels: int
    #: Number of hosts of each.
    each: int


def page_of(
    view: LiveView, *, least_pixels: int = 0, is_whole: bool = False, below: str = ""
) -> str:
    """Return a view's HTML, in which all text is escaped.

    `least_pixels` is its least height. A whole page shows all hosts, folded after some, and HTML
    `below`.
    """
    frame = frame_of(view, None if is_whole else FOLD)
    return html_page(
        "live_view",
        frame=frame,
        squares=[_squares(group.strip) for group in frame.groups],
        cell=_CELL,
        heads=HOST_HEADS,
        used=[
            at
            for at, head in enumerate(HOST_HEADS)
            if head in _ALWAYS or any(host.cells[at] for host in frame.hosts)
        ],
        parts=[frame.hosts[:FOLD], frame.hosts[FOLD:]],
        least_pixels=0 if frame.last is not None else least_pixels,
        is_whole=is_whole,
        below=below,
    )


def height_of(view: LiveView) -> int:
    """Return about the pixels of a view, with the hosts that are going to be there."""
    frame = frame_of(view)
    squares = [_squares(group.strip) for group in frame.groups]
    hosts = max(min(sum(group.desired for group in view.groups), FOLD), len(frame.hosts), _HOSTS)
    return (
        (_LINES + len(frame.notes) + len(frame.problems) + bool(frame.trouble)) * _LINE
        + max(len(frame.groups), _GROUPS) * _GROUP
        + sum(each.rows * each.pixels for each in squares)
        + (hosts + 1 + bool(frame.more)) * _ROW
        + _BORDER
    )


def _squares(strip: Strip) -> _Squares:
    shown, each = strip.squares(_MOST_SQUARES)
    total = sum(number for _, number in shown)
    columns, pixels = (_FEW_IN_ROW, _FEW_PIXELS) if total <= _FEW else (_MANY_IN_ROW, _MANY_PIXELS)
    strokes: list[_Stroke] = []
    first = 0
    for kind, number in shown:
        strokes += _strokes(kind, list(_runs(first, first + number, columns)))
        first += number
    return _Squares(tuple(strokes), min(columns, total), -(-total // columns), pixels, each)


def _runs(first: int, end: int, columns: int) -> Iterator[tuple[int, int, int]]:
    """Yield row, column and length of the parts of a run of squares."""
    while first < end:
        row, column = divmod(first, columns)
        length = min(end - first, columns - column)
        yield row, column, length
        first += length


def _strokes(kind: Kind, runs: list[tuple[int, int, int]]) -> Iterator[_Stroke]:
    """Yield the strokes of squares. Dashes begin anew at each part of a path, so that a row of
    squares is one line.
    """
    if kind == "failed":
        crosses = (
            f"M{_CELL * (column + at)} {_CELL * row + 1}l8 8m0 -8l-8 8"
            for row, column, length in runs
            for at in range(length)
        )
        yield _Stroke(kind, "".join(crosses), 2.5, "none")
        return

    def line(y: float) -> str:
        parts = (
            f"M{_CELL * column} {_CELL * row + y:g}h{_CELL * length - 2}"
            for row, column, length in runs
        )
        return "".join(parts)

    for height, dashes in _STROKES[kind]:
        yield _Stroke(kind, line(5), height, dashes)
    if kind != "running":
        yield _Stroke(kind, line(1.5) + line(8.5), 1.0, "8 2")
