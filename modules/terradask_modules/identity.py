"""Hosts' identity: a role and an instance profile for schedulers and for workers, with the least
rights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask_modules.aws import (
    Construct,
    DataAwsIamInstanceProfile,
    Fn,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    IamRolePolicy,
    IamRolePolicyAttachment,
    Postcondition,
    TerraformResourceLifecycle,
    at,
    literal,
)
from terradask_modules.errors import InvalidInput
from terradask_modules.iam import (
    MAX_POLICY_CHARACTERS,
    MAX_ROLE_POLICY_CHARACTERS,
    characters,
    policy_document,
    policy_text,
)
from terradask_modules.names import ROLES, boundary_name, clusters_role_path
from terradask_modules.policies import (
    PolicyScope,
    bounding_statements,
    host_statements,
    scheduler_policy,
    trust_policy,
    worker_policy,
)

_SHORT_ENOUGH = TerraformResourceLifecycle(
    postcondition=[
        Postcondition(
            condition=f"${{length(self.policy) <= {MAX_ROLE_POLICY_CHARACTERS}}}",
            error_message=(
                "The policy of the cluster's hosts is longer than AWS allows: give the cluster "
                "fewer groups of workers, or the network fewer network.data_buckets and "
                "network.task_rights."
            ),
        )
    ]
)


@dataclass(frozen=True)
class Role:
    """A role as other parts refer to it."""

    arn: str
    profile_name: str
    profile_arn: str


@dataclass(frozen=True, kw_only=True)
class RoleRules:
    """The rules for every role that is made in an account."""

    #: Path of roles and instance profiles.
    path: str = "/"
    #: Prefix of their names.
    name_prefix: str = ""
    #: ARN of the policy that bounds their rights, or None.
    permissions_boundary: str | None = None


class Identity(Construct):
    """The roles of hosts: a workspace's, or one cluster's own.

    Resources created: for schedulers and for workers a role, its one inline policy, an instance
    profile, an attachment for each managed policy. They cost nothing.

    Raises `InvalidInput` if a role's document exceeds AWS's limit: too many data buckets.

    Parameters
    ----------
    hosts
        The limits of the roles' rights. With a cluster in it the roles are that cluster's own.
    rules
        The rules for roles.
    access
        Role -> its hosts' rights outside the workspace, as a Terraform expression for a list of
        statements. None: those in `hosts`.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        hosts: PolicyScope,
        rules: RoleRules,
        access: Mapping[str, Any] | None = None,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "identity")
        self._hosts = hosts
        self._rules = rules
        self._tags = dict(tags)
        self.roles: dict[str, Role] = {}
        for role, policy in (("scheduler", scheduler_policy), ("worker", worker_policy)):
            self.roles[role] = self._role(
                role,
                _within(MAX_ROLE_POLICY_CHARACTERS, policy(hosts), hosts, f"the {role}s' policy")
                if access is None
                else self._with_access(role, access[role]),
            )

    def _with_access(self, role: str, access: Any) -> str:
        text: str = Fn.jsonencode(
            policy_document(Fn.concat([host_statements(self._hosts, role), access]))
        )
        return text

    def _role(self, role: str, policy: str) -> Role:
        where, path = self._hosts.where, self._rules.path
        name = where.role_name(role, self._rules.name_prefix)
        whose = (
            f"terradask workspace {where.workspace}"
            if where.cluster is None
            else f"cluster {where.cluster} in {where.workspace}"
        )
        made = IamRole(
            self,
            f"{role}-role",
            name=name,
            # Unset stays unset, so plans don't show a change.
            path=path if path != "/" else None,
            permissions_boundary=self._rules.permissions_boundary,
            description=f"Dask {role} hosts of {whose}",
            assume_role_policy=trust_policy(where.partition),
            # Policies that others attach, such as Systems Manager's Quick Setup, would prevent its
            # deletion.
            force_detach_policies=True,
            tags=self._tags,
        )
        at(role, made)
        inline = IamRolePolicy(
            self,
            f"{role}-policy",
            name=name,
            role=made.name,
            policy=policy,
            # Values that the plan reads can't be counted here.
            lifecycle=None if where.cluster is None else _SHORT_ENOUGH,
        )
        at(role, inline)
        for managed in self._hosts.attached:
            address = f"{role}-{managed.address}"
            # After the denials that hold whatever it allows.
            attachment = IamRolePolicyAttachment(
                self, address, role=made.name, policy_arn=managed.arn, depends_on=[inline]
            )
            at(address, attachment)
        profile = IamInstanceProfile(
            self,
            f"{role}-profile",
            name=name,
            path=path if path != "/" else None,
            role=made.name,
            tags=self._tags,
        )
        at(role, profile)
        return Role(arn=made.arn, profile_name=name, profile_arn=profile.arn)


class Boundary(Construct):
    """The boundary of clusters' own roles: no more than the rights of a host of the same cluster.

    Callers who make clusters make their roles; with the boundary as a condition of that right, they
    can make no role with further rights.

    Resources created: a managed policy, which costs nothing.

    Raises `InvalidInput` if the document exceeds AWS's limit: too many data buckets.
    """

    def __init__(
        self, scope: Construct, *, hosts: PolicyScope, rules: RoleRules, tags: Mapping[str, str]
    ) -> None:
        super().__init__(scope, "boundary")
        workspace = hosts.where.workspace
        document = _within(
            MAX_POLICY_CHARACTERS,
            policy_text(bounding_statements(hosts, of_each=True)),
            hosts,
            "the policy that bounds the roles of isolated clusters",
            "a network.permissions_boundary",
        )
        policy = IamPolicy(
            self,
            "policy",
            name=boundary_name(workspace, rules.name_prefix),
            path=clusters_role_path(workspace, rules.path),
            description=f"Bounds the roles of clusters in terradask workspace {workspace}",
            policy=literal(document),
            tags=dict(tags),
        )
        at("boundary", policy)
        self.arn: str = policy.arn


def _within(
    limit: int,
    document: str,
    hosts: PolicyScope,
    what: str,
    instead: str = "network.instance_profiles",
) -> str:
    length = characters(json.loads(document))
    if length > limit:
        raise InvalidInput(
            f"{what} is longer than AWS allows",
            given=(
                f"{length} characters, with {len(hosts.data_buckets)} data buckets, "
                f"{len(hosts.task_rights) + len(hosts.task_policies)} task rights and "
                f"{len(hosts.container_repositories)} container repositories"
            ),
            allowed=f"{limit} characters",
            advice=(
                "name fewer network.data_buckets, network.task_rights or "
                f"network.container_repositories, or give {instead} of your own"
            ),
        )
    return document


class GivenIdentity(Construct):
    """Instance profiles that exist already, by role, each with the role in it. Nothing is made or
    changed.
    """

    def __init__(self, scope: Construct, *, profiles: Mapping[str, str]) -> None:
        super().__init__(scope, "identity")
        self.roles: dict[str, Role] = {}
        for role in ROLES:
            profile = DataAwsIamInstanceProfile(self, role, name=profiles[role])
            at(role, profile)
            self.roles[role] = Role(
                arn=profile.role_arn, profile_name=profiles[role], profile_arn=profile.arn
            )
