"""Lists and mappings that notebooks show as tables. All text is escaped: hosts write some of it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from terradask._common.clock import utc_text
from terradask._deployments.events.timeline import Event


class EventTable(list[Event]):
    """Events of a cluster, oldest first."""

    def _repr_html_(self) -> str:
        """Return them as a table, with times in UTC."""
        return _table(
            ("time (UTC)", "subject", "group", "state", "step", "reason"),
            (
                (utc_text(e.at), e.subject, e.group, e.state, e.step or "", e.reason or "")
                for e in self
            ),
        )


class HardwareTable(dict[str, dict[str, Any]]):
    """Instance types of each group, and why they were chosen."""

    def _repr_html_(self) -> str:
        """Return them as a table."""
        return _table(
            ("group", "instance types, in order", "asked for", "reason"),
            (
                (
                    group,
                    ", ".join(found.get("types", ())),
                    ", ".join(
                        f"{name}={value!r}" for name, value in found.get("asked", {}).items()
                    ),
                    found.get("reason", ""),
                )
                for group, found in self.items()
            ),
        )


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{_cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def _cells(tag: str, values: Sequence[object]) -> str:
    texts = ("" if value is None else html.escape(str(value)) for value in values)
    return "".join(f'<{tag} style="text-align: left;">{text}</{tag}>' for text in texts)
