"""Settings as the text of a ``terradask.toml``. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_toml(sections: Mapping[str, Any]) -> str:
    """Return sections as TOML; values that are None are left out."""
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in _given(values))
        for name, values in sections.items()
    )


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = (
            f"{json.dumps(key, ensure_ascii=False)} = {_value(each)}" for key, each in _given(value)
        )
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # TOML's strings, numbers and booleans are written as JSON's.
    return json.dumps(value, ensure_ascii=False)


def _given(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in values.items() if value is not None]
