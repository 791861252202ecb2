"""Validate names of AWS's resources and places: regions, ids, types, paths, ARNs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from terradask_modules.image_rights import REPOSITORY
from terradask_modules.secret_policy import PRINCIPAL_PATTERN
from terradask_stacks.hardware.request import MAX_TYPES, TYPE_NAME
from terradask_stacks.validators.refusal import Check, matching, refuse, unique

#: Role names have up to 64 characters: ``terradask-``, a workspace's 20 and what each is for use
#: up to 40 of them.
MAX_ROLE_PREFIX_LENGTH = 24
#: AWS (documented): IAM takes paths of up to 512 characters.
#: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html
MAX_PATH_LENGTH = 512
#: AWS (documented): EC2 DescribeImages knows the owners self, amazon, aws-backup-vault and
#: aws-marketplace, and accounts' ids.
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
IMAGE_OWNERS = ("self", "amazon", "aws-marketplace")

_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_BUCKET_PATH = re.compile(rf"{_BUCKET}(/[A-Za-z0-9!_.()/=-]+)?")
_KMS = r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:"
_NAME = r"[\w+=,.@-]{1,128}"

#: AWS (documented, logs-retention): CloudWatch Logs keeps events for one of these numbers of days,
#: as a log group sets. It takes these days of retention.
#: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
_RETENTION = "1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653"
_LOG_RETENTION_DAYS = tuple(map(int, _RETENTION.split()))


def _id(prefix: str, what: str) -> Check:
    """Return the check of ids that AWS gives."""
    allowed = f"{prefix}- and 8 or 17 hexadecimal digits"
    return matching(rf"{prefix}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", what, allowed)


check_region = matching(
    r"[a-z]{2,4}(-[a-z]+)+-[1-9][0-9]?",
    "an AWS region",
    "a region's name such as us-east-1 or eu-central-1",
)
check_image = _id("ami", "an image id")
check_vpc_id = _id("vpc", "the id of a VPC")
check_subnet_id = _id("subnet", "the id of a subnet")
check_security_group_id = _id("sg", "the id of a security group")
check_container_repository = matching(
    REPOSITORY,
    "a repository of Amazon ECR",
    "such as 123456789012.dkr.ecr.us-east-1.amazonaws.com/team/dask, without a tag; images of "
    "public registries need no right",
)
check_instance_profile = matching(
    _NAME,
    "the name of an instance profile",
    "its name, not its ARN: 1 to 128 letters, digits and +=,.@_-",
)
check_policy_arn = matching(
    r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+",
    "the ARN of an IAM policy",
    "arn:aws:iam::ACCOUNT:policy/NAME",
)
check_account = matching(r"[0-9]{12}", "the number of an AWS account", "twelve digits, as text")
#: AWS (documented): A role's path can have a depth.
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
check_role_arn = matching(
    r"arn:aws[a-z-]*:iam::\d{12}:role/([\x21-\x7e]+/)?[\w+=,.@-]{1,64}",
    "the ARN of an IAM role",
    "arn:aws:iam::ACCOUNT:role/NAME",
)
#: AWS (documented): STS takes external IDs of 2 to 1,224 letters, digits and =,.@:/-.
#: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
check_external_id = matching(
    r"[\w+=,.@:/-]{2,1224}", "an external ID", "2 to 1,224 letters, digits and +=,.@:/_-"
)
#: An alias's won't do, since log groups take none.
check_key_arn = matching(
    rf"{_KMS}key/[A-Za-z0-9-]+", "the ARN of a KMS key", "arn:aws:kms:REGION:ACCOUNT:key/ID"
)
check_key_or_alias_arn = matching(
    rf"{_KMS}(key|alias)/.+", "the ARN of a KMS key", "arn:aws:kms:REGION:ACCOUNT:key/ID"
)
check_bucket = matching(
    _BUCKET,
    "the name of an S3 bucket",
    "3 to 63 lower-case letters, digits, dots and hyphens",
)
#: A FIFO topic takes other messages.
check_topic_arn = matching(
    r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}",
    "the ARN of an SNS topic",
    "arn:aws:sns:REGION:ACCOUNT:NAME, of a standard topic",
)
check_email = matching(
    r"[A-Za-z0-9.!#$&'*+/=?^_`|~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+",
    "an e-mail address",
    "a name, an @ and a domain",
)
check_task_action = matching(
    r"\*|[a-z0-9-]+:[A-Za-z0-9*?]+", "an action of IAM", "service:Action, such as dynamodb:GetItem"
)
check_task_resource = matching(
    r"\*|arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9*?-]*:[0-9*?]*(aws)?:[^\s${}%\\\"]+",
    "the ARN of a resource",
    "arn:aws:SERVICE:REGION:ACCOUNT:RESOURCE, with * as wildcard, or * for actions without a "
    "resource; no ${…}",
)
_check_path = matching(
    r"/([\x21-\x2e\x30-\x7e]+/)*",
    "an IAM path",
    "/, or a path that begins and ends with /, such as /platform/dask/",
)
_check_prefix = matching(
    rf"({_NAME})?", "the beginning of a role's name", "letters, digits and +=,.@_-"
)


def check_instance_types(types: Sequence[str]) -> list[str]:
    """Return instance types whose names have AWS's format."""
    if not 1 <= len(types) <= MAX_TYPES:
        raise refuse(
            f"{len(types)} instance types", allowed=f"1 to {MAX_TYPES} types in order of preference"
        )
    check = matching(TYPE_NAME, "an instance type", "a type such as m6i.xlarge")
    return unique([check(name) for name in types])


