"""Reading JSON that others may have written."""

from __future__ import annotations

import json
from typing import Any


def parse_json(content: bytes | str) -> Any:
    """Return what a JSON text says. Raises `ValueError`, also for one that is nested too deeply."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
