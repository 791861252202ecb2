"""Who hosts are: a role and an instance profile for schedulers and for workers, with the least that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from terradask_modules.aws import Construct, IamInstanceProfile, IamRole, IamRolePolicy, at
from terradask_modules.names import resource_name
from terradask_modules.policies import PolicyScope, scheduler_policy, trust_policy, worker_policy


@dataclass(frozen=True)
class Role:
    """A role as other parts refer to it."""

    arn: str
    profile_name: str
    profile_arn: str


class Identity(Construct):
    """The roles of hosts.

    Resources created: for schedulers and for workers a role, its one inline policy, an instance profile. They cost nothing.

    Permissions needed: ``iam:CreateRole``, ``PutRolePolicy``, ``CreateInstanceProfile``, ``AddRoleToInstanceProfile``, their
    ``Get``, ``Tag`` and ``Delete`` counterparts; ``iam:PassRole`` on both roles for whoever starts clusters.

    Parameters
    ----------
    scope
        The stack.
    where
        Where the roles' rights end.
    tags
        Tags of every resource.
    """

    def __init__(self, scope: Construct, *, where: PolicyScope, tags: Mapping[str, str]) -> None:
        super().__init__(scope, "identity")
        self.roles: dict[str, Role] = {}
        for role_name, policy in (("scheduler", scheduler_policy(where)), ("worker", worker_policy(where))):
            self.roles[role_name] = self._role(role_name, policy, where, dict(tags))

    def _role(self, role_name: str, policy: str, where: PolicyScope, tags: dict[str, str]) -> Role:
        name = resource_name(where.workspace, role_name)
        role = IamRole(
            self,
            f"{role_name}-role",
            name=name,
            description=f"Dask {role_name} hosts of terradask workspace {where.workspace}",
            assume_role_policy=trust_policy(where.partition),
            tags=tags,
        )
        at(role_name, role)
        inline = IamRolePolicy(self, f"{role_name}-policy", name=name, role=role.name, policy=policy)
        at(role_name, inline)
        profile = IamInstanceProfile(self, f"{role_name}-profile", name=name, role=role.name, tags=tags)
        at(role_name, profile)
        return Role(arn=role.arn, profile_name=name, profile_arn=profile.arn)
