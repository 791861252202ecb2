"""AWS's and our own rules for single values: each function returns the value or raises with what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from pydantic_core import PydanticCustomError

from terradask_modules.errors import InvalidInput
from terradask_modules.names import CLUSTER_PATTERN, NETWORK_STACK, WORKSPACE_PATTERN
from terradask_modules.secret_policy import PRINCIPAL_PATTERN
from terradask_stacks.hardware.architecture import Architecture, is_arm_name
from terradask_stacks.hardware.ask import MAX_TYPES, TYPE_NAME
from terradask_stacks.numbers import NWorkers

#: What CloudWatch accepts as days of retention.
_RETENTION = "1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653"
LOG_RETENTION_DAYS = tuple(map(int, _RETENTION.split()))
#: AWS allows 50 tags a resource; terradask and the group's run take up to ten of them.
MAX_USER_TAGS = 40

_REGION = re.compile(r"^[a-z]{2,4}(-[a-z]+)+-[1-9][0-9]?$")
_TAG_KEY = re.compile(r"^[A-Za-z0-9+\-=.,_:@]{1,128}$")
_TAG_VALUE = re.compile(r"^[\w\s+\-=.,:/@]{0,256}$")
#: EC2's names for owners of images.
IMAGE_OWNERS = ("self", "amazon", "aws-marketplace")
_IMAGE = re.compile(r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")
_BUCKET = re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.()/=-]+)?$")
_DOTTED = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
_ENVIRON_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_PORTS = re.compile(r"^([0-9]{1,5})(?:-([0-9]{1,5}))?$")
_NETWORK_PREFIXES = (16, 24)

#: Options that hosts set themselves; the host program refuses them too.
SCHEDULER_RESERVED = frozenset({"security", "protocol", "host", "port", "interface", "dashboard_address", "jupyter"})
WORKER_RESERVED = frozenset(
    {
        "security",
        "protocol",
        "host",
        "interface",
        "name",
        "dashboard_address",
        "scheduler_ip",
        "scheduler_port",
        "scheduler_file",
    }
)


def refuse(problem: str, *, allowed: str, advice: str | None = None) -> PydanticCustomError:
    """Return the error that pydantic collects, with its fields apart."""
    context = {"problem": problem, "allowed": allowed, "advice": advice or ""}
    return PydanticCustomError("terradask", "{problem}; allowed: {allowed}", context)


def validate_workspace_name(name: str) -> str:
    """Return the workspace's name if the names made of it are ones that AWS accepts."""
    if not re.fullmatch(WORKSPACE_PATTERN, name):
        raise InvalidInput(
            "the workspace's name can't be used",
            given=name,
            allowed="a lower-case letter, then up to 19 lower-case letters, digits and hyphens: the name becomes part of an "
            "S3 bucket's name, for which AWS allows nothing else",
            advice="change workspace.name",
        )
    return name


def validate_cluster_name(name: str) -> str:
    """Return the cluster's name if AWS and terradask accept it.

    Raises
    ------
    InvalidInput
        With the rule and whose it is.
    """
    if name == NETWORK_STACK:
        raise InvalidInput(
            "no cluster can be named network",
            given=name,
            allowed="any other name: network is the stack that all clusters of a workspace share",
            advice="choose another name",
        )
    if not re.fullmatch(CLUSTER_PATTERN, name):
        raise InvalidInput(
            "the cluster's name can't be used",
            given=name,
            allowed="a lower-case letter, then up to 31 lower-case letters, digits and hyphens: the name becomes part of "
            "object keys, a secret's name and tag values, and of group names that AWS limits",
            advice="choose another name",
        )
    return name


def check_region(region: str) -> str:
    """Return a region that is written as AWS writes them."""
    if not _REGION.fullmatch(region):
        raise refuse(f"{region!r} is no AWS region", allowed="a region's name such as us-east-1 or eu-central-1")
    return region


