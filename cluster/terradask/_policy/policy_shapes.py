"""Shapes of policies that name principals: who assumes roles, uses the bucket, reads a secret."""

from __future__ import annotations

from typing import Any

from terradask._policy.document_shapes import ANY, may, must
from terradask._policy.grants import FLOW_LOGS, SCHEDULER, WORKER
from terradask._policy.shapes import All, Shape


def _policy(**statement: Any) -> Shape:
    return {"Version": must("2012-10-17"), "Statement": must({"Sid": may(ANY), **statement})}


def _trust(principal: str, condition: Any = None) -> Shape:
    conditions = {"Condition": must(condition)} if condition else {}
    return _policy(
        Effect=must("Allow"),
        Principal=must({"Service": must(principal)}),
        Action=must("sts:AssumeRole"),
        **conditions,
    )


_HOSTS_TRUST = _trust("ec2.{suffix}")
#: Role -> who may assume it.
TRUST: dict[str, Shape] = {
    SCHEDULER: _HOSTS_TRUST,
    WORKER: _HOSTS_TRUST,
    # The conditions keep other accounts' flow logs from it:
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html
    FLOW_LOGS: _trust(
        # Of this name in every partition.
        "vpc-flow-logs.amazonaws.com",
        {
            "StringEquals": must({"aws:SourceAccount": must("{account}")}),
            "ArnLike": must(
                {
                    "aws:SourceArn": must(
                        "arn:{partition}:ec2:{region}:{account}:vpc-flow-log/{star}"
                    )
                }
            ),
        },
    ),
}

#: The workspace's bucket refuses what doesn't come over TLS, and allows nothing.
BUCKET_POLICY = _policy(
    Effect=must("Deny"),
    Principal=must("{star}"),
    Action=must("s3:{star}"),
    Resource=must(All("arn:{partition}:s3:::{bucket}", "arn:{partition}:s3:::{bucket}/{star}")),
    Condition=must({"Bool": must({"aws:SecureTransport": must("false")})}),
)

#: The topic that the network makes does the same, and leaves the rest to IAM.
TOPIC_POLICY = _policy(
    Effect=must("Deny"),
    Principal=must("{star}"),
    Action=must("sns:Publish"),
    Resource=must("arn:{partition}:sns:{region}:{account}:terradask-{workspace}-ends"),
    Condition=must({"Bool": must({"aws:SecureTransport": must("false")})}),
)

_BASELINE = "jsondecode(data.aws_s3_object.baseline.body)"
_ROLE = "arn:{partition}:iam::{account}:role"
#: A private cluster's secret is read by principals of the account that are named, and its hosts.
SECRET_POLICY = _policy(
    Effect=must("Deny"),
    Principal=must("{star}"),
    Action=must(
        All(
            "secretsmanager:DeleteResourcePolicy",
            "secretsmanager:DeleteSecret",
            "secretsmanager:GetSecretValue",
            "secretsmanager:PutResourcePolicy",
            "secretsmanager:PutSecretValue",
            "secretsmanager:ReplicateSecretToRegions",
            "secretsmanager:RotateSecret",
            "secretsmanager:TagResource",
            "secretsmanager:UntagResource",
            "secretsmanager:UpdateSecret",
            "secretsmanager:UpdateSecretVersionStage",
        )
    ),
    Resource=must("{star}"),
    Condition=must(
        {
            "ArnNotLike": must(
                {
                    "aws:PrincipalArn": must(
                        "arn:{partition}:iam::{account}:root",
                        "arn:{partition}:iam::{account}:user/*",
                        # Federated users; and as moto names callers that are no user of IAM's.
                        "arn:{partition}:sts::{account}:federated-user/*",
                        "arn:{partition}:sts::{account}:user/*",
                        f"{_ROLE}/*",
                        f"{_ROLE}/{{star}}/*",
                        f"${{{_BASELINE}.roles.scheduler}}",
                        f"${{{_BASELINE}.roles.worker}}",
                        f"{_ROLE}${{{_BASELINE}.isolated.role_path}}"
                        f"${{{_BASELINE}.isolated.role_name_prefix}}*",
                    )
                }
            )
        }
    ),
)
