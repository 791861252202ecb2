"""Read the events of ``terraform … -json``, one JSON object a line, summarise them, and report
progress.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terradask._common.progress import Progress, ResourceChanged
from terradask.errors import Diagnostic


@dataclass(frozen=True)
class Event:
    """One event."""

    #: Terraform's type: ``planned_change``, ``apply_start``, ``apply_complete``, …
    type: str
    #: The resource.
    address: str | None = None
    #: The action: ``create``, ``update``, ``delete``, ``replace``, ``read``, …
    action: str | None = None
    #: Time spent on the resource so far.
    elapsed_seconds: float | None = None
    #: The counts of a ``change_summary``.
    changes: Mapping[str, Any] = field(default_factory=dict)
    diagnostic: Diagnostic | None = None
    #: Terraform's message.
    message: str = ""


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
        message=str(document.get("@message", "")),
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


_KEPT_LOCK = "Error releasing the state lock"


@dataclass
class CommandOutput:
    """The output of a command so far."""

    #: Time after its start in which a creation may have an open request.
    request_seconds: float
    diagnostics: list[Diagnostic] = field(default_factory=list)
    creates: list[str] = field(default_factory=list)
    counts: Mapping[str, Any] = field(default_factory=dict)
    #: Start of each creation in progress.
    creating: dict[str, float] = field(default_factory=dict)
    #: Whether Terraform was asked to stop: then it drops its requests.
    is_stopping: bool = False

    def take(self, event: Event) -> None:
        """Record the relevant parts of an event."""
        if event.diagnostic is not None:
            self.diagnostics.append(event.diagnostic)
        elif event.type == "change_summary":
            self.counts = event.changes
        elif event.address is None:
            return
        elif event.type == "planned_change" and event.action == "create":
            self.creates.append(event.address)
        elif event.type == "apply_start" and event.action == "create":
            self.creating[event.address] = time.monotonic()
        elif event.type in ("apply_complete", "apply_errored", STOPPED):
            self.creating.pop(event.address, None)

    @property
    def only_kept_lock(self) -> bool:
        """Whether only the release of the state's lock failed."""
        errors = [one.summary for one in self.diagnostics if one.severity == "error"]
        return bool(errors) and all(each.startswith(_KEPT_LOCK) for each in errors)

    def between_requests(self) -> bool:
        """Return whether no creation seems to have an open request.

        When Terraform is asked to stop, the provider drops such requests, and AWS may create
        resources that no state contains. A longer creation waits for AWS's progress: Terraform has
        its id, and keeps it.
        """
        youngest = max(self.creating.values(), default=0.0)
        return time.monotonic() - youngest >= self.request_seconds


@dataclass(frozen=True)
class PlanFile:
    """A saved plan."""

    #: The file. It contains the state and secrets in plain text: readable only by its owner.
    path: Path
    #: Its checksum.
    sha256: str
    #: Addresses of the resources to create.
    creates: tuple[str, ...] = ()
    #: `add`, `change`, `remove`: Terraform's counts; a replacement counts in two of them.
    add: int = 0
    change: int = 0
    remove: int = 0
    #: Number of existing resources to import into the state.
    imports: int = 0

    @property
    def changed(self) -> bool:
        """Whether applying it would change a resource or the state."""
        return bool(self.add or self.change or self.remove or self.imports)


#: In place of ``apply_errored``, after Terraform was asked to stop.
STOPPED = "apply_stopped"

_STATES = {
    "apply_start": "started",
    "apply_complete": "finished",
    "apply_errored": "failed",
    STOPPED: "interrupted",
}

#: Steps of each planned action; other actions have none.
_STEPS = {"create": 1, "update": 1, "delete": 1, "replace": 2}


class ResourceProgress:
    """Report progress by resource while Terraform works."""

    def __init__(self, progress: Progress, subject: str) -> None:
        self._progress = progress
        self._subject = subject
        self._done = 0
        self._total = 0

    def __call__(self, event: Event) -> None:
        """Handle one event."""
        if event.type == "version":
            self._done = self._total = 0
        elif event.type == "planned_change":
            self._total += _STEPS.get(event.action or "", 0)
        elif event.type in _STATES and event.address and event.action != "read":
            state = _STATES[event.type]
            self._done += state == "finished"
            self._progress(
                ResourceChanged(
                    subject=self._subject,
                    address=event.address,
                    action=event.action or "",
                    state=state,
                    done=self._done,
                    total=max(self._total, self._done),
                    seconds=event.elapsed_seconds,
                )
            )
