"""What a running command has said so far, and whether this is a good moment to stop it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from terradask._terraform.events import Event
from terradask.errors.diagnostic import Diagnostic


@dataclass
class CommandOutput:
    """What a command has said."""

    #: How long after its start a resource's creation may wait for AWS's answer.
    request_seconds: float
    diagnostics: list[Diagnostic] = field(default_factory=list)
    creates: list[str] = field(default_factory=list)
    counts: Mapping[str, Any] = field(default_factory=dict)
    #: When each creation that is under way began.
    creating: dict[str, float] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Remember what matters of an event."""
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
        elif event.type in ("apply_complete", "apply_errored"):
            self.creating.pop(event.address, None)

    def between_requests(self) -> bool:
        """Return whether no request to create something seems to be on its way.

        When Terraform is asked to stop, the provider drops such requests, and AWS may make what no
        state will know. A creation that has gone on for longer waits for AWS: Terraform has its id,
        and keeps it.
        """
        youngest = max(self.creating.values(), default=0.0)
        return time.monotonic() - youngest >= self.request_seconds
