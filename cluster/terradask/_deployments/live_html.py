"""A cluster's live view as HTML for notebooks: text of hosts and tasks is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from terradask._common.text_table import duration
from terradask._deployments.live_text import counts, steps
from terradask._deployments.live_view import DASHBOARD, GroupRow, HostRow, LiveView
from terradask_stacks.hardware.quantities import bytes_text

#: An output in a notebook scrolls: more hosts than these would hide what is below.
MOST_HOSTS = 12

_COLOURS = {
    "running": "#2e8b57",
    "failed": "#c0392b",
    "lost": "#c0392b",
    "ended": "#c0392b",
}
_LEFT = 'style="text-align: left; padding: 1px 12px 1px 0; white-space: nowrap;"'
_WRAPS = 'style="text-align: left; padding: 1px 12px 1px 0;"'


def view_html(view: LiveView) -> str:
    """Return a view as a block: what it is, its groups, what is waited for, and its hosts."""
    heads = "".join(
        f"<tr><td {_LEFT}><strong>{escape(label)}</strong></td>"
        f"<td {_WRAPS}>{_value(label, value)}</td></tr>"
        for label, value in view.facts
    )
    return (
        '<div class="terradask-cluster" style="font-size: 13px; line-height: 1.4;">'
        f"<div><strong>{escape(view.name)}</strong>: {_state(view.state)}</div>"
        + "".join(f"<div>{escape(note)}</div>" for note in view.notes)
        + (f"<table>{heads}</table>" if heads else "")
        + body_html(view)
        + "</div>"
    )


def body_html(view: LiveView) -> str:
    """Return a view's groups, what is waited for, and its hosts."""
    shown = view.with_hosts(MOST_HOSTS)
    parts = [
        _table(["group", "hosts", "states", "market", "types"], [_cells(g) for g in shown.groups]),
        *(f"<div>{escape(line)}</div>" for line in steps(shown)),
        *(f"<div><strong>problem</strong>: {escape(each)}</div>" for each in shown.problems),
        _table(
            ["host", "group", "state", "for", "threads", "memory", "reason"],
            [_host(host) for host in shown.hosts],
        ),
    ]
    if shown.hidden:
        number = f"{sum(shown.hidden.values()):,}"
        parts.append(f"<div>and {number} more: {escape(counts(shown.hidden))}</div>")
    return "".join(parts)


def _value(label: str, value: str) -> str:
    text = escape(value)
    return f'<a href="{text}" target="_blank">{text}</a>' if label == DASHBOARD else text


def _cells(group: GroupRow) -> list[str]:
    return [
        escape(group.name),
        f"{group.instances}/{group.desired}",
        ", ".join(f"{number:,} {_state(state)}" for state, number in group.states.items()),
        escape(group.market),
        escape(group.first_type),
    ]


def _host(host: HostRow) -> list[str]:
    return [
        f"<code>{escape(host.instance_id)}</code>",
        escape(host.group),
        _state(host.state),
        "" if host.seconds is None else duration(host.seconds),
        "" if host.threads is None else str(host.threads),
        "" if host.memory_bytes is None else bytes_text(host.memory_bytes),
        escape(host.reason or ""),
    ]


def _state(state: str) -> str:
    colour = _COLOURS.get(state)
    text = escape(state)
    return text if colour is None else f'<span style="color: {colour};">{text}</span>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    used = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    head = "".join(f"<th {_LEFT}>{heads[at]}</th>" for at in used)
    body = "".join(
        "<tr>" + "".join(f"<td {_LEFT}>{row[at]}</td>" for at in used) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
