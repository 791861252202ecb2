"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    #: Its name, one of `terradask._doctor.doctor.CHECKS`.
    check: str
    #: Whether it passed.
    ok: bool
    #: The found state.
    found: str
    #: The fix, if it failed.
    fix: str | None = None
    #: Whether it was run; not if the check that it depends on failed.
    checked: bool = True
