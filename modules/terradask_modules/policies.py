"""What hosts may do in the account, as IAM policy documents. Pure: plain dictionaries, no construct.

Everything that changes something names this workspace's resources, by name and, where names could overlap with another
workspace's, by tag.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from terradask_modules.names import TAG_WORKSPACE, bucket_name, flow_log_group_name, log_group_name, resource_name, secrets_prefix

Statement = dict[str, Any]

#: What a host reads of a cluster. Terraform's state is not among it.
_READABLE = ("cluster.json", "run.json", "software.lock", "scheduler.json")


@dataclass(frozen=True, kw_only=True)
class PolicyScope:
    """Where a role's rights end.

    Parameters
    ----------
    partition
        ``aws``, ``aws-cn`` or ``aws-us-gov``.
    region, account, workspace
        The place.
    data_buckets
        ``bucket`` or ``bucket/prefix`` that hosts may read and write.
    kms_key_arn
        The customer's key for the bucket and the secrets. None: AWS's own.
    """

    partition: str
    region: str
    account: str
    workspace: str
    data_buckets: Sequence[str] = ()
    kms_key_arn: str | None = None

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of something in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    @property
    def dns_suffix(self) -> str:
        """What the names of services end with."""
        return "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"

    @property
    def bucket_arn(self) -> str:
        """ARN of the workspace's bucket."""
        return f"arn:{self.partition}:s3:::{bucket_name(self.workspace, self.account, self.region)}"

    @property
    def own(self) -> dict[str, dict[str, str]]:
        """Condition: the resource carries this workspace's tag."""
        return {"StringEquals": {f"aws:ResourceTag/{TAG_WORKSPACE}": self.workspace}}


def trust_policy(partition: str) -> str:
    """Return the document by which EC2 alone may hand a role to instances."""
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    return _document([{"Effect": "Allow", "Principal": {"Service": f"ec2.{suffix}"}, "Action": "sts:AssumeRole"}])


def scheduler_policy(scope: PolicyScope) -> str:
    """Return what a scheduler's host may do: a worker's rights, and to move its cluster's numbers."""
    return _document(
        [
            *_common(scope),
            _allow("PublishAddresses", "s3:PutObject", f"{scope.bucket_arn}/clusters/*/scheduler.json"),
            _allow(
                "MoveOwnGroups",
                [
                    "autoscaling:PutScheduledUpdateGroupAction",
                    "autoscaling:SetDesiredCapacity",
                ],
                _groups(scope),
                scope.own,
            ),
        ]
    )


def worker_policy(scope: PolicyScope) -> str:
    """Return what a worker's host may do."""
    return _document(_common(scope))


def flow_logs_trust_policy(scope: PolicyScope) -> str:
    """Return the document by which VPC Flow Logs alone, and for this account alone, may take a role."""
    return _document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Service": "vpc-flow-logs.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {
                    "StringEquals": {"aws:SourceAccount": scope.account},
                    "ArnLike": {"aws:SourceArn": scope.arn("ec2", "vpc-flow-log/*")},
                },
            }
        ]
    )


def flow_logs_policy(scope: PolicyScope) -> str:
    """Return what VPC Flow Logs may do: write to its log group."""
    group = scope.arn("logs", f"log-group:{flow_log_group_name(scope.workspace)}")
    return _document(
        [
            _allow(
                "WriteFlowLogs",
                ["logs:CreateLogStream", "logs:DescribeLogGroups", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                [group, f"{group}:*"],
            )
        ]
    )


def bucket_policy(bucket_arn: str) -> str:
    """Return the document that refuses every request without TLS."""
    return _document(
        [
            {
                "Sid": "TlsOnly",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": [bucket_arn, f"{bucket_arn}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ]
    )


def _common(scope: PolicyScope) -> list[Statement]:
    bucket = scope.bucket_arn
    readable = [f"{bucket}/host/*", *(f"{bucket}/clusters/*/{name}" for name in _READABLE)]
    secrets = scope.arn("secretsmanager", f"secret:{secrets_prefix(scope.workspace)}*")
    logs = scope.arn("logs", f"log-group:{log_group_name(scope.workspace)}:*")
    return [
        _allow("ReadWorkspace", "s3:GetObject", readable),
        # Without it S3 answers 403 instead of 404 for an object that is not there yet, and hosts wait for such objects.
        _allow("TellAbsentFromForbidden", "s3:ListBucket", bucket),
        _allow("ReportState", "s3:PutObject", f"{bucket}/clusters/*/hosts/*"),
        _allow("ReadKeys", "secretsmanager:GetSecretValue", secrets),
        _allow("WriteLogs", ["logs:CreateLogStream", "logs:PutLogEvents"], logs),
        _allow("LeaveForGood", "autoscaling:TerminateInstanceInAutoScalingGroup", _groups(scope), scope.own),
        *_data_statements(scope),
        *_key_statements(scope),
    ]


def _groups(scope: PolicyScope) -> str:
    name = resource_name(scope.workspace, "*")
    return scope.arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{name}")


def _data_statements(scope: PolicyScope) -> list[Statement]:
    statements = []
    for number, path in enumerate(sorted(scope.data_buckets)):
        bucket, _, prefix = path.partition("/")
        arn = f"arn:{scope.partition}:s3:::{bucket}"
        within = {"StringLike": {"s3:prefix": [prefix, f"{prefix}/*"]}} if prefix else None
        statements += [
            _allow(f"ListData{number}", "s3:ListBucket", arn, within),
            _allow(f"LocateData{number}", "s3:GetBucketLocation", arn),
            _allow(
                f"UseData{number}",
                [
                    "s3:AbortMultipartUpload",
                    "s3:DeleteObject",
                    "s3:GetObject",
                    "s3:ListMultipartUploadParts",
                    "s3:PutObject",
                ],
                f"{arn}/{prefix}/*" if prefix else f"{arn}/*",
            ),
        ]
    return statements


def _key_statements(scope: PolicyScope) -> list[Statement]:
    if scope.kms_key_arn is None:
        return []
    services = [f"{service}.{scope.region}.{scope.dns_suffix}" for service in ("s3", "secretsmanager")]
    through = {"StringEquals": {"kms:ViaService": services}}
    return [_allow("UseKey", ["kms:Decrypt", "kms:GenerateDataKey"], scope.kms_key_arn, through)]


def _allow(sid: str, action: str | list[str], resource: str | list[str], condition: dict[str, Any] | None = None) -> Statement:
    statement: Statement = {"Sid": sid, "Effect": "Allow", "Action": action, "Resource": resource}
    if condition:
        statement["Condition"] = condition
    return statement


def _document(statements: list[Statement]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=1)
