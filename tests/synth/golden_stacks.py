"""The golden stacks: two whole, and of the others what is different there, as a JSON Merge Patch
(RFC 7386). A change of every stack is then a change of two files.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("golden")

#: The stacks that others are kept against, the closest first.
_BASES = ("cluster-isolation", "cluster-default", "network-default")


def base_of(name: str) -> str | None:
    """Return the stack that a stack is kept against; none of one that is kept whole."""
    for base in _BASES:
        if name == base:
            return "cluster-default" if base == "cluster-isolation" else None
        if name.startswith(base.removesuffix("default")):
            return base
    raise AssertionError(f"{name} has no base")


def file_of(name: str) -> Path:
    """Return a golden stack's file."""
    return GOLDEN / f"{name}.{'patch' if base_of(name) else 'tf'}.json"


@functools.cache
def golden_stack(name: str) -> dict[str, Any]:
    """Return a golden stack, whole. Nobody may change it."""
    kept: dict[str, Any] = json.loads(file_of(name).read_text())
    base = base_of(name)
    return merged(golden_stack(base), kept) if base else kept


def kept_text(name: str, texts: Callable[[str], str]) -> str:
    """Return what a stack's file has, of the texts of it and of its base."""
    base = base_of(name)
    if base is None:
        return texts(name)
    patch = patch_between(json.loads(texts(base)), json.loads(texts(name)))
    return json.dumps(patch, indent=2) + "\n"


def patch_between(base: Any, stack: Any) -> dict[str, Any]:
    """Return what makes one document of another."""
    patch = _difference(base, stack)
    # A patch can't express a null.
    assert merged(base, patch) == stack
    return patch


def _difference(base: Any, stack: Any) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in base if key not in stack}
    for key, value in stack.items():
        held = base.get(key)
        if isinstance(held, dict) and isinstance(value, dict):
            if inner := _difference(held, value):
                patch[key] = inner
        elif key not in base or held != value:
            patch[key] = value
    return patch


def merged(base: Any, patch: Any) -> Any:
    """Return a document with a patch applied."""
    if not isinstance(patch, dict):
        return patch
    whole = {**base} if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            whole.pop(key, None)
        else:
            whole[key] = merged(whole.get(key), value)
    return whole
