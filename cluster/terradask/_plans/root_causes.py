"""Find which replacements follow from another resource's. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from terradask._common.plan_modules import configured_resources
from terradask._plans.policy.values import AttributeChange, top_level


def followed(
    document: Mapping[str, Any], forced: Mapping[str, Sequence[AttributeChange]]
) -> dict[str, str]:
    """Return, for each replaced resource that follows from another one, the first of the chain.

    Parameters
    ----------
    forced
        Replaced resources, each with the values that force it.
    """
    named = _named(document)
    parents: dict[str, str] = {}
    for address, values in forced.items():
        own = named.get(address.partition("[")[0], {})
        # A value that is known changes by itself; without any, something that it names is replaced.
        causing = [top_level(value.path) for value in values if not value.known]
        attributes = causing if values else own
        references = (one for attribute in attributes for one in own.get(attribute, ()))
        parent = next((one for one in references if one in forced and one != address), None)
        if parent is not None:
            parents[address] = parent
    return {address: _first(address, parents) for address in parents}


def _first(address: str, parents: Mapping[str, str]) -> str:
    seen = {address}
    while (parent := parents.get(address)) is not None and parent not in seen:
        seen.add(parent)
        address = parent
    return address


def _named(document: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Return, by resource and attribute, the resources that the configuration names there."""
    return {
        prefix + entry["address"]: {
            attribute: [prefix + one for one in _references(expression)]
            for attribute, expression in (entry.get("expressions") or {}).items()
        }
        for prefix, entry in configured_resources(document)
    }


def _references(expression: Any) -> list[str]:
    """Return all references in an expression, also in its nested blocks, without attributes."""
    if isinstance(expression, list):
        return [one for each in expression for one in _references(each)]
    if not isinstance(expression, Mapping):
        return []
    own = expression.get("references")
    if isinstance(own, list):
        return [".".join(str(one).split(".")[:2]).partition("[")[0] for one in own]
    return [one for each in expression.values() for one in _references(each)]
