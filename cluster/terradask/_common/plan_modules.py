"""Walk the modules of a plan's JSON (https://developer.hashicorp.com/terraform/internals/json-format)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def value_resources(module: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of a module with values, and of its child modules."""
    yield from module.get("resources") or []
    for child in module.get("child_modules") or []:
        yield from value_resources(child)


def configured_resources(
    module: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the address prefix and the entry of each resource in a module's configuration."""
    for entry in module.get("resources") or []:
        yield prefix, entry
    for name, call in (module.get("module_calls") or {}).items():
        yield from configured_resources(call.get("module") or {}, f"{prefix}module.{name}.")