def check_tags(tags: dict[str, str]) -> dict[str, str]:
    """Return tags that AWS and the instance metadata service accept."""
    for key, value in tags.items():
        if not _TAG_KEY.fullmatch(key):
            raise refuse(
                f"the tag key {key!r} can't be used",
                allowed="1 to 128 letters, digits and + - = . , _ : @; no blank and no slash, for the instance metadata service "
                "refuses to launch hosts with them",
            )
        if key.lower().startswith(("aws:", "terradask:")):
            raise refuse(
                f"the tag key {key!r} begins with a reserved prefix",
                allowed="keys without aws: and terradask: in front",
            )
        if not _TAG_VALUE.fullmatch(value):
            raise refuse(
                f"the value of the tag {key!r} can't be used",
                allowed="up to 256 letters, digits, blanks and + - = . , _ : / @",
            )
    if len(tags) > MAX_USER_TAGS:
        raise refuse(
            f"{len(tags)} tags are too many",
            allowed=f"{MAX_USER_TAGS}; AWS allows 50, terradask needs the rest",
        )
    return tags


def check_network_cidr(cidr: str) -> str:
    """Return the block of a network: strict, IPv4, /16 to /24, and none that AWS keeps for itself."""
    try:
        network = IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise refuse(f"{cidr!r} is no IPv4 block: {error}", allowed="a block such as 10.64.0.0/16, without host bits") from error
    low, high = _NETWORK_PREFIXES
    if "/" not in cidr or not low <= network.prefixlen <= high:
        raise refuse(f"{cidr!r} has the wrong size", allowed=f"/{low} (AWS's largest) to /{high}")
    if network.is_link_local or network.is_multicast or network.network_address.packed[0] == 0:
        raise refuse(
            f"{cidr!r} can't be used in a network",
            allowed="private addresses: in 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16",
        )
    return cidr


def check_ports(value: Any) -> int | str:
    """Return a port or a range ``a-b``."""
    match = None if isinstance(value, bool) else _PORTS.fullmatch(str(value))
    bounds = [int(part) for part in match.groups() if part is not None] if match else []
    if not bounds or not 1 <= bounds[0] <= bounds[-1] <= 65535:
        raise refuse(f"{value!r} is no port", allowed="a port from 1 to 65535, or a range such as '8786-8787'")
    return bounds[0] if len(bounds) == 1 else f"{bounds[0]}-{bounds[1]}"


def check_instance_types(types: Sequence[str]) -> list[str]:
    """Return instance types that are written as AWS writes them."""
    if not 1 <= len(types) <= MAX_TYPES:
        raise refuse(f"{len(types)} instance types", allowed=f"1 to {MAX_TYPES} types in order of preference")
    for name in types:
        if not TYPE_NAME.fullmatch(name):
            raise refuse(f"{name!r} is no instance type", allowed="a type such as m6i.xlarge")
    return unique(types)


def check_type_for(architecture: Architecture, instance_type: str) -> str:
    """Return an instance type that is, by its name, for an architecture."""
    check_instance_types([instance_type])
    arm = architecture == "arm64"
    if is_arm_name(instance_type) != arm:
        raise refuse(
            f"{instance_type!r} is an {'x86-64' if arm else 'ARM'} type",
            allowed="ARM types such as m7g.xlarge" if arm else "x86-64 types such as m6i.xlarge",
        )
    return instance_type


def check_image(image: str) -> str:
    """Return an image id."""
    if not _IMAGE.fullmatch(image):
        raise refuse(f"{image!r} is no image id", allowed="ami- and 8 or 17 hexadecimal digits")
    return image


def check_image_owner(owner: str) -> str:
    """Return whose images are taken: an account's id, or one of EC2's names for an owner.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
    """
    if owner not in IMAGE_OWNERS and not re.fullmatch(r"\d{12}", owner):
        raise refuse(f"{owner!r} owns no images", allowed=f"an account's id of 12 digits, or {', '.join(IMAGE_OWNERS)}")
    return owner


