"""Draw a cluster's live view as lines of text, with rich: in a terminal, or as plain text."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from terradask._observe.live_frame import (
    BETWEEN,
    FOLD,
    HOST_HEADS,
    Frame,
    GroupLine,
    HostLine,
    Kind,
    Meter,
    frame_of,
)
from terradask._observe.live_view import LiveView

#: The fewest hosts, however low a terminal.
_FEWEST_HOSTS = 3
_NOTEBOOK_COLUMNS = 100
#: Colours of signs and bars. Words have the terminal's own colour: on some background, any other
#: one is hard to read.
_STYLES: dict[Kind, str] = {
    "running": "green",
    "starting": "blue",
    "installing": "blue",
    "booting": "blue",
    "coming": "blue",
    "planned": "",
    "leaving": "yellow",
    "failed": "bold red",
}
#: Kind -> its square and its mark before a step; and both in ASCII.
_SQUARES: dict[Kind, str] = {
    "running": "■+",
    "starting": "▆s",
    "installing": "▄i",
    "booting": "▂b",
    "coming": "▪o",
    "planned": "□-",
    "leaving": "▫<",
    "failed": "✗x",
}
_MARKS: dict[Kind, str] = {"running": "✓+", "coming": "▸>", "planned": "·.", "failed": "✗x"}
_FULL, _EMPTY = "━#", "─-"
#: Squares fill so many lines at most.
_SQUARE_LINES = 2
_METER_COLUMNS = 10
_GAP = "   "
#: From so many columns on, bars are longer; and so many hold what belongs together.
_WIDE, _WIDEST = 100, 120
#: Columns of hosts that are left out first, if there is no place.
_LEFT_OUT = ("memory", "cpu", "for", "group")
_STATE, _REASON = HOST_HEADS.index("state"), HOST_HEADS.index("reason")
#: Reasons of hosts that are whole, on lines of their own.
_WHOLE_REASONS = 3


@dataclass(frozen=True)
class Drawing:
    """A rich renderable of a view.

    Some text comes from hosts and tasks: it is printed without markup and control characters.
    """

    view: LiveView
    most_hosts: int = FOLD

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, of fewer hosts if the terminal is lower."""
        lines = self._lines(self.most_hosts, console, options)
        too_many = len(lines) - (options.size.height - 1)
        if too_many > 0:
            most = max(self.most_hosts - too_many, _FEWEST_HOSTS)
            lines = self._lines(most, console, options)
        for line in lines:
            yield from line
            yield Segment.line()

    def _lines(
        self, most_hosts: int, console: Console, options: ConsoleOptions
    ) -> list[list[Segment]]:
        # Only then does rich write links.
        has_links = console.color_system is not None and not options.legacy_windows
        lines = _Lines(options.max_width, options.ascii_only, has_links)
        texts = lines.of(frame_of(self.view, most_hosts))
        return console.render_lines(Group(*texts), options, pad=False)

    def as_text(self) -> str:
        """Return the lines without styles, for a notebook's text."""
        console = Console(
            file=io.StringIO(), force_terminal=False, width=_NOTEBOOK_COLUMNS, height=100
        )
        drawn = Segment.filter_control(console.render(self))
        text = "".join(segment.text for segment in drawn)
        return "\n".join(line.rstrip() for line in text.splitlines()).strip()


