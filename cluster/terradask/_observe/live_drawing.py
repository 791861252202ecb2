"""Draw a cluster's live view with rich: in a terminal, and as text and HTML in a notebook."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from terradask._common.pages import html_page
from terradask._common.text_table import duration
from terradask._observe.live_view import DASHBOARD, LiveView
from terradask_host.documents import plain_text
from terradask_stacks.hardware.quantities import bytes_text

#: Lines of a view besides those of its hosts, and the fewest hosts.
_OTHER_LINES, _FEWEST_HOSTS = 20, 3
#: More hosts would push the rest of a notebook out of sight.
_NOTEBOOK_COLUMNS, _NOTEBOOK_HOSTS = 115, 12
_STYLES = {
    "problem": "bold red",
    "running": "green",
    "failed": "bold red",
    "lost": "red",
    "ended": "red",
}
#: The only colours: red and green that are readable on light and dark pages.
_THEME = TerminalTheme(
    (255, 255, 255), (0, 0, 0), [(0, 0, 0), (192, 57, 43), (46, 139, 87), *[(128, 128, 128)] * 5]
)


@dataclass(frozen=True)
class Drawing:
    """A rich renderable of a view: the cluster's facts, groups, reasons of waiting, and as many
    hosts as fit.

    Some text comes from hosts and tasks: it is printed without markup and control characters.
    """

    view: LiveView
    #: Whether to draw notes and facts too, and not only groups, waits and hosts.
    with_facts: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the blocks, with an empty line between them."""
        most = max(options.size.height - _OTHER_LINES, _FEWEST_HOSTS)
        blocks = _blocks(
            self.view.with_hosts(most), with_facts=self.with_facts, cut=options.is_terminal
        )
        for number, block in enumerate(blocks):
            yield from ([Text()] if number else [])
            yield block

    def as_mimebundle(self) -> dict[str, str]:
        """Return the text and HTML for a notebook."""
        console = Console(
            file=io.StringIO(),
            force_jupyter=False,
            force_terminal=False,
            width=_NOTEBOOK_COLUMNS,
            height=_OTHER_LINES + _NOTEBOOK_HOSTS,
        )
        drawn = [*Segment.filter_control(Segment.simplify(console.render(self)))]
        return {
            "text/plain": "".join(segment.text for segment in drawn).rstrip(),
            "text/html": html_page("live_view", pieces=map(_piece, drawn)),
        }


def _piece(segment: Segment) -> tuple[str, str, str | None]:
    """Return a segment's text, its style in CSS and its link."""
    style = segment.style or Style.null()
    return segment.text, style.get_html_style(_THEME), style.link


def _blocks(view: LiveView, *, with_facts: bool, cut: bool) -> Iterator[RenderableType]:
    if with_facts:
        state = view.state if view.verdict is None else view.verdict.text
        facts = [("cluster", f"{view.name}: {state}"), *view.facts]
        yield from ([_text("\n".join(view.notes))] if view.notes else [])
        yield _facts(facts)
    groups = [
        (
            group.name,
            f"{group.instances}/{group.desired}",
            _counts(group.states),
            group.market,
            group.first_type,
        )
        for group in view.groups
    ]
    yield from _table(("group", "hosts", "states", "market", "types"), groups)
    steps = [*filter(None, [view.step]), *(f"waiting: {sentence}" for sentence in view.waits)]
    yield from ([_text("\n".join(steps))] if steps else [])
    yield from ([_facts([("problem", each) for each in view.problems])] if view.problems else [])
    hosts = [
        (
            host.instance_id,
            host.group,
            host.state,
            None if host.seconds is None else duration(host.seconds),
            host.threads,
            None if host.memory_bytes is None else bytes_text(host.memory_bytes),
            host.reason,
        )
        for host in view.hosts
    ]
    heads = ("host", "group", "state", "for", "threads", "memory", "reason")
    yield from _table(heads, hosts, cut=cut)
    if view.hidden:
        yield _text(f"and {sum(view.hidden.values()):,} more: {_counts(view.hidden)}")


def _counts(states: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in states.items())


def _facts(facts: Sequence[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for label, value in facts:
        text = _text(value)
        if label == DASHBOARD:
            text.stylize(Style(link=text.plain))
        # rich before 14.3 adds the padding to a column's least width.
        grid.add_row(_text(f"{label:<10}"), text)
    return grid


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[object]], *, cut: bool = False
) -> Iterator[Table]:
    """Yield a table of the columns with values, if there are any; its last column takes the
    remaining width, and is cut or wrapped.
    """
    used = [at for at in range(len(heads)) if any(row[at] not in (None, "") for row in rows)]
    if not used:
        return
    table = Table(box=None, pad_edge=False)
    for at in used:
        table.add_column(heads[at].upper(), no_wrap=heads[at] not in ("states", "reason"))
    for row in rows:
        cells = [_text("-" if row[at] in (None, "") else str(row[at])) for at in used]
        cells[-1].no_wrap, cells[-1].overflow = cut or None, "ellipsis" if cut else "fold"
        table.add_row(*cells)
    yield table


def _text(text: str) -> Text:
    shown = Text(plain_text(text))
    for word, style in _STYLES.items():
        shown.highlight_regex(rf"\b{word}\b", style)
    return shown
