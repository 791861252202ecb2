"""Parse JSON of untrusted origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def parse_json(content: bytes | str) -> Any:
    """Parse a JSON text. Raises `ValueError`, also for one that is nested too deeply."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if unreadable."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
