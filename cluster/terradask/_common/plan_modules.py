"""Walk the modules of a plan's JSON (https://developer.hashicorp.com/terraform/internals/json-format)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def value_resources(values: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield the resources in a plan's or a state's values, of all modules."""
    modules = [(values or {}).get("root_module") or {}]
    while modules:
        module = modules.pop(0)
        yield from module.get("resources") or []
        modules = [*(module.get("child_modules") or []), *modules]


def configured_resources(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entry of each resource in a plan's configuration, and its module's address as a
    prefix.
    """
    yield from _configured((document.get("configuration") or {}).get("root_module") or {}, "")


def expressions_of(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return, by resource, the attributes that a plan's configuration names, with expressions."""
    return {
        prefix + entry["address"]: entry.get("expressions") or {}
        for prefix, entry in configured_resources(document)
    }


def _configured(module: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entry in module.get("resources") or []:
        yield prefix, entry
    for name, call in (module.get("module_calls") or {}).items():
        yield from _configured(call.get("module") or {}, f"{prefix}module.{name}.")
