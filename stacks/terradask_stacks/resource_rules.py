"""Rules for what names AWS's resources: ids, names, paths, ARNs. As in :mod:`.rules`, each returns the value or raises."""

from __future__ import annotations

import re

from terradask_stacks.rules import refuse

#: IAM's roles have 64 characters: ``terradask-``, a workspace's 20 and ``-flow-logs`` take up to 40 of them.
MAX_ROLE_PREFIX_LENGTH = 24
#: IAM's limit on a path.
MAX_PATH_LENGTH = 512

_VPC = re.compile(r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$")
_SUBNET = re.compile(r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$")
_SECURITY_GROUP = re.compile(r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$")
_IAM_NAME = re.compile(r"^[\w+=,.@-]{1,128}$", re.ASCII)
_IAM_POLICY = re.compile(r"^arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+$", re.ASCII)
_IAM_PATH = re.compile(r"^/([\x21-\x2e\x30-\x7e]+/)*$")
_KMS_KEY = re.compile(r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+$")


def check_vpc_id(vpc_id: str) -> str:
    """Return a VPC's id."""
    return _matching(vpc_id, _VPC, "id of a VPC", "vpc- and 8 or 17 hexadecimal digits")


def check_subnet_id(subnet_id: str) -> str:
    """Return a subnet's id."""
    return _matching(subnet_id, _SUBNET, "id of a subnet", "subnet- and 8 or 17 hexadecimal digits")


def check_security_group_id(group_id: str) -> str:
    """Return a security group's id."""
    return _matching(group_id, _SECURITY_GROUP, "id of a security group", "sg- and 8 or 17 hexadecimal digits")


def check_instance_profile(name: str) -> str:
    """Return an instance profile's name."""
    return _matching(name, _IAM_NAME, "name of an instance profile", "its name, not its ARN: 1 to 128 letters, digits and +=,.@_-")


def check_policy_arn(arn: str) -> str:
    """Return a managed policy's ARN."""
    return _matching(arn, _IAM_POLICY, "ARN of an IAM policy", "arn:aws:iam::ACCOUNT:policy/NAME")


def check_key_arn(arn: str) -> str:
    """Return a KMS key's ARN; an alias's won't do, since log groups take none."""
    return _matching(arn, _KMS_KEY, "ARN of a KMS key", "arn:aws:kms:REGION:ACCOUNT:key/ID")


def check_role_path(path: str) -> str:
    """Return a path of IAM's."""
    if len(path) > MAX_PATH_LENGTH:
        raise refuse(f"a path of {len(path)} characters", allowed=f"{MAX_PATH_LENGTH} characters at most")
    return _matching(path, _IAM_PATH, "path of IAM's", "/, or a path that begins and ends with /, such as /platform/dask/")


def check_role_name_prefix(prefix: str) -> str:
    """Return what can stand in front of a role's name."""
    if len(prefix) > MAX_ROLE_PREFIX_LENGTH:
        raise refuse(
            f"{prefix!r} has {len(prefix)} characters",
            allowed=f"{MAX_ROLE_PREFIX_LENGTH} at most: IAM allows 64 for a role's whole name",
        )
    return prefix if not prefix else _matching(prefix, _IAM_NAME, "beginning of a role's name", "letters, digits and +=,.@_-")


def _matching(value: str, pattern: re.Pattern[str], what: str, allowed: str) -> str:
    if not pattern.fullmatch(value):
        raise refuse(f"{value!r} is no {what}", allowed=allowed)
    return value
