"""Has a running cluster make its performance report, and keep it."""

from __future__ import annotations

from http import HTTPStatus

from terradask._common.json_text import parse_json
from terradask._dask.dashboard import DashboardForward
from terradask_host.documents import plain_lines
from terradask_host.http_proxy.pages import REPORT_PAGE

_MOST_CHARACTERS = 300


async def request_report(dashboard: DashboardForward, *, last: bool = False) -> str | None:
    """Have a report made; return why there is none, or None.

    With `last`, none is made if no task has ended since the one before. Raises ``OSError``.
    """
    status, content = await dashboard.fetch(f"{REPORT_PAGE}{'?last=1' if last else ''}")
    if status == HTTPStatus.NOT_FOUND:
        return "its hosts run an older terradask: terradask apply network, then stop and start it"
    try:
        answer = parse_json(content)
        if status == HTTPStatus.OK and answer["kept"] is True:
            return None
        why = str(answer["why"])
    except (LookupError, TypeError, ValueError):
        return "its scheduler gives no answer that can be read"
    if why == "off":
        return "its setting performance_report is off"
    return f"its scheduler says: {plain_lines(why[:_MOST_CHARACTERS])}"