@dataclass(eq=False)
class Steady:
    """Draws views at the height of the highest one so far, so that what is below stays in place."""

    _height: int = field(default=0, init=False)
    _drawing: Drawing | None = field(default=None, init=False)

    def show(self, view: LiveView) -> Steady:
        """Draw this view from now on."""
        self._drawing = Drawing(view)
        return self

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, and empty ones."""
        if self._drawing is None:
            return
        lines = console.render_lines(self._drawing, options, pad=False)
        self._height = min(max(self._height, len(lines)), options.size.height - 1)
        for line in [*lines, *[[] for _ in range(self._height - len(lines))]]:
            yield from line
            yield Segment.line()


@dataclass(frozen=True)
class _Lines:
    """Lays out a frame in lines of a width."""

    width: int
    is_ascii: bool
    has_links: bool

    def of(self, frame: Frame) -> Iterator[Text]:
        if frame.last is not None:
            yield self._wrapped(frame.last)
            return
        yield from (self._wrapped(note) for note in frame.notes)
        yield from self._title(frame)
        if frame.bar is not None:
            yield from self._progress(frame.bar)
            yield self._steps(frame)
        if frame.trouble:
            line = self._named("failed", frame.trouble)
            line.stylize("bold", 2)
            yield self._wrapped(line)
        for problem in frame.problems:
            line = self._named("failed", f"problem: {problem}")
            line.stylize("bold", 2, len("x problem:"))
            yield self._wrapped(line)
        for text in filter(None, [frame.now, frame.ends]):
            yield from self._packed(map(self._plain, text.split(BETWEEN)))
        if frame.groups:
            yield Text()
            yield from self._groups(frame.groups)
        if frame.hosts:
            yield Text()
            yield from self._hosts(frame)
        yield from self._rest(frame)

    # ---- the cluster -----------------------------------------------------------------------------

    @property
    def _together(self) -> int:
        return min(self.width, _WIDEST)

    def _title(self, frame: Frame) -> Iterator[Text]:
        left = Text.assemble((frame.name, "bold"), "  ", overflow="fold")
        left.append_text(self._named(frame.kind, frame.state))
        if frame.age:
            left.append(f" for {frame.age}")
        columns = self._together - len(frame.price) - 2
        if left.cell_len <= columns:
            left.truncate(columns, pad=True)
            yield Text.assemble(left, "  ", frame.price)
        else:
            yield from filter(None, (left, self._wrapped(frame.price)))

    def _progress(self, bar: Meter) -> Iterator[Text]:
        columns = self._together - len(bar.text) - 2
        if columns >= _METER_COLUMNS:
            yield Text.assemble(self._bar(bar.share, columns), "  ", bar.text)
        else:
            yield from (self._bar(bar.share, self._together), self._wrapped(bar.text))

    def _steps(self, frame: Frame) -> Text:
        def line(timed: Sequence[Kind]) -> Text:
            found = Text()
            for step in frame.steps:
                mark = self._sign(_MARKS[step.kind])
                time = f" {step.time}" if step.kind in timed and step.time else ""
                found.append("  " if found else "")
                found.append(mark, _STYLES[step.kind])
                found.append(f" {step.name}{time}", "bold" if step.kind == "coming" else "")
            return found

        # Without a place for all times, the present step's is worth the most.
        whole, short = line(tuple(_MARKS)), line(("coming", "failed"))
        if len(whole) <= self.width:
            return whole
        return short if len(short) <= self.width else self._wrapped(line(()))

    def _rest(self, frame: Frame) -> Iterator[Text]:
        if not (frame.facts or frame.links):
            return
        yield Text()
        facts = [f"{label} {value}" for label, value in frame.facts]
        if facts:
            yield from self._packed(map(self._plain, filter(None, [*facts, frame.seen])))
        labels = max((len(label) for label, _ in frame.links), default=0)
        for label, address in frame.links:
            style = Style(link=address, underline=True)
            line = Text.assemble((label.ljust(labels), "bold"), "  ", (address, style))
            # A terminal opens the whole address of a link that is cut.
            yield self._cut(line) if self.has_links else self._wrapped(line)

    # ---- groups and hosts ------------------------------------------------------------------------

    def _groups(self, groups: Sequence[GroupLine]) -> Iterator[Text]:
        names = max(len(group.name) for group in groups)
        counts = max(len(group.count) for group in groups)
        texts = [
            max(
                (len(each.text) for group in groups for each in group.meters[at : at + 1]),
                default=0,
            )
            for at in range(2)
        ]
        bar = _METER_COLUMNS if self.width >= _WIDE else _METER_COLUMNS * 3 // 5
        for group in groups:
            line = Text.assemble((group.name.ljust(names), "bold"), "  ", group.count.ljust(counts))
            meters = [
                self._meter(meter, bar, columns)
                for meter, columns in zip(group.meters, texts, strict=False)
            ]
            whole = Text(_GAP).join([line, *meters])
            if meters and len(whole) > self.width:
                yield self._cut(line)
                *above, whole = self._packed(meters, _GAP, indent="  ")
                yield from above
            line = whole
            squares, each = group.strip.squares((self.width - 2) * _SQUARE_LINES)
            words = [Text("  ") + self._named(kind, text) for kind, text in group.strip.legend]
            words += [Text(f"  (a square is {each} hosts)")] if each > 1 else []
            rest = Text(f"   {group.hardware}")
            if len(line) + len(rest) <= self.width:
                line.append_text(rest)
            else:
                words.append(rest)
            if not squares and len(line) + sum(map(len, words)) + 1 <= self.width:
                yield Text.assemble(line, " ", *words)
                continue
            yield self._cut(line)
            yield from self._strip(squares, words)

    def _meter(self, meter: Meter, bar: int, columns: int) -> Text:
        line, left = Text(f"{meter.label} "), self.width - len(f"  {meter.label}  {meter.text}")
        # A shorter bar is either empty or full.
        if left > 1:
            line.append_text(self._bar(meter.share, min(bar, left))).append(" ")
        return line.append(meter.text.ljust(columns))

    def _strip(self, squares: Sequence[tuple[Kind, int]], words: Sequence[Text]) -> Iterator[Text]:
        """Yield lines of squares and of the words on them."""
        line = Text("  " if squares else "")
        # In many fonts, squares side by side are a bar.
        gap = " " if 2 * sum(number for _, number in squares) <= self.width - 2 else ""
        for kind, number in squares:
            line.append(f"{self._sign(_SQUARES[kind])}{gap}" * number, _STYLES[kind])
        line.rstrip()
        if len(line) + sum(map(len, words)) > self.width:
            number = self.width - 2
            for at in range(2, len(line), number):
                yield Text.assemble("  ", line[at : at + number])
            line = Text()
        for word in words:
            if line and len(line) + len(word) > self.width:
                yield line
                line = Text()
            line.append(word)
        yield self._cut(line)

    def _hosts(self, frame: Frame) -> Iterator[Text]:
        rows = [self._cells(host) for host in frame.hosts]
        heads = [Text(head.upper()) for head in HOST_HEADS]
        widths = {
            at: max(len(row[at]) for row in [heads, *rows])
            for at in range(len(HOST_HEADS))
            if any(host.cells[at] for host in frame.hosts)
        }
        # A reason without a place gets its own lines: the rest of a host still helps.
        needed = widths.pop(_REASON, 0)
        for at in map(HOST_HEADS.index, _LEFT_OUT):
            if sum(widths.values()) + 2 * len(widths) - 2 > self.width:
                widths.pop(at, None)
        is_beside = sum(widths.values()) + 2 * len(widths) + needed <= self.width
        if needed and is_beside:
            widths[_REASON] = needed

        def line(cells: Sequence[Text], style: str = "") -> Text:
            found = Text(style=style)
            for at, width in widths.items():
                cell = cells[at].copy()
                cell.pad_right(width - len(cell))
                found.append("  " if found else "").append_text(cell)
            found.rstrip()
            return self._cut(found)

        yield line(heads, "bold")
        whole: set[str] = set()
        for host, cells in zip(frame.hosts, rows, strict=True):
            row, reason = line(cells, "dim" if host.is_repeated else ""), host.cells[_REASON]
            if is_beside or not reason:
                yield row
            elif reason in whole or len(whole) == _WHOLE_REASONS:
                yield row.append(f"  {reason}")
            else:
                whole.add(reason)
                yield row
                yield from (Text(f"  {part}") for part in textwrap.wrap(reason, self.width - 2))
        yield from ([self._cut(Text(frame.more))] if frame.more else [])

    def _cells(self, host: HostLine) -> list[Text]:
        cells = [Text(cell or "-") for cell in host.cells]
        cells[_STATE] = self._named(host.kind, host.cells[_STATE])
        cells[_REASON] = Text(host.cells[_REASON])
        return cells

    # ---- parts -----------------------------------------------------------------------------------

    def _bar(self, share: float | None, columns: int) -> Text:
        full = round((share or 0.0) * columns)
        # Only all of it is a full bar, and only nothing an empty one.
        full = columns - 1 if full == columns and (share or 0.0) < 1 else full
        full = 1 if not full and share else full
        return Text.assemble(
            (self._sign(_FULL) * full, _STYLES["running"]),
            (self._sign(_EMPTY) * (columns - full), "dim"),
        )

    def _named(self, kind: Kind, text: str) -> Text:
        """Return a state's sign and its word."""
        return Text.assemble((self._sign(_SQUARES[kind]), _STYLES[kind]), f" {text}")

    def _sign(self, pair: str) -> str:
        return pair[1] if self.is_ascii else pair[0]

    def _plain(self, text: str) -> str:
        return text.replace("·", ";") if self.is_ascii else text

    def _packed(
        self, parts: Iterable[str | Text], between: str = BETWEEN, *, indent: str = ""
    ) -> Iterator[Text]:
        """Yield lines of whole parts; only a part that is longer than a line is broken."""
        line = Text()
        for part in parts:
            added = Text.assemble(self._plain(between) if line else indent, part)
            if line and line.cell_len + added.cell_len > self.width:
                yield self._wrapped(line)
                line, added = Text(), Text.assemble(indent, part)
            line.append_text(added)
        yield self._wrapped(line)

    def _cut(self, line: Text) -> Text:
        line.no_wrap, line.overflow = True, "ellipsis"
        return line

    def _wrapped(self, text: str | Text) -> Text:
        return Text.assemble(text, overflow="fold")