def check_image_owner(owner: str) -> str:
    """Return an owner of images: an account's id, or one of EC2's names for an owner."""
    if owner not in IMAGE_OWNERS and not re.fullmatch(r"\d{12}", owner):
        raise refuse(
            f"{owner!r} owns no images",
            allowed=f"an account's id of 12 digits, or {', '.join(IMAGE_OWNERS)}",
        )
    return owner


def check_bucket_path(path: str) -> str:
    """Return ``bucket`` or ``bucket/prefix``."""
    if not _BUCKET_PATH.fullmatch(path) or ".." in path:
        raise refuse(
            f"{path!r} is not a bucket",
            allowed=(
                "a bucket's name (3 to 63 lower-case letters, digits, dots, hyphens), or "
                "bucket/prefix; no s3:// and no *"
            ),
        )
    return path.rstrip("/")


def check_principals(arns: list[str]) -> list[str]:
    """Return ARNs of IAM users and roles, each once and in order."""
    for arn in arns:
        if not re.fullmatch(PRINCIPAL_PATTERN, arn):
            raise refuse(
                f"{arn!r} is not the ARN of an IAM user or role",
                allowed=(
                    "such as arn:aws:iam::123456789012:role/data-science or "
                    "arn:aws:iam::123456789012:user/ada, without wildcards"
                ),
                advice="for a session of a role, name the role: arn:aws:iam::<account>:role/<name>",
            )
    return sorted(unique(arns))


def check_log_retention(days: int) -> int:
    """Return a number of days that CloudWatch accepts as retention."""
    if days not in _LOG_RETENTION_DAYS:
        raise refuse(
            f"CloudWatch has no log retention of {days} days",
            allowed=", ".join(map(str, _LOG_RETENTION_DAYS)),
        )
    return days


def check_role_path(path: str) -> str:
    """Return an IAM path."""
    if len(path) > MAX_PATH_LENGTH:
        raise refuse(
            f"a path of {len(path)} characters", allowed=f"{MAX_PATH_LENGTH} characters at most"
        )
    return _check_path(path)


def check_role_name_prefix(prefix: str) -> str:
    """Return a prefix that role names can have."""
    if len(prefix) > MAX_ROLE_PREFIX_LENGTH:
        raise refuse(
            f"{prefix!r} has {len(prefix)} characters",
            allowed=f"{MAX_ROLE_PREFIX_LENGTH} at most: IAM allows 64 for a role's whole name",
        )
    return _check_prefix(prefix)
