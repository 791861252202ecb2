"""The limits of callers' rights: the names and tags of one workspace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from terradask_modules.caller_policies._cluster_names import (
    check_names,
    names_of_others,
    names_of_roles,
)
from terradask_modules.caller_policies._limits import CallerLimits
from terradask_modules.iam import Condition, Statement, allow, both, one_or_many, present
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import ResourceKind, Writer
from terradask_modules.names import (
    ROLES,
    TAG_CLUSTER,
    TAG_WORKSPACE,
    boundary_name,
    clusters_role_path,
    log_group_name,
    network_state_key,
    resource_name,
    state_bucket_name,
)
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where

#: AWS (documented, service-roles): The service-linked roles are AWSServiceRoleForAutoScaling of
#: autoscaling.amazonaws.com, and AWSServiceRoleForEC2Spot of spot.amazonaws.com.
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/autoscaling-service-linked-role.html,
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
SERVICE_ROLES = {
    "autoscaling.amazonaws.com": "AWSServiceRoleForAutoScaling",
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
}

#: Most cluster names in a policy.
_MOST_NAMED = 25


@dataclass(frozen=True, kw_only=True)
class CallerScope:
    """The subject of callers' policies."""

    #: The hosts' rights and their limits: the workspace.
    hosts: PolicyScope
    #: Location of the network's state, ``bucket/key``. None: the default bucket.
    network_state: str | None = None
    #: `role_path`, `role_name_prefix`, `permissions_boundary`: The company's rules for roles.
    role_path: str = "/"
    role_name_prefix: str = ""
    permissions_boundary: str | None = None
    #: `given_roles`, `given_profiles`: ARNs of the hosts' existing roles and instance profiles.
    #: Empty: the network makes them.
    given_roles: tuple[str, ...] = ()
    given_profiles: tuple[str, ...] = ()
    #: `given_vpc`, `given_subnets`, `given_security_groups`: Ids of existing resources. None or
    #: empty: the network makes them.
    given_vpc: str | None = None
    given_subnets: tuple[str, ...] = ()
    given_security_groups: tuple[str, ...] = ()
    #: `interface_endpoints`, `egress`, `session_manager`: Whether the network has them.
    interface_endpoints: bool = False
    egress: bool = False
    session_manager: bool = False
    #: The enabled settings among those that add a type of resource (`ResourceKind.setting`).
    settings: frozenset[str] = frozenset()
    #: Whether clusters make their own roles, security groups and launch templates. Only a VPC can
    #: be given then.
    isolated: bool = False
    #: Whether clusters may make their own launch templates, isolated or not.
    own_templates: bool = False
    #: Names of the clusters that the settings make private to their creator; ``*``: any.
    private_clusters: tuple[str, ...] = ()
    #: Account of the state's bucket. None: the workspace's.
    network_state_owner: str | None = None
    #: The customer's key, or an alias of it, for the network's state. None: S3's own.
    state_key_arn: str | None = None
    #: Limits of ``user``'s own.
    limits: CallerLimits = field(default_factory=CallerLimits)

    def __post_init__(self) -> None:
        check_names(
            self.where,
            self.limits.clusters,
            isolated=self.isolated,
            boundary=self.permissions_boundary,
        )

    @property
    def where(self) -> Where:
        """The workspace."""
        return self.hosts.where

    @property
    def workspace(self) -> str:
        """Name of the workspace."""
        return self.where.workspace

    @property
    def bucket(self) -> str:
        """ARN of the workspace's bucket."""
        return self.where.bucket_arn

    @property
    def state_arn(self) -> str:
        """ARN of the network's state."""
        where = self.where
        bucket = state_bucket_name(where.account, where.region)
        return where.s3_arn(self.network_state or f"{bucket}/{network_state_key(where.workspace)}")

    @property
    def state_bucket(self) -> str:
        """ARN of the bucket of the network's state."""
        return self.state_arn.partition("/")[0]

    def ec2(self, *kinds: str) -> list[str]:
        """Return the ARN patterns of kinds of EC2 resources, or the ARN of ``kind/id``."""
        return [self.where.arn("ec2", kind if "/" in kind else f"{kind}/*") for kind in kinds]

    @property
    def given_parts(self) -> list[str]:
        """ARNs of the given security groups and subnets."""
        groups = (f"security-group/{group}" for group in self.given_security_groups)
        return self.ec2(*groups, *(f"subnet/{subnet}" for subnet in self.given_subnets))

    @property
    def own_parts(self) -> list[str]:
        """The kinds among these that the network makes."""
        given = {"security-group": self.given_security_groups, "subnet": self.given_subnets}
        return [kind for kind, ids in given.items() if not ids]

    @property
    def images(self) -> str:
        """ARN pattern of images, which belong to no account."""
        return self.where.aws_arn("ec2", "image/*")

    def _role(self, role: str) -> str:
        return f"{self.role_path}{self.where.role_name(role, self.role_name_prefix)}"

    @property
    def roles(self) -> list[str]:
        """ARNs of the hosts' roles."""
        return list(self.given_roles) or [
            self.where.iam_arn(f"role{self._role(role)}") for role in ROLES
        ]

    @property
    def instance_profiles(self) -> list[str]:
        """ARNs of the hosts' instance profiles."""
        return list(self.given_profiles) or [
            self.where.iam_arn(f"instance-profile{self._role(role)}") for role in ROLES
        ]

    def has(self, kind: ResourceKind) -> bool:
        """Return whether the network has a type of resource by its settings, or in any case."""
        return not kind.setting or kind.setting in self.settings

    @property
    def writers(self) -> dict[str, Writer]:
        """The writers of the network's logs, by the ARNs of their roles."""
        return {
            self.where.iam_arn(f"role{self._role(kind.writer.name)}"): kind.writer
            for kind in KINDS.values()
            if kind.writer is not None and self.has(kind)
        }

    @property
    def made_roles(self) -> list[str]:
        """ARNs of the roles that the network makes."""
        return [*([] if self.given_roles else self.roles), *self.writers]

    def _of_clusters(self, kind: str, name: str = "") -> str:
        name = name or self.where.of_cluster("*").role_name("*", self.role_name_prefix)
        return self.where.iam_arn(
            f"{kind}{clusters_role_path(self.workspace, self.role_path)}{name}"
        )

    @property
    def clusters_roles(self) -> str:
        """ARN pattern of clusters' own roles."""
        return self._of_clusters("role")

    @property
    def clusters_instance_profiles(self) -> str:
        """ARN pattern of clusters' own instance profiles."""
        return self._of_clusters("instance-profile")

    def of_own_clusters(self, kind: str) -> list[str]:
        """Return the ARN patterns of roles, or instance profiles, of the caller's clusters."""
        names = names_of_roles(self.where, self.limits.clusters, self.role_name_prefix)
        return [self._of_clusters(kind, name) for name in names] or [self._of_clusters(kind)]

    def of_other_clusters(self, kind: str) -> list[str]:
        """Return the ARNs that `of_own_clusters` matches, of clusters with other names."""
        names = names_of_others(self.where, self.limits.clusters, self.role_name_prefix)
        return [self._of_clusters(kind, name) for name in names]

    @property
    def clusters_boundary(self) -> str:
        """ARN of the policy that bounds clusters' own roles."""
        return self.permissions_boundary or self._of_clusters(
            "policy", boundary_name(self.workspace, self.role_name_prefix)
        )

    @property
    def task_policies(self) -> list[str]:
        """ARNs of the managed policies that tasks' roles get."""
        return sorted({policy.arn for policy in self.hosts.task_policies})

    def attach(self, sid: str, roles: str | list[str], bound: Condition | None) -> list[Statement]:
        """Return the right to attach only these to roles."""
        if not self.task_policies:
            return []
        named: Condition = {"ArnEquals": {"iam:PolicyARN": one_or_many(self.task_policies)}}
        return [allow(sid, "iam:AttachRolePolicy", roles, both(bound or {}, named))]

    @property
    def made_boundary(self) -> str | None:
        """ARN of that policy if the network makes it. None: clusters have no own roles, or it is
        given.
        """
        return (
            self.clusters_boundary if self.isolated and self.permissions_boundary is None else None
        )

    @property
    def service_roles(self) -> list[str]:
        """ARNs of the service-linked roles."""
        return [
            self.where.iam_arn(f"role/aws-service-role/{service}/{name}")
            for service, name in SERVICE_ROLES.items()
        ]

    @staticmethod
    def asked_for(arns: Iterable[str]) -> list[str]:
        """Return ARNs in the form that IAM checks for missing names, which have no path."""
        arns = list(arns)
        named = [f"{arn.partition('/')[0]}/{arn.rpartition('/')[2]}" for arn in arns]
        return list(dict.fromkeys([*arns, *named]))

    @property
    def groups(self) -> str:
        """ARN pattern of the clusters' Auto Scaling groups. It also matches longer workspace names:
        bind it to the tag.
        """
        return self.where.group_arn(resource_name(self.workspace, "*"))

    @property
    def secrets(self) -> str:
        """ARN pattern of the clusters' secrets."""
        return self.where.secrets_arn

    @property
    def own_secrets(self) -> str | list[str]:
        """ARN patterns of the secrets of the caller's clusters."""
        names = self.limits.clusters
        patterns = [self.where.of_cluster(name).secrets_arn for name in names]
        return one_or_many(patterns) if patterns else self.secrets

    def objects(self, before: str, after: str) -> str | list[str]:
        """Return the ARN patterns of objects of the caller's clusters, by what is before and after
        a cluster's name.
        """
        names = self.limits.clusters or ("*",)
        return one_or_many(f"{self.bucket}/{before}{name}{after}" for name in names)

    @property
    def private_secrets(self) -> list[str]:
        """ARN patterns of the secrets of clusters that the settings make private."""
        if "*" in self.private_clusters or len(self.private_clusters) > _MOST_NAMED:
            return [self.secrets]
        return [self.where.of_cluster(name).secrets_arn for name in self.private_clusters]

    @property
    def hosts_log_group(self) -> str:
        """ARN pattern of the log group that hosts write to, with its streams."""
        return f"{self.where.log_group_arn}:*"

    @property
    def log_groups(self) -> list[str]:
        """ARNs of the log groups: some actions take them with their streams, some without."""
        names = [
            log_group_name(self.workspace),
            *(writer.log_group(self.workspace) for writer in self.writers.values()),
        ]
        return [
            self.where.arn("logs", f"log-group:{name}{streams}")
            for name in names
            for streams in ("", ":*")
        ]

    @property
    def tagged(self) -> Condition:
        """The request gives the resource this workspace's tag."""
        return {"StringEquals": {f"aws:RequestTag/{TAG_WORKSPACE}": self.workspace}}

    def named(self, key: str) -> Condition:
        """Return the condition that a tag has the name of one of the caller's clusters."""
        names = self.limits.clusters
        return {"StringLike": {key: one_or_many(names)}} if names else present(key)

    @property
    def owned_by_a_cluster(self) -> Condition:
        """The resource has this workspace's tag and a cluster's, so it isn't the network's."""
        return both(self.where.own, self.named(f"aws:ResourceTag/{TAG_CLUSTER}"))

    @property
    def tagged_for_a_cluster(self) -> Condition:
        """The request gives the resource this workspace's tag and a cluster's."""
        return both(self.tagged, self.named(f"aws:RequestTag/{TAG_CLUSTER}"))

    @property
    def tagged_for_a_cluster_in_this_case(self) -> Condition:
        """The same, by keys that are written as everything that reads them expects.

        AWS (documented): The tag's key in the name of a condition key matches in any case; values
        of aws:TagKeys, which StringEquals compares, in the same one.
        https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
        """
        # Each key has an operator of its own: of one operator's values one is enough.
        return both(
            self.tagged_for_a_cluster,
            {"ForAnyValue:StringEquals": {"aws:TagKeys": TAG_WORKSPACE}},
            {"ForAnyValue:StringLike": {"aws:TagKeys": TAG_CLUSTER}},
        )

    @property
    def own(self) -> Condition:
        """The resource is the workspace's; of a caller with clusters of its own, one of theirs."""
        return self.owned_by_a_cluster if self.limits.clusters else self.where.own

    @property
    def tagged_as_own(self) -> Condition:
        """The request gives the resource the tags by which it is the caller's own."""
        return self.tagged_for_a_cluster if self.limits.clusters else self.tagged

    @property
    def moving_to_no_other_cluster(self) -> Condition:
        """The resource has no cluster's tags yet, or those in the request.

        AWS (documented): IAM may evaluate a new resource's aws:ResourceTag by the request's tags.
        https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
        """
        given = f"${{aws:RequestTag/{TAG_CLUSTER}}}"
        return {
            "StringEqualsIfExists": {
                f"aws:ResourceTag/{TAG_WORKSPACE}": self.workspace,
                f"aws:ResourceTag/{TAG_CLUSTER}": given,
            }
        }

    @property
    def keeping_the_tags_of_a_cluster(self) -> Condition:
        """The resource has this workspace's tag and a cluster's, unchanged by the request."""
        return self.keeping(self.owned_by_a_cluster, TAG_WORKSPACE, TAG_CLUSTER)

    @staticmethod
    def keeping(owned: Condition, *tags: str) -> Condition:
        """Return the condition that a resource is owned so, and the request names its tags without
        these.
        """
        # A request without tag names removes all tags. In another case a tag is another one, by
        # which a condition may decide.
        return both(
            owned,
            present("aws:TagKeys"),
            {"ForAllValues:StringNotEqualsIgnoreCase": {"aws:TagKeys": list(tags)}},
        )

    @property
    def to_instances(self) -> Condition:
        """The role is passed to EC2 instances."""
        return {"StringEquals": {"iam:PassedToService": f"ec2.{self.where.dns_suffix}"}}

    # ---- statements of a kind --------------------------------------------------------------------

    def see(self, sid: str, actions: str | list[str]) -> Statement:
        """Return the right to list resources in the region: such calls have no resource."""
        return allow(sid, actions, "*", self.where.here)

    def tag_at_birth(
        self, sid: str, arns: list[str], tagged: Condition, made_by: str | list[str]
    ) -> Statement:
        """Return the right to tag EC2 resources only in the calls that create them."""
        made = {"StringEquals": {"ec2:CreateAction": made_by}}
        return allow(sid, "ec2:CreateTags", arns, both(tagged, made))


def demanding(boundary: str) -> Condition:
    """Return the condition that a role has, or gets, a permissions boundary."""
    return {"StringEquals": {"iam:PermissionsBoundary": boundary}}
