"""Values as TOML spells them."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any


def toml_text(value: Any) -> str:
    """Return a value as TOML spells it."""
    if isinstance(value, dict):
        items = (f"{_toml_key(key)} = {toml_text(item)}" for key, item in value.items())
        return f"{{ {', '.join(items)} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    return str(value) if isinstance(value, datetime.date) else json.dumps(value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
