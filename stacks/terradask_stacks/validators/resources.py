"""Validate names of AWS's resources and places: regions, ids, types, paths, ARNs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from terradask_modules.image_rights import REPOSITORY
from terradask_modules.secret_policy import PRINCIPAL_PATTERN
from terradask_stacks.hardware.request import MAX_TYPES, TYPE_NAME
from terradask_stacks.validators.refusal import matching, refuse, unique

#: Role names have up to 64 characters: ``terradask-``, a workspace's 20 and what each is for use
#: up to 40 of them.
MAX_ROLE_PREFIX_LENGTH = 24
#: IAM's limit on a path.
MAX_PATH_LENGTH = 512

_REGION = re.compile(r"^[a-z]{2,4}(-[a-z]+)+-[1-9][0-9]?$")
#: EC2's names for owners of images.
IMAGE_OWNERS = ("self", "amazon", "aws-marketplace")
_IMAGE = re.compile(r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")
_BUCKET = re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.()/=-]+)?$")
_VPC = re.compile(r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$")
_SUBNET = re.compile(r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$")
_SECURITY_GROUP = re.compile(r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$")
_IAM_NAME = re.compile(r"^[\w+=,.@-]{1,128}$", re.ASCII)
_IAM_POLICY = re.compile(r"^arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+$", re.ASCII)
_IAM_PATH = re.compile(r"^/([\x21-\x2e\x30-\x7e]+/)*$")
_TOPIC = re.compile(r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}$")
_EMAIL = re.compile(r"^[A-Za-z0-9.!#$&'*+/=?^_`|~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$")
_KMS_KEY = re.compile(r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+$")

#: What CloudWatch accepts as days of retention.
_RETENTION = "1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653"
_LOG_RETENTION_DAYS = tuple(map(int, _RETENTION.split()))


def check_region(region: str) -> str:
    """Return a region whose name has AWS's format."""
    if not _REGION.fullmatch(region):
        raise refuse(
            f"{region!r} is not an AWS region",
            allowed="a region's name such as us-east-1 or eu-central-1",
        )
    return region


def check_instance_types(types: Sequence[str]) -> list[str]:
    """Return instance types whose names have AWS's format."""
    if not 1 <= len(types) <= MAX_TYPES:
        raise refuse(
            f"{len(types)} instance types", allowed=f"1 to {MAX_TYPES} types in order of preference"
        )
    for name in types:
        if not TYPE_NAME.fullmatch(name):
            raise refuse(f"{name!r} is not an instance type", allowed="a type such as m6i.xlarge")
    return unique(types)


def check_image(image: str) -> str:
    """Return an image id."""
    if not _IMAGE.fullmatch(image):
        raise refuse(f"{image!r} is not an image id", allowed="ami- and 8 or 17 hexadecimal digits")
    return image


def check_image_owner(owner: str) -> str:
    """Return an owner of images: an account's id, or one of EC2's names for an owner.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
    """
    if owner not in IMAGE_OWNERS and not re.fullmatch(r"\d{12}", owner):
        raise refuse(
            f"{owner!r} owns no images",
            allowed=f"an account's id of 12 digits, or {', '.join(IMAGE_OWNERS)}",
        )
    return owner


def check_bucket_path(path: str) -> str:
    """Return ``bucket`` or ``bucket/prefix``."""
    if not _BUCKET.fullmatch(path) or ".." in path:
        raise refuse(
            f"{path!r} is not a bucket",
            allowed=(
                "a bucket's name (3 to 63 lower-case letters, digits, dots, hyphens), or "
                "bucket/prefix; no s3:// and no *"
            ),
        )
    return path.rstrip("/")


def check_container_repository(repository: str) -> str:
    """Return a repository of Amazon ECR."""
    return matching(
        repository,
        REPOSITORY,
        "a repository of Amazon ECR",
        "such as 123456789012.dkr.ecr.us-east-1.amazonaws.com/team/dask, without a tag; images of "
        "public registries need no right",
    )


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


def check_vpc_id(vpc_id: str) -> str:
    """Return a VPC's id."""
    return matching(vpc_id, _VPC, "the id of a VPC", "vpc- and 8 or 17 hexadecimal digits")


def check_subnet_id(subnet_id: str) -> str:
    """Return a subnet's id."""
    return matching(
        subnet_id, _SUBNET, "the id of a subnet", "subnet- and 8 or 17 hexadecimal digits"
    )


def check_security_group_id(group_id: str) -> str:
    """Return a security group's id."""
    return matching(
        group_id,
        _SECURITY_GROUP,
        "the id of a security group",
        "sg- and 8 or 17 hexadecimal digits",
    )


def check_instance_profile(name: str) -> str:
    """Return an instance profile's name."""
    return matching(
        name,
        _IAM_NAME,
        "the name of an instance profile",
        "its name, not its ARN: 1 to 128 letters, digits and +=,.@_-",
    )


def check_policy_arn(arn: str) -> str:
    """Return a managed policy's ARN."""
    return matching(
        arn, _IAM_POLICY, "the ARN of an IAM policy", "arn:aws:iam::ACCOUNT:policy/NAME"
    )


def check_key_arn(arn: str) -> str:
    """Return a KMS key's ARN; an alias's won't do, since log groups take none."""
    return matching(arn, _KMS_KEY, "the ARN of a KMS key", "arn:aws:kms:REGION:ACCOUNT:key/ID")


def check_log_retention(days: int) -> int:
    """Return a number of days that CloudWatch accepts as retention."""
    if days not in _LOG_RETENTION_DAYS:
        raise refuse(
            f"CloudWatch has no log retention of {days} days",
            allowed=", ".join(map(str, _LOG_RETENTION_DAYS)),
        )
    return days


def check_topic_arn(arn: str) -> str:
    """Return the ARN of a standard topic of SNS: a FIFO topic takes other messages."""
    allowed = "arn:aws:sns:REGION:ACCOUNT:NAME, of a standard topic"
    return matching(arn, _TOPIC, "the ARN of an SNS topic", allowed)


def check_email(address: str) -> str:
    """Return an address of a mailbox, in the usual form."""
    return matching(address, _EMAIL, "an e-mail address", "a name, an @ and a domain")


def check_role_path(path: str) -> str:
    """Return an IAM path."""
    if len(path) > MAX_PATH_LENGTH:
        raise refuse(
            f"a path of {len(path)} characters", allowed=f"{MAX_PATH_LENGTH} characters at most"
        )
    return matching(
        path,
        _IAM_PATH,
        "an IAM path",
        "/, or a path that begins and ends with /, such as /platform/dask/",
    )


def check_role_name_prefix(prefix: str) -> str:
    """Return a prefix that role names can have."""
    if len(prefix) > MAX_ROLE_PREFIX_LENGTH:
        raise refuse(
            f"{prefix!r} has {len(prefix)} characters",
            allowed=f"{MAX_ROLE_PREFIX_LENGTH} at most: IAM allows 64 for a role's whole name",
        )
    return (
        prefix
        if not prefix
        else matching(
            prefix, _IAM_NAME, "the beginning of a role's name", "letters, digits and +=,.@_-"
        )
    )
