"""The answer of one check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The answer of one check."""

    #: Its name, one of `terradask._doctor.doctor.CHECKS`.
    check: str
    #: Whether all is well.
    ok: bool
    #: What is there.
    found: str
    #: What to do, where it isn't.
    fix: str | None = None
    #: Whether it was looked for: not without what the check itself needs.
    checked: bool = True
