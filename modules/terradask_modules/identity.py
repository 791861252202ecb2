"""Who hosts are: a role and an instance profile for schedulers and for workers, with the least that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from terradask_modules.aws import Construct, DataAwsIamInstanceProfile, IamInstanceProfile, IamRole, IamRolePolicy, at
from terradask_modules.names import ROLES, role_name
from terradask_modules.policies import PolicyScope, scheduler_policy, trust_policy, worker_policy


@dataclass(frozen=True)
class Role:
    """A role as other parts refer to it."""

    arn: str
    profile_name: str
    profile_arn: str


@dataclass(frozen=True, kw_only=True)
class RoleRules:
    """What a company prescribes for every role that is made in its account.

    Parameters
    ----------
    path
        Path of roles and instance profiles.
    name_prefix
        What their names begin with.
    permissions_boundary
        ARN of the policy that bounds their rights. None: nothing does.
    """

    path: str = "/"
    name_prefix: str = ""
    permissions_boundary: str | None = None


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
    rules
        What the company prescribes for roles.
    tags
        Tags of every resource.
    """

    def __init__(self, scope: Construct, *, where: PolicyScope, rules: RoleRules, tags: Mapping[str, str]) -> None:
        super().__init__(scope, "identity")
        self._rules = rules
        self.roles: dict[str, Role] = {}
        for role, policy in (("scheduler", scheduler_policy(where)), ("worker", worker_policy(where))):
            self.roles[role] = self._role(role, policy, where, dict(tags))

    def _role(self, role: str, policy: str, where: PolicyScope, tags: dict[str, str]) -> Role:
        name, path = role_name(where.workspace, role, self._rules.name_prefix), self._rules.path
        made = IamRole(
            self,
            f"{role}-role",
            name=name,
            # Unset stays unset: what runs doesn't show up in a plan.
            path=path if path != "/" else None,
            permissions_boundary=self._rules.permissions_boundary,
            description=f"Dask {role} hosts of terradask workspace {where.workspace}",
            assume_role_policy=trust_policy(where.partition),
            tags=tags,
        )
        at(role, made)
        inline = IamRolePolicy(self, f"{role}-policy", name=name, role=made.name, policy=policy)
        at(role, inline)
        profile = IamInstanceProfile(self, f"{role}-profile", name=name, path=path if path != "/" else None, role=made.name, tags=tags)
        at(role, profile)
        return Role(arn=made.arn, profile_name=name, profile_arn=profile.arn)


class GivenIdentity(Construct):
    """Instance profiles that exist already, each with the role in it. Nothing is made or changed.

    Permission needed: ``iam:GetInstanceProfile``; ``iam:PassRole`` on the roles for whoever starts clusters.

    Parameters
    ----------
    scope
        The stack.
    profiles
        ``scheduler`` and ``worker`` -> name of the instance profile.
    """

    def __init__(self, scope: Construct, *, profiles: Mapping[str, str]) -> None:
        super().__init__(scope, "identity")
        self.roles: dict[str, Role] = {}
        for role in ROLES:
            profile = DataAwsIamInstanceProfile(self, role, name=profiles[role])
            at(role, profile)
            self.roles[role] = Role(arn=profile.role_arn, profile_name=profiles[role], profile_arn=profile.arn)
