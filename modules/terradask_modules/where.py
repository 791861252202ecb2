"""A workspace or one of its clusters, its place in AWS, and its names and ARNs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from terradask_modules.iam import Condition, one_or_many
from terradask_modules.names import (
    TAG_CLUSTER,
    TAG_WORKSPACE,
    bucket_name,
    group_name,
    host_name,
    log_group_name,
    role_name,
    secret_id,
    secrets_prefix,
)
from terradask_modules.partitions import dns_suffix, partition_of


@dataclass(frozen=True, kw_only=True)
class Where:
    """One workspace: its network, or any cluster of it."""

    #: ``aws``, ``aws-cn`` or ``aws-us-gov``.
    partition: str
    region: str
    account: str
    workspace: str
    #: None: only a `ClusterWhere` is about one cluster.
    cluster: str | None = None

    @classmethod
    def of_bucket(cls, bucket: str, region: str) -> Where | None:
        """Return the workspace of a bucket's name, or None."""
        name = rf"terradask-([a-z][a-z0-9-]*)-([0-9]{{12}})-{re.escape(region)}"
        found = re.fullmatch(name, bucket)
        return found and cls(
            partition=partition_of(region),
            region=region,
            account=found[2],
            workspace=found[1],
        )

    def of_cluster(self, cluster: str) -> ClusterWhere:
        """Return the place of one of the workspace's clusters."""
        return ClusterWhere(**{**vars(self), "cluster": cluster})

    # ---- what AWS knows of it --------------------------------------------------------------------

    @property
    def dns_suffix(self) -> str:
        """Suffix of services' names."""
        return dns_suffix(self.partition)

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def aws_arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource of AWS's own in this region."""
        return f"arn:{self.partition}:{service}:{self.region}::{resource}"

    def iam_arn(self, resource: str) -> str:
        """Return an ARN of IAM, which has no region."""
        return f"arn:{self.partition}:iam::{self.account}:{resource}"

    def s3_arn(self, bucket: str) -> str:
        """Return the ARN of a bucket, or of objects in it: without region and account."""
        return f"arn:{self.partition}:s3:::{bucket}"

    # ---- the workspace's names -------------------------------------------------------------------

    @property
    def bucket(self) -> str:
        """Name of the workspace's bucket."""
        return bucket_name(self.workspace, self.account, self.region)

    @property
    def bucket_arn(self) -> str:
        """ARN of the workspace's bucket."""
        return self.s3_arn(self.bucket)

    @property
    def log_group_arn(self) -> str:
        """ARN of the log group that hosts write to."""
        return self.arn("logs", f"log-group:{log_group_name(self.workspace)}")

    # ---- the workspace's, or the cluster's own ---------------------------------------------------

    @property
    def tags(self) -> dict[str, str]:
        """The tags that identify its resources."""
        tags = {TAG_WORKSPACE: self.workspace}
        return tags if self.cluster is None else {**tags, TAG_CLUSTER: self.cluster}

    @property
    def own(self) -> Condition:
        """Condition: the resource carries these tags."""
        return {"StringEquals": {f"aws:ResourceTag/{key}": it for key, it in self.tags.items()}}

    @property
    def here(self) -> Condition:
        """Condition: the region, AWS's narrowest one for actions without a resource."""
        return {"StringEquals": {"aws:RequestedRegion": self.region}}

    def through(self, *services: str) -> Condition:
        """Return the condition that services, such as ``s3``, use a key in the caller's name."""
        names = [f"{service}.{self.region}.{self.dns_suffix}" for service in services]
        return {"StringEquals": {"kms:ViaService": one_or_many(names)}}

    def host_name(self, role: str) -> str:
        """Return the name of a role's templates and security groups."""
        return host_name(self.workspace, role, self.cluster)

    def role_name(self, role: str, prefix: str = "") -> str:
        """Return the name of a role and of its instance profile."""
        return role_name(self.workspace, role, prefix, self.cluster)

    @property
    def secrets_arn(self) -> str:
        """ARN pattern of its secrets."""
        return self.arn("secretsmanager", f"secret:{secrets_prefix(self.workspace)}*")

    def group_arn(self, name: str) -> str:
        """Return the ARN pattern of an Auto Scaling group, from AWS's name."""
        return self.arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{name}")


@dataclass(frozen=True, kw_only=True)
class ClusterWhere(Where):
    """One cluster of a workspace."""

    # Without the default.
    cluster: str = field()

    @property
    def secrets_arn(self) -> str:
        """ARN pattern of its secret."""
        # Their fixed number excludes longer names.
        # AWS (documented, secret-suffix): Secrets Manager puts a hyphen and six random characters
        # behind a secret's name in its ARN.
        # https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html
        return self.arn("secretsmanager", f"secret:{self.secret_id}-??????")

    @property
    def secret_id(self) -> str:
        """Name of the cluster's secret."""
        return secret_id(self.workspace, self.cluster)

    def group_name(self, group: str) -> str:
        """Return AWS's name of an Auto Scaling group, from the cluster's own."""
        return group_name(self.workspace, self.cluster, group)
