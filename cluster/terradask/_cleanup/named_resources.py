"""Find single resources by their names: of IAM, CloudWatch Logs, SNS and S3, which list none by
tags.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.tags import tags_of
from terradask._cleanup.resources import Resource
from terradask.errors import AccessDenied

#: Terraform's type -> boto3's method, its parameter for the name, the key in its answer.
_IN_IAM = {
    "aws_iam_role": ("get_role", "RoleName", "Role"),
    "aws_iam_instance_profile": ("get_instance_profile", "InstanceProfileName", "InstanceProfile"),
    "aws_iam_policy": ("get_policy", "PolicyArn", "Policy"),
}


def find_in_iam(client: Any, kind: str, identity: str) -> list[Resource]:
    """Return the role, instance profile or policy of this name or ARN, if there is one."""
    method, argument, key = _IN_IAM[kind]
    with unless("NoSuchEntity"):
        found = getattr(client, method)(**{argument: identity})[key]
        return [Resource(kind, identity, tags_of(found.get("Tags")), found)]
    return []


def find_role_policies(client: Any, role: str) -> list[Resource]:
    """Return the inline policies of a role."""
    names: list[str] = []
    with unless("NoSuchEntity"):
        names = client.list_role_policies(RoleName=role)["PolicyNames"]
    return [
        Resource(
            "aws_iam_role_policy",
            f"{role}:{name}",
            description={"RoleName": role, "PolicyName": name},
        )
        for name in names
    ]


def find_log_group(client: Any, name: str) -> list[Resource]:
    """Return the log group of this name, if there is one."""
    groups = client.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    return [
        Resource(
            "aws_cloudwatch_log_group",
            name,
            client.list_tags_for_resource(resourceArn=_plain_arn(group["arn"]))["tags"],
            group,
        )
        for group in groups
        if group["logGroupName"] == name
    ]


def find_topic(client: Any, arn: str) -> list[Resource]:
    """Return the topic of SNS of this ARN, if there is one."""
    with unless("ResourceNotFound", "NotFound"):
        tags = client.list_tags_for_resource(ResourceArn=arn)["Tags"]
        name = {"TopicName": arn.rpartition(":")[2]}
        return [Resource("aws_sns_topic", arn, tags_of(tags), name)]
    return []


def find_bucket(client: Any, name: str, account: str) -> list[Resource]:
    """Return the bucket of this name, if this account has it."""
    # Of another account's, Terraform reports that it is to create a bucket of this name.
    found = None
    with suppress(AccessDenied), unless("NoSuchBucket", "404"):
        found = client.head_bucket(Bucket=name, ExpectedBucketOwner=account)
    if found is None:
        return []
    tags = []
    with unless("NoSuchTagSet"):
        tags = client.get_bucket_tagging(Bucket=name, ExpectedBucketOwner=account)["TagSet"]
    return [Resource("aws_s3_bucket", name, tags_of(tags))]


def _plain_arn(arn: str) -> str:
    # CloudWatch Logs returns a group's ARN with ":*", and lists tags by the ARN without it.
    return arn.removesuffix(":*")
