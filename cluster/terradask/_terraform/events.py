"""The events that ``terraform … -json`` prints, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from terradask.errors.diagnostic import Diagnostic


@dataclass(frozen=True)
class Event:
    """One event."""

    #: Terraform's name of it: ``planned_change``, ``apply_start``, ``apply_complete``, …
    type: str
    #: The resource it is about.
    address: str | None = None
    #: What happens to the resource: ``create``, ``update``, ``delete``, ``replace``, ``read``, …
    action: str | None = None
    #: How long the resource has taken so far.
    elapsed_seconds: float | None = None
    #: The counts of a ``change_summary``.
    changes: Mapping[str, Any] = field(default_factory=dict)
    diagnostic: Diagnostic | None = None


def parse_event(line: str) -> Event | None:
    """Read one line of ``-json`` output."""
    if not line.startswith("{"):
        return None
    try:
        return _event(json.loads(line))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _event(document: Any) -> Event | None:
    if not isinstance(document, dict) or "type" not in document:
        return None
    about = document.get("hook") or document.get("change") or {}
    found = document.get("diagnostic")
    return Event(
        type=str(document["type"]),
        address=(about.get("resource") or {}).get("addr"),
        action=about.get("action"),
        elapsed_seconds=about.get("elapsed_seconds"),
        changes=document.get("changes") or {},
        diagnostic=_diagnostic(found) if found else None,
    )


def _diagnostic(document: Mapping[str, Any]) -> Diagnostic:
    place = document.get("range") or {}
    return Diagnostic(
        severity=str(document.get("severity", "error")),
        summary=str(document.get("summary", "")).strip(),
        detail=str(document.get("detail", "")).strip(),
        address=document.get("address"),
        filename=place.get("filename"),
        line=(place.get("start") or {}).get("line"),
    )
