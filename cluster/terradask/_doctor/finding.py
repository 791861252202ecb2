"""The answer of one check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """The answer of one check.

    Parameters
    ----------
    check
        Its name, one of `terradask._doctor.doctor.CHECKS`.
    ok
        Whether all is well.
    found
        What is there.
    fix
        What to do, where it isn't.
    """

    check: str
    ok: bool
    found: str
    fix: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return asdict(self)
