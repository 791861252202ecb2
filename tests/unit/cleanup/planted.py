"""What isolated clusters and a network have of their own, planted in an account."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

from terradask._aws.session import Aws
from terradask._cleanup.recover import ClusterRecovery
from terradask._cleanup.resources import Resource, cluster_resource_types
from terradask._cleanup.search import ClusterSearch
from terradask._common.progress import ProgressEvent
from terradask._network.baseline import Isolated
from terradask._observe.record import ClusterRecord
from terradask_modules.names import (
    ROLES,
    clusters_role_path,
    host_name,
    resource_name,
    role_name,
)
from terradask_modules.where import Where

REGION = "us-east-1"
PREFIX = "dept-"
DOCUMENT = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
)
DASK = {"IpProtocol": "tcp", "FromPort": 1024, "ToPort": 65535}


def isolated(workspace: str = "default") -> Isolated:
    return Isolated(role_path=clusters_role_path(workspace), role_name_prefix=PREFIX)


class Planted:
    """Everything that an isolated cluster has of its own, as its stack makes it; without a cluster,
    the network's of the same kinds.
    """

    def __init__(
        self,
        aws: Aws,
        workspace: str,
        cluster: str | None,
        *,
        kinds: frozenset[str] = cluster_resource_types(),
    ) -> None:
        self._ec2, self._iam = aws.client("ec2"), aws.client("iam")
        self._workspace, self._cluster = workspace, cluster
        self._tags = tagged(workspace, cluster)
        self.groups: dict[str, str] = {}
        if "aws_placement_group" in kinds and cluster is not None:
            self._ec2.create_placement_group(
                GroupName=resource_name(f"{workspace}.{cluster}"),
                Strategy="cluster",
                TagSpecifications=[{"ResourceType": "placement-group", "Tags": self._tags}],
            )
        if "aws_security_group" in kinds:
            self._make_groups()
        for role in ROLES:
            if "aws_iam_role" in kinds:
                self._make_role(role)
            if "aws_launch_template" in kinds:
                self._ec2.create_launch_template(
                    LaunchTemplateName=host_name(workspace, role, cluster),
                    LaunchTemplateData={"InstanceType": "m6i.large"},
                    TagSpecifications=[{"ResourceType": "launch-template", "Tags": self._tags}],
                )

    def _make_groups(self) -> None:
        vpc = self._ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        for role in ROLES:
            name = host_name(self._workspace, role, self._cluster)
            specification = {
                "ResourceType": "security-group",
                "Tags": [*self._tags, {"Key": "Name", "Value": name}],
            }
            self.groups[role] = self._ec2.create_security_group(
                GroupName=name, Description=name, VpcId=vpc, TagSpecifications=[specification]
            )["GroupId"]
        # They name each other.
        for role, peer in (("scheduler", "worker"), ("worker", "scheduler"), ("worker", "worker")):
            self.admit(role, peer)
            self.let_out(role, peer)

    def admit(self, role: str, peer: str, *, tags: bool = True) -> str:
        """Make a rule, and return its id."""
        return self._rule(self._ec2.authorize_security_group_ingress, role, peer, tags)

    def let_out(self, role: str, peer: str, *, tags: bool = True) -> str:
        """Make a rule, and return its id."""
        return self._rule(self._ec2.authorize_security_group_egress, role, peer, tags)

    def _rule(self, authorize: Any, role: str, peer: str, tags: bool) -> str:
        specifications = (
            [{"ResourceType": "security-group-rule", "Tags": self._tags}] if tags else []
        )
        permission = {**DASK, "UserIdGroupPairs": [{"GroupId": self.groups[peer]}]}
        made = authorize(
            GroupId=self.groups[role], IpPermissions=[permission], TagSpecifications=specifications
        )
        identity: str = made["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        return identity

    def _make_role(self, role: str) -> None:
        name, path = (
            role_name(self._workspace, role, PREFIX, self._cluster),
            clusters_role_path(self._workspace),
        )
        self._iam.create_role(
            RoleName=name, Path=path, AssumeRolePolicyDocument=DOCUMENT, Tags=self._tags
        )
        self._iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=DOCUMENT)
        self._iam.create_instance_profile(InstanceProfileName=name, Path=path, Tags=self._tags)
        self._iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)


def templates(aws: Aws) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = aws.client("ec2").describe_launch_templates()["LaunchTemplates"]
    return found


def place(workspace: str = "default", cluster: str | None = None) -> Where:
    where = Where(partition="aws", region=REGION, account="123456789012", workspace=workspace)
    return where if cluster is None else where.of_cluster(cluster)


def search(
    aws: Aws, named: Isolated | None, workspace: str = "default", *, own_templates: bool = True
) -> ClusterSearch:
    return ClusterSearch(aws, place(workspace), named, own_templates)


def tagged(workspace: str, cluster: str | None = None) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in place(workspace, cluster).tags.items()]


def own(aws: Aws, cluster: str, workspace: str = "default") -> list[Resource]:
    return search(aws, isolated(workspace), workspace).find(cluster)


def ids(found: list[Resource]) -> set[tuple[str, str]]:
    return {(resource.type, resource.id) for resource in found}


def as_state(found: list[Resource]) -> dict[str, str]:
    """Return a state that knows all of them."""
    numbers = itertools.count()
    return {f"{resource.type}.r{next(numbers)}": resource.id for resource in found}


def remains(
    aws: Aws,
    cluster: str,
    events: list[ProgressEvent],
    *,
    is_isolated: bool = True,
    own_templates: bool = False,
) -> ClusterRecovery:
    network: Any = SimpleNamespace(
        where=place(),
        isolated=lambda: isolated() if is_isolated else None,
        own_templates=lambda: own_templates,
    )
    return ClusterRecovery(
        aws,
        ClusterRecord(aws, "terradask-default-123456789012-us-east-1", cluster),
        network,
        events.append,
    )