def check_bucket_path(path: str) -> str:
    """Return ``bucket`` or ``bucket/prefix``."""
    if not _BUCKET.fullmatch(path) or ".." in path:
        raise refuse(
            f"{path!r} is no bucket",
            allowed="a bucket's name (3 to 63 lower-case letters, digits, dots, hyphens), or bucket/prefix; no s3:// and no *",
        )
    return path.rstrip("/")


def check_n_workers(value: Any) -> NWorkers:
    """Return `value` as settings have it: a number, a list of two, or None.

    Raises
    ------
    PydanticCustomError
        For anything else.
    """
    allowed = "a whole number from 0, or [minimum, maximum], two of them in this order"
    if value is None or _is_count(value):
        return None if value is None else int(value)
    if not isinstance(value, (list, tuple)):
        raise refuse(f"n_workers is {value!r}", allowed=allowed)
    bounds = list(value)
    if len(bounds) != 2 or not all(map(_is_count, bounds)) or bounds[0] > bounds[1]:
        raise refuse(f"n_workers is {bounds!r}", allowed=allowed)
    return bounds


def check_dotted(path: str) -> str:
    """Return the dotted path of a class."""
    if not _DOTTED.fullmatch(path):
        raise refuse(f"{path!r} is no dotted path", allowed="module.Class, such as distributed.Nanny")
    return path


def check_requirements(requirements: Sequence[str]) -> list[str]:
    """Return requirements that PEP 508 accepts."""
    for text in requirements:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            raise refuse(
                f"{text!r} is no requirement: {str(error).splitlines()[0]}",
                allowed="PEP 508, such as 'pandas==3.0.1' or 's3fs>=2025.9'",
            ) from error
    return list(requirements)


def check_environ(environ: dict[str, str]) -> dict[str, str]:
    """Return environment variables with names that a shell could set, none of them the host program's."""
    for key in environ:
        if not _ENVIRON_KEY.fullmatch(key):
            raise refuse(f"{key!r} is no variable name", allowed="letters, digits and _, no digit in front")
        if key.startswith("TERRADASK_"):
            raise refuse(f"{key!r} is terradask's own", allowed="variables without TERRADASK_ in front")
    return environ


def check_scheduler_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the scheduler's options if they are JSON and none is what hosts set themselves."""
    return _check_options(options, "scheduler", SCHEDULER_RESERVED)


def check_worker_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the workers' options if they are JSON and none is what hosts set themselves."""
    return _check_options(options, "worker", WORKER_RESERVED)


def _check_options(options: dict[str, Any], role: str, reserved: frozenset[str]) -> dict[str, Any]:
    taken = sorted(reserved & options.keys())
    if taken:
        raise refuse(
            f"{', '.join(taken)} is what a {role}'s host sets itself",
            allowed=f"any option of the {role} class but {', '.join(sorted(reserved))}",
            advice="leave it out; ports are settings of the cluster",
        )
    try:
        json.dumps(options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise refuse(
            f"the options can't travel to the hosts: {error}", allowed="text, numbers, booleans, lists and tables of these"
        ) from error
    return options


def check_principals(arns: list[str]) -> list[str]:
    """Return ARNs, each once and in order, if they are of IAM users and roles."""
    for arn in arns:
        if not re.fullmatch(PRINCIPAL_PATTERN, arn):
            raise refuse(
                f"{arn!r} is no ARN of an IAM user or role",
                allowed="such as arn:aws:iam::123456789012:role/data-science or arn:aws:iam::123456789012:user/ada, without wildcards",
                advice="of a role's session name the role: arn:aws:iam::<account>:role/<name>",
            )
    return sorted(unique(arns))


def unique(values: Sequence[str]) -> list[str]:
    """Return the values if none stands there twice."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise refuse(f"{', '.join(twice)} stands there twice", allowed="each value once")
    return list(values)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
