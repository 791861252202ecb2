"""Delete markers can be deleted, so that a versioned bucket can be emptied.

moto fails with an HTTP 500 when the version to delete is a delete marker.
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]


def install() -> None:
    """Give moto's delete markers what its deletion calls."""
    from moto.s3.models import FakeDeleteMarker

    def dispose(_marker: Any) -> None:
        """Release nothing: a marker holds no content."""

    FakeDeleteMarker.dispose = dispose
