"""Draw a cluster's live view as HTML, for notebooks with light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from terradask._common.pages import html_page
from terradask._observe.live_frame import FOLD, HOST_HEADS, Frame, GroupLine, Kind, Strip, frame_of
from terradask._observe.live_view import LiveView

#: A cell of a square and its gap; a square is two units smaller.
_CELL = 10
#: Most squares, those in a row, and pixels of a cell: of a few hosts, and of many.
_MOST_SQUARES, _FEW = 2_000, 200
_FEW_IN_ROW, _MANY_IN_ROW = 50, 60
_FEW_PIXELS, _MANY_PIXELS = 12, 8
#: Heights in pixels, as in the template.
_LINE, _GAP, _MARGIN, _ROW, _REASON, _BORDER = 20, 8, 4, 23, 22, 22
#: Least width of a page's content in pixels, and about the letters in its lines.
_WIDTHS = ((840, 118), (720, 101), (600, 84), (480, 67), (380, 53), (340, 47), (0, 40))
#: Below the first width, reasons are below their hosts; below the second, fewer columns are shown.
_NARROW, _NARROWEST = 840, 560
#: Letters of a host's other columns.
_BESIDE = 60
#: Groups and hosts whose height is reserved, and the letters of lines that come later.
_GROUPS, _HOSTS = 2, 2
_STEPS, _NOW, _ENDS, _FACTS = (74, 95), 65, 85, 165
#: Pixels of a letter, and letters that bars and gaps take.
_LETTER = 7
_STEP, _BAR, _METER = 4, 32, 20

#: Columns of hosts that keep their place while they are empty.
_ALWAYS = ("host", "group", "state", "for")

#: Kind -> the strokes that make its square: their middles, heights and dashes.
_HOLLOW = ((5.0, 6.0, "1 6 1 2"),)
_STROKES: dict[Kind, tuple[tuple[float, float, str], ...]] = {
    "running": ((5.0, 8.0, "8 2"),),
    # Filled from below as they come nearer to running.
    "starting": (*_HOLLOW, (5.75, 4.5, "0 1 6 3")),
    "installing": (*_HOLLOW, (6.5, 3.0, "0 1 6 3")),
    "booting": (*_HOLLOW, (7.25, 1.5, "0 1 6 3")),
    "coming": (*_HOLLOW, (5.0, 4.0, "0 2 4 4")),
    "planned": _HOLLOW,
    "leaving": (*_HOLLOW, (5.0, 8.0, "4 6")),
}

#: Pixels of a view by width, as `_WIDTHS`.
Heights = tuple[int, ...]


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


def page_of(view: LiveView, *, least: Heights = (), is_whole: bool = False, below: str = "") -> str:
    """Return a view's HTML, in which all text is escaped.

    `least` are its least heights. A whole page shows all hosts, folded after some, and HTML
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
        heights=[
            (width, pixels)
            for (width, _), pixels in zip(_WIDTHS, least, strict=False)
            if frame.last is None
        ],
        narrow=_NARROW,
        narrowest=_NARROWEST,
        is_whole=is_whole,
        below=below,
    )


def heights_of(view: LiveView) -> Heights:
    """Return about the pixels of a view, with what is going to be there."""
    frame = frame_of(view)
    squares = [_squares(group.strip) for group in frame.groups]
    hosts = max(min(sum(group.desired for group in view.groups), FOLD), len(frame.hosts), _HOSTS)
    return tuple(
        _height(frame, squares, hosts, columns, is_narrow=width < _NARROW)
        for width, columns in _WIDTHS
    )


def higher(first: Heights, second: Heights) -> Heights:
    """Return the greater heights."""
    return tuple(map(max, first, second)) if first else second


def _height(
    frame: Frame, squares: Sequence[_Squares], hosts: int, columns: int, *, is_narrow: bool
) -> int:
    def lines(*letters: int) -> int:
        return sum(-(-each // columns) for each in letters)

    def group_height(group: GroupLine, image: _Squares) -> int:
        states = len(group.strip.text) + _STEP * len(group.strip.legend)
        head = len(group.name) + len(group.count) + len(group.hardware) + _STEP
        # Bars come once there are workers.
        head += sum(_METER + len(meter.text) for meter in group.meters) or 2 * _METER
        if not image.rows:
            return _GAP + lines(head + states) * _LINE
        beside = image.columns * image.pixels // _LETTER + states
        pixels = image.rows * image.pixels + _MARGIN
        is_beside = image.rows == 1 and beside <= columns
        strip = _LINE if is_beside else pixels + lines(states) * _LINE
        return _GAP + lines(head) * _LINE + strip

    title = f"{frame.name} {frame.state} for {frame.age}   {frame.price}"
    links = sum(len(label) + 3 for label, _ in frame.links) or 30
    making = sum(len(step.name) + len(step.time) + _STEP for step in frame.steps)
    bar = 0 if frame.bar is None else _BAR + len(frame.bar.text)
    texts = [frame.trouble, *frame.notes, *frame.problems]
    facts = sum(len(label) + len(value) + 3 for label, value in frame.facts)
    reasons = [len(host.cells[-1]) for host in frame.hosts if host.cells[-1]]
    left = columns if is_narrow else columns - _BESIDE
    under = sum(-(-each // left) for each in reasons) - (0 if is_narrow else len(reasons))
    return (
        lines(len(title) + links + _STEP, *map(len, texts)) * _LINE
        + max(
            lines(*_STEPS, _NOW),
            lines(bar, making, len(frame.now)),
            lines(len(frame.now) or 1, len(frame.ends) or _ENDS),
        )
        * _LINE
        + sum(map(group_height, frame.groups, squares))
        + max(_GROUPS - len(frame.groups), 0) * (_LINE + _GAP)
        + (hosts + 1 + bool(frame.more)) * _ROW
        + under * _REASON
        + lines(max(facts, _FACTS) + len(frame.seen)) * _LINE
        + 2 * _GAP
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

    for middle, height, dashes in _STROKES[kind]:
        yield _Stroke(kind, line(middle), height, dashes)
    if kind != "running":
        yield _Stroke(kind, line(1.5) + line(8.5), 1.0, "8 2")
