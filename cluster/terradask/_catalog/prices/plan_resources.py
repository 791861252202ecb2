"""The resources of a stack after a plan, with planned values and the descriptor. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from terradask._common.plan_modules import configured_resources, value_resources
from terradask_modules.errors import InvalidInput


@dataclass(frozen=True)
class PlannedResource:
    """One resource after the apply."""

    address: str
    type: str
    #: The values that are known at plan time.
    values: Mapping[str, Any]
    #: The configuration's expressions by attribute, for values known only after the apply.
    expressions: Mapping[str, Any] = field(default_factory=dict)

    def number_of(self, attribute: str) -> int | None:
        """Return the length of a list; None if neither values nor configuration give it."""
        known = self.values.get(attribute)
        if isinstance(known, list):
            return len(known)
        expression = self.expressions.get(attribute)
        if not isinstance(expression, Mapping):
            return None
        constant = expression.get("constant_value")
        if isinstance(constant, list):
            return len(constant)
        # `aws_subnet.a.id` comes with `aws_subnet.a`.
        return (
            sum(reference.endswith(".id") for reference in expression.get("references", ())) or None
        )


@dataclass(frozen=True)
class PlannedStack:
    """A stack after the apply."""

    #: AWS region of its provider; None if unknown.
    region: str | None
    #: The resources.
    resources: tuple[PlannedResource, ...]
    #: The cluster's ``cluster.json``; empty for other stacks.
    descriptor: Mapping[str, Any]
    #: The resource that contains it; None for other stacks.
    descriptor_resource: PlannedResource | None = None

    @property
    def reasons(self) -> Mapping[str, str]:
        """Group -> reason for its instance types, in a line; empty if not recorded."""
        lock = self.descriptor.get("lock") or {}
        return dict(lock.get("reasons") or {})

    @property
    def container(self) -> str | None:
        """The hosts' container image with its digest, if any."""
        return (self.descriptor.get("lock") or {}).get("container")

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PlannedStack:
        """Read a plan's JSON. Raises `InvalidInput` for missing parts."""
        if document.get("planned_values") is None:
            raise InvalidInput(
                "a plan's cost can't be estimated: the plan is incomplete",
                given="a plan without planned_values",
                allowed="all that terraform show -json PLAN prints",
            )
        configuration = document.get("configuration") or {}
        provider = (configuration.get("provider_config") or {}).get("aws") or {}
        expressions = {
            f"{prefix}{entry['address']}": entry.get("expressions") or {}
            for prefix, entry in configured_resources(configuration.get("root_module") or {})
        }
        root = ((document.get("planned_values") or {}).get("root_module")) or {}
        resources = tuple(
            PlannedResource(
                address=entry["address"],
                type=entry["type"],
                values=entry.get("values") or {},
                expressions=expressions.get(entry["address"].partition("[")[0], {}),
            )
            for entry in value_resources(root)
            if entry.get("mode", "managed") == "managed"
        )
        region = ((provider.get("expressions") or {}).get("region") or {}).get("constant_value")
        resource, descriptor = _descriptor(resources)
        return cls(
            region=region,
            resources=resources,
            descriptor=descriptor,
            descriptor_resource=resource,
        )


def _descriptor(
    resources: tuple[PlannedResource, ...],
) -> tuple[PlannedResource | None, Mapping[str, Any]]:
    for resource in resources:
        if resource.type == "aws_s3_object" and str(resource.values.get("key", "")).endswith(
            "/cluster.json"
        ):
            try:
                document = json.loads(resource.values.get("content") or "")
            except ValueError:
                continue
            if isinstance(document, dict):
                return resource, document
    return None, {}
