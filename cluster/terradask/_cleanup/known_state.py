"""What a cluster's state may hold: the resources of its stack under their own names. Pure.

Every user of a workspace may write its clusters' states, and Terraform does to AWS what a state
says: it destroys what a configuration lacks, reads what it refreshes, and downloads the providers
that are named there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from terradask.errors import TerraformError
from terradask_host.documents import plain_text
from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_stacks.cluster_resources import DATA, expected

#: The only provider, as a state names it; another spelling can be another provider.
PROVIDER = 'provider["registry.terraform.io/hashicorp/aws"]'

#: So much of a text of a state is shown.
_LONGEST = 200


@dataclass(frozen=True)
class Entry:
    """One resource in a state."""

    address: str
    type: str
    id: str
    attributes: Mapping[str, Any]

    def foreign(self, why: str) -> dict[str, str]:
        """Return it as an error lists it; whatever was written there, a terminal can show it."""
        texts = {"address": self.address, "type": self.type, "id": self.id, "why": why}
        return {key: plain_text(text)[:_LONGEST] for key, text in texts.items()}


@dataclass(frozen=True)
class ReadState:
    """A state's entries: those that may be the cluster's, and the others with the reason."""

    known: tuple[Entry, ...]
    foreign: tuple[Mapping[str, str], ...]


def read_state(document: Mapping[str, Any], names: ClusterNames) -> ReadState:
    """Return which entries of a state may be the cluster's. Raises `TerraformError`."""
    known: list[Entry] = []
    foreign: list[Mapping[str, str]] = []
    try:
        for resource in document.get("resources") or ():
            for entry, why in _entries(resource, names):
                if why is None:
                    known.append(entry)
                else:
                    foreign.append(entry.foreign(why))
    except (AttributeError, LookupError, TypeError, ValueError):
        raise TerraformError(
            "the state isn't as Terraform writes it",
            verb="state",
            advice="bring back an earlier version of it",
        ) from None
    return ReadState(tuple(known), tuple(foreign))


def without(document: Mapping[str, Any], foreign: tuple[Mapping[str, str], ...]) -> dict[str, Any]:
    """Return a state without some addresses, as the next version of it."""
    gone = {one["address"] for one in foreign}
    kept = [one for one in document["resources"] if _address(one) not in gone]
    return {**document, "serial": int(document["serial"]) + 1, "resources": kept}


def _entries(
    resource: Mapping[str, Any], names: ClusterNames
) -> Iterator[tuple[Entry, str | None]]:
    kind, address = str(resource["type"]), _address(resource)
    why = _why_foreign(resource, names)
    instances = resource.get("instances") or ()
    if why is not None and not instances:
        # Even without an instance, Terraform gets its provider.
        yield Entry(address, kind, "", {}), why
    if why is None and resource["mode"] == "data":
        return
    for instance in instances:
        attributes = instance.get("attributes") or {}
        entry = Entry(address, kind, str(attributes.get("id") or ""), attributes)
        yield entry, why or _why_foreign_instance(resource, instance, attributes, names)


def _address(resource: Mapping[str, Any]) -> str:
    parts = (
        resource.get("module"),
        "data" if resource.get("mode") == "data" else None,
        str(resource["type"]),
        str(resource["name"]),
    )
    return ".".join(filter(None, parts))


def _why_foreign(resource: Mapping[str, Any], names: ClusterNames) -> str | None:
    kind, name = str(resource["type"]), str(resource["name"])
    if resource["provider"] != PROVIDER:
        return f"it names {resource['provider']}, clusters have {PROVIDER} only"
    if resource.get("module") or resource.get("each"):
        return "clusters have no modules and no lists of resources"
    if resource["mode"] == "data":
        return None if DATA.get(kind) == name else "clusters read no such data"
    if resource["mode"] != "managed" or expected(names, kind, name) is None:
        return "clusters have no resource of this type and name"
    return None


def _why_foreign_instance(
    resource: Mapping[str, Any],
    instance: Mapping[str, Any],
    attributes: Mapping[str, Any],
    names: ClusterNames,
) -> str | None:
    if "index_key" in instance or "attributes_flat" in instance:
        return "clusters have no lists of resources"
    patterns = expected(names, str(resource["type"]), str(resource["name"])) or {}
    if attributes.get("region", names.where.region) != names.where.region:
        return f"its region is {attributes['region']!r}, the workspace's {names.where.region!r}"
    for attribute, pattern in patterns.items():
        value = attributes.get(attribute)
        # What an interrupted apply left can lack attributes, and a profile can have lost its role;
        # nothing lacks its id.
        if value in (None, "") and attribute != "id":
            continue
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            return f"its {attribute} is {value!r}, this cluster's is {pattern.replace(chr(92), '')}"
    return None
