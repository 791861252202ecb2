"""The page that a browser opens: the run's events, and the report where it can do nothing else.

The report is HTML with scripts, from a host that runs tasks' code. The frame's sandbox gives it an
origin of its own, so that it reads neither files nor cookies; this page's policy, which holds for
the frame too, lets it load and send nothing.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Iterable

from terradask._common.clock import utc_text
from terradask._deployments.events.timeline import Event
from terradask_host.documents import plain_lines

#: Bokeh's scripts and styles are in the report itself; it compiles some of its functions.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'unsafe-inline' 'unsafe-eval'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "font-src data:",
        "frame-src 'none'",
        "form-action 'none'",
        "base-uri 'none'",
    )
)

_STYLE = """
body { margin: 0; font: 14px/1.4 sans-serif; display: flex; flex-direction: column; height: 100vh; }
header { padding: 8px 16px; }
h1 { font-size: 16px; margin: 0; }
details { max-height: 45vh; overflow: auto; }
table { border-collapse: collapse; }
td, th { padding: 1px 12px 1px 0; text-align: left; vertical-align: top; }
iframe { flex: 1; border: 0; border-top: 1px solid #ccc; min-height: 50vh; }
"""

_HEADS = ("at", "subject", "group", "state", "reason")


def report_page(
    cluster: str, run: str, at: datetime.datetime, report: str, events: Iterable[Event]
) -> str:
    """Return the page as HTML."""
    title = _text(f"{cluster}, run {run}")
    rows = list(events)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>Dask's performance report of {utc_text(at)}</p>
<details><summary>{len(rows)} events</summary>
<table><tr>{"".join(f"<th>{head}</th>" for head in _HEADS)}</tr>
{"".join(map(_row, rows))}</table>
</details>
</header>
<iframe title="Dask's performance report" sandbox="allow-scripts" srcdoc="{html.escape(report)}">
</iframe>
</body>
</html>
"""


def _row(event: Event) -> str:
    state = event.state if event.step is None else f"{event.state} ({event.step})"
    cells = (utc_text(event.at), event.subject, event.group, state, event.reason)
    return f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>\n"


def _text(value: object) -> str:
    return html.escape(str(plain_lines("" if value is None else str(value))))
