"""What an isolated cluster has of its own: roles, security groups, launch templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask_modules.aws import Construct, Fn, Token
from terradask_modules.cluster_firewall import ClusterFirewall
from terradask_modules.identity import Identity, RoleRules
from terradask_modules.launch_templates import HostTemplate, Templates
from terradask_modules.names import ROLES
from terradask_modules.policies import PolicyScope

#: Where Terraform finds the text of ``workspace.json``.
BASELINE_BODY = "data.aws_s3_object.baseline.body"


@dataclass(frozen=True)
class Baseline:
    """``workspace.json`` as a Terraform expression.

    Parameters
    ----------
    document
        The decoded document.
    """

    document: Any

    def value(self, *path: str) -> Any:
        """Return what stands at a path, whatever it is."""
        return Fn.lookup_nested(self.document, list(path))

    def text(self, *path: str) -> str:
        """Return the text at a path; numbers and booleans as Terraform writes them."""
        return Token.as_string(self.value(*path))

    def optional(self, name: str) -> str:
        """Return the text under a name; null where it isn't set, or the network is of a version that doesn't know it."""
        # The framework's own `try` loses a null.
        return f"${{try(jsondecode({BASELINE_BODY}).{name}, null)}}"

    def number(self, *path: str) -> Any:
        """Return the number at a path."""
        return Token.as_number(self.value(*path))


def own_templates(
    scope: Construct, *, where: PolicyScope, architecture: str, baseline: Baseline, tags: Mapping[str, str]
) -> Mapping[str, Any]:
    """Make a cluster's own roles, security groups and launch templates, after what the network tells of launches.

    Whatever concerns the outside, such as who reaches schedulers, stays the network's: changing it changes no cluster.

    Parameters
    ----------
    scope
        The cluster's stack.
    where
        Where the hosts' rights end; with the cluster in it.
    architecture
        The hosts'.
    baseline
        What the network tells.
    tags
        Tags of every resource, and of what is launched.

    Returns
    -------
    mapping
        Role -> launch template.
    """
    cluster = str(where.cluster)
    firewall = ClusterFirewall(scope, workspace=where.workspace, cluster=cluster, vpc_id=baseline.text("vpc_id"), tags=tags)
    rules = RoleRules(
        path=baseline.text("isolated", "role_path"),
        name_prefix=baseline.text("isolated", "role_name_prefix"),
        permissions_boundary=baseline.text("isolated", "permissions_boundary"),
    )
    roles = Identity(scope, where=where, rules=rules, access=baseline.value("isolated", "access"), tags=tags).roles
    outside = {"scheduler": ("hosts", "clients"), "worker": ("hosts",)}

    def host(role: str, groups: Sequence[str]) -> HostTemplate:
        return HostTemplate(
            role=role,
            architecture=architecture,
            image_id=baseline.text("launch", "image_ids", architecture),
            instance_type=baseline.text("launch", "instance_type"),
            disk_size_gib=baseline.number("launch", "disk_size_gib", role),
            profile_arn=roles[role].profile_arn,
            security_group_ids=[firewall.ids[role], *(baseline.text("isolated", "security_groups", group) for group in groups)],
            public_address=baseline.text("launch", "public_address", role),
            kms_key_arn=baseline.optional("kms_key_arn"),
        )

    templates = Templates(
        scope,
        workspace=where.workspace,
        cluster=cluster,
        hosts=[host(role, outside[role]) for role in ROLES],
        user_data_base64=baseline.text("launch", "user_data_base64"),
        tags=tags,
    )
    return {role: templates.by_role[role][architecture] for role in ROLES}
