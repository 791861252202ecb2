"""The report that a host writes about itself: ``hosts/<instance id>.json``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from terradask_host import states
from terradask_host.documents import HostReport, now_text
from terradask_host.metadata import Identity
from terradask_host.trouble import Trouble

#: Number of log lines in a failure's report.
TAIL_LINES = 40

#: Tries of a failed write, unless a newer report waits by then.
TRIES = 3


#: Number of the newest notes in a report.
MOST_NOTES = 50

#: Limit of earlier states' reasons: a report is read often.
REASON_CHARACTERS = 300


def shorten(reason: str | None) -> str | None:
    """Return a reason of at most `REASON_CHARACTERS`."""
    return (
        reason
        if reason is None or len(reason) <= REASON_CHARACTERS
        else reason[: REASON_CHARACTERS - 1] + "…"
    )


def build_report(
    identity: Identity,
    *,
    run_id: str | None,
    history: Sequence[tuple[str, str]],
    reasons: Sequence[str | None],
    log_tail: Sequence[str],
    notes: Sequence[tuple[str, str, str, str]] = (),
) -> dict[str, Any]:
    """Return the document of ``hosts/<instance id>.json``; only a failure's has log lines."""
    state, at = history[-1]
    return HostReport(
        instance_id=identity.instance_id,
        role=identity.role,
        group=identity.group,
        state=state,
        reason=reasons[-1],
        at=at,
        run_id=run_id,
        private_address=identity.private_address,
        instance_type=identity.instance_type,
        history=tuple(history),
        reasons=tuple(shorten(reason) for reason in reasons),
        log_tail=tuple(log_tail)[-TAIL_LINES:] if state == states.FAILED else (),
        notes=tuple(notes),
    ).to_document()


class Reporter:
    """Keeps the history of states and writes the report on a thread, so that no state waits.

    If several states wait to be written, only the newest is.
    """

    def __init__(
        self,
        write: Callable[[dict[str, Any]], None],
        identity: Identity,
        *,
        tail: Callable[[], Sequence[str]],
        warn: Callable[[str], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._write = write
        self._identity = identity
        self._tail = tail
        self._pause = pause
        self._history: list[tuple[str, str]] = []
        self._reasons: list[str | None] = []
        self._notes: list[tuple[str, str, str, str]] = []
        self._changed = threading.Condition()
        self._newest: dict[str, Any] | None = None
        self._closing = False
        self._trouble = Trouble(warn)
        self._thread = threading.Thread(target=self._write_all, name="reporter", daemon=True)
        self._thread.start()
        self.run_id: str | None = None

    @property
    def state(self) -> str | None:
        """The current state; None before the first."""
        return self._history[-1][0] if self._history else None

    def enter(self, state: str, reason: str | None = None) -> None:
        """Enter a state; a repeated state other than ``starting`` is not reported again.

        Raises `HostError` when it can't follow the current one.
        """
        if state == self.state and state != states.STARTING:
            return
        states.check_transition(self.state, state)
        self._history.append((state, now_text()))
        self._reasons.append(reason)
        self._report()

    def note(self, group: str, what: str, why: str) -> None:
        """Report an action on other hosts' group, or a failed action on this host."""
        self._notes = [*self._notes, (now_text(), group, what, why)][-MOST_NOTES:]
        self._report()

    def _report(self) -> None:
        report = build_report(
            self._identity,
            run_id=self.run_id,
            history=self._history,
            reasons=self._reasons,
            log_tail=self._tail(),
            notes=self._notes,
        )
        with self._changed:
            self._newest = report
            self._changed.notify()

    def close(self, timeout_seconds: float = 10.0) -> None:
        """Write pending reports, within the timeout."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._closing)
                report, self._newest = self._newest, None
            if report is None:
                return
            self._write_one(report)

    def _write_one(self, report: dict[str, Any]) -> None:
        for attempt in range(TRIES):
            try:
                self._write(report)
                self._trouble.is_over()
                return
            except Exception as error:  # noqa: BLE001 - a failed report must not end the host
                self._trouble.note(f"reports can't be written: {type(error).__name__}: {error}")
            if attempt + 1 < TRIES:
                self._pause(0.5 * 2**attempt)
            if self._newest is not None:
                return
