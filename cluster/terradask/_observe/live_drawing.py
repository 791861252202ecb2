"""Draw a cluster's live view as lines of text, with rich: in a terminal, or as plain text."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from terradask._observe.live_frame import (
    FOLD,
    HOST_HEADS,
    Frame,
    GroupLine,
    Kind,
    Meter,
    Strip,
    frame_of,
)
from terradask._observe.live_view import LiveView

#: Lines of a view besides those of its hosts, and the fewest hosts.
_OTHER_LINES, _FEWEST_HOSTS = 16, 3
_NOTEBOOK_COLUMNS = 100
_STYLES: dict[Kind, str] = {
    "running": "green",
    "coming": "blue",
    "planned": "dim",
    "leaving": "yellow",
    "failed": "bold red",
}
#: Kind -> its square and its mark before a step; and both in ASCII.
_SQUARES: dict[Kind, str] = {
    "running": "■+",
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
#: From so many columns on, bars are longer.
_WIDE = 100
#: A reason gets so many columns, if other columns of hosts can be left out.
_REASON_COLUMNS = 32
_LEFT_OUT = ("memory", "cpu", "for", "group")
_REASON = len(HOST_HEADS) - 1


@dataclass(frozen=True)
class Drawing:
    """A rich renderable of a view.

    Some text comes from hosts and tasks: it is printed without markup and control characters.
    """

    view: LiveView
    most_hosts: int = FOLD

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        most = max(options.size.height - _OTHER_LINES, _FEWEST_HOSTS)
        lines = _Lines(options.max_width, options.ascii_only)
        yield from lines.of(frame_of(self.view, min(self.most_hosts, most)))

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

    def of(self, frame: Frame) -> Iterator[Text]:
        if frame.last is not None:
            yield self._wrapped(frame.last)
            return
        yield from (self._wrapped(note) for note in frame.notes)
        yield self._title(frame)
        if frame.bar is not None:
            yield self._progress(frame.bar)
            yield self._steps(frame)
        if frame.trouble:
            yield self._wrapped(
                frame.trouble, Text(f"{self._sign(_SQUARES['failed'])} ", "bold red")
            )
        yield self._cut(Text(self._plain(frame.now)))
        if frame.ends:
            yield Text(self._plain(frame.ends), "dim", overflow="fold")
        for problem in frame.problems:
            yield self._wrapped(problem, Text("problem: ", "bold red"))
        if frame.groups:
            yield Text()
            yield from self._groups(frame.groups)
        if frame.hosts:
            yield Text()
            yield from self._hosts(frame)
        yield from self._rest(frame)

    # ---- the cluster -----------------------------------------------------------------------------

    def _title(self, frame: Frame) -> Text:
        left = Text.assemble(
            (frame.name, "bold"), "  ", (frame.state, _STYLES[frame.kind]), overflow="ellipsis"
        )
        if frame.age:
            left.append(f" for {frame.age}")
        columns = self.width - len(frame.price) - 2
        left.truncate(max(columns, 10), overflow="ellipsis", pad=columns > 0)
        return self._cut(Text.assemble(left, "  ", frame.price))

    def _progress(self, bar: Meter) -> Text:
        columns = max(self.width - len(bar.text) - 2, _METER_COLUMNS)
        return self._cut(Text.assemble(self._bar(bar.share, columns), "  ", bar.text))

    def _steps(self, frame: Frame) -> Text:
        def line(*, times: bool) -> Text:
            found = Text()
            for step in frame.steps:
                mark = self._sign(_MARKS[step.kind])
                time = f" {step.time}" if times and step.time else ""
                found.append("  " if found else "")
                found.append(f"{mark} {step.name}{time}", _STYLES[step.kind])
            return found

        whole = line(times=True)
        return whole if len(whole) <= self.width else self._cut(line(times=False))

    def _rest(self, frame: Frame) -> Iterator[Text]:
        if not (frame.facts or frame.links):
            return
        yield Text()
        comma = self._plain(" · ")
        facts = comma.join(f"{label} {value}" for label, value in frame.facts)
        yield from ([Text(facts, "dim", overflow="fold")] if facts else [])
        labels = max((len(label) for label, _ in frame.links), default=0)
        for label, address in frame.links:
            # A longer one is cut, and a terminal opens the whole one.
            style = Style(link=address, underline=True)
            yield self._cut(Text.assemble((label.ljust(labels), "bold"), "  ", (address, style)))

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
            for meter, columns in zip(group.meters, texts, strict=False):
                line.append(f"   {meter.label} ")
                line.append(self._bar(meter.share, bar))
                line.append(f" {meter.text.ljust(columns)}")
            rest = f"   {group.hardware}"
            fits = len(line) + len(rest) <= self.width
            yield self._cut(line.append(rest, "dim") if fits else line)
            yield from self._strip(group.strip, "" if fits else rest)

    def _strip(self, strip: Strip, hardware: str) -> Iterator[Text]:
        squares, each = strip.squares((self.width - 2) * _SQUARE_LINES)
        line = Text("  " if squares else "")
        # In many fonts, squares side by side are a bar.
        gap = " " if 2 * sum(number for _, number in squares) <= self.width - 2 else ""
        for kind, number in squares:
            line.append(f"{self._sign(_SQUARES[kind])}{gap}" * number, _STYLES[kind])
        line.rstrip()
        words = [
            Text(f"  {self._sign(_SQUARES[kind])} {text}", _STYLES[kind])
            for kind, text in strip.legend
        ]
        words += [Text(f"  (a square is {each} hosts)", "dim")] if each > 1 else []
        words += [Text(hardware, "dim")] if hardware else []
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
        rows = [host.cells for host in frame.hosts]
        widths = {
            at: max(len(head), *(len(row[at]) for row in rows))
            for at, head in enumerate(HOST_HEADS)
            if any(row[at] for row in rows)
        }
        if _REASON in widths:
            widths[_REASON] = min(widths[_REASON], _REASON_COLUMNS)
        for at in map(HOST_HEADS.index, _LEFT_OUT):
            if sum(widths.values()) + 2 * len(widths) - 2 > self.width:
                widths.pop(at, None)

        def line(cells: Sequence[str], *, style: str = "", state: str = "") -> Text:
            found = Text(style=style)
            for at, width in widths.items():
                found.append("  " if found else "")
                text = cells[at] if at == _REASON else (cells[at] or "-").ljust(width)
                found.append(text, state if HOST_HEADS[at] == "state" else "")
            found.rstrip()
            return self._cut(found)

        yield line([head.upper() for head in HOST_HEADS], style="bold")
        for host in frame.hosts:
            yield line(host.cells, state=_STYLES[host.kind])
        yield from ([self._cut(Text(frame.more))] if frame.more else [])

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

    def _sign(self, pair: str) -> str:
        return pair[1] if self.is_ascii else pair[0]

    def _plain(self, text: str) -> str:
        return text.replace("·", ";") if self.is_ascii else text

    def _cut(self, line: Text) -> Text:
        line.no_wrap, line.overflow = True, "ellipsis"
        return line

    def _wrapped(self, text: str, label: Text | None = None) -> Text:
        return Text.assemble(label or "", text, overflow="fold")
