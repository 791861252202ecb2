"""Find whether a resource belongs to schedulers or workers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from terradask._policy.document import PlanDocument, Resource
from terradask_modules.iam import listed

Role = Literal["scheduler", "worker"]

_TOKENS = re.compile(r"[^a-z]+")


def role_of(resource: Resource) -> Role | None:
    """Return the role that a resource's tag, its name in Terraform or its name in AWS contains."""
    tags = resource.values.get("tags")
    candidates: list[Any] = [
        tags.get("terradask:role") if isinstance(tags, dict) else None,
        resource.name,
        resource.values.get("name"),
    ]
    for text in candidates:
        tokens = set(_TOKENS.split(text.lower())) if isinstance(text, str) else set()
        if tokens & {"scheduler", "schedulers"}:
            return "scheduler"
        if tokens & {"worker", "workers"}:
            return "worker"
    return None


class Groups:
    """Security groups and the roles of the hosts that carry them."""

    def __init__(self, document: PlanDocument) -> None:
        self._document = document
        self._roles: dict[str, set[Role]] = {}
        #: The groups that hosts of each launch template are in.
        self.carried: list[set[str]] = []
        for group in document.of("aws_security_group"):
            self._add(group.address, role_of(group))
        for template in document.of("aws_launch_template"):
            carried = [
                each
                for card in listed(template.values.get("network_interfaces"))
                for each in listed(card.get("security_groups"))
            ]
            carried += listed(template.values.get("vpc_security_group_ids"))
            self.carried.append({self.key(group_id) for group_id in carried})
            for group_id in carried:
                self._add(self.key(group_id), role_of(template))

    def key(self, group_id: Any) -> str:
        """Return one key for a group, from the plan or from its id."""
        found = self._document.find(group_id, "aws_security_group")
        if found is not None:
            return found.address
        return group_id if isinstance(group_id, str) else ""

    def roles(self, group_id: Any) -> set[Role]:
        """Return the roles of the hosts that carry a group."""
        return self._roles.get(self.key(group_id), set())

    def ours(self, group_ids: Iterable[Any]) -> bool:
        """Return whether only schedulers or workers carry these groups."""
        return all(self.roles(group_id) for group_id in group_ids)

    def _add(self, key: str, role: Role | None) -> None:
        if key and role is not None:
            self._roles.setdefault(key, set()).add(role)
