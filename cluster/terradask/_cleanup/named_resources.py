"""Find single resources by their names, of services that list none by tags."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import unless
from terradask._aws.tags import tags_of
from terradask._cleanup.resources import Resource
from terradask.errors import AccessDenied
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Named

if TYPE_CHECKING:
    from terradask._aws.session import Aws


def find_named(aws: Aws, kind: str, name: str, path: str = "/") -> list[Resource]:
    """Return the resource of this kind and name, if there is one."""
    about = KINDS[kind]
    assert isinstance(about.find, Named)  # only such kinds
    place = {"partition": aws.partition, "region": aws.region, "account": aws.account_id}
    identity = about.find.arn.format(**place, path=path, name=name) or name
    client = aws.client(about.service)
    if about.find.call:
        return find_by_name(client, kind, identity)
    return find_log_group(client, identity)


def find_by_name(client: Any, kind: str, identity: str) -> list[Resource]:
    """Return the resource of this kind and name or ARN, if there is one, by a single call."""
    find = KINDS[kind].find
    assert isinstance(find, Named)  # only such kinds
    with unless("NoSuchEntity", "ResourceNotFound", "NotFound"):
        found = getattr(client, find.call)(**{find.argument: identity})[find.key]
        # Where a call returns tags alone, there is no more to know.
        about = {"Tags": found} if isinstance(found, list) else found
        return [Resource(kind, identity, tags_of(about.get("Tags")), about)]
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
