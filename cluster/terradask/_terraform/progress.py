"""From Terraform's events to progress."""

from __future__ import annotations

from terradask._common.progress import Progress, ResourceChanged
from terradask._terraform.events import Event

_STATES = {"apply_start": "started", "apply_complete": "finished", "apply_errored": "failed"}

#: Work that each planned action takes; what isn't named takes none.
_STEPS = {"create": 1, "update": 1, "delete": 1, "replace": 2}


class ResourceProgress:
    """Counts resources while Terraform works on them."""

    def __init__(self, progress: Progress, subject: str) -> None:
        self._progress = progress
        self._subject = subject
        self._done = 0
        self._total = 0

    def __call__(self, event: Event) -> None:
        """Take one event of Terraform's."""
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
