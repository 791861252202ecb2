"""What a cluster's stack makes: the addresses of its resources, and the names that follow from the
cluster's. Pure.

A test holds it against the stacks that are synthesised, in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from terradask_modules.kinds import KINDS
from terradask_modules.names import (
    ROLES,
    cluster_key,
    is_group_key,
    is_worker_group,
)
from terradask_modules.where import Where

#: The data that the stack reads, by type and name.
DATA = {"aws_s3_object": "baseline"}

_ARCHITECTURES = {"x86_64": "", "arm64": "-arm64"}
_ROLE = "|".join(ROLES)
_TEMPLATE = re.compile(rf"({_ROLE})(?:-([a-z0-9]+))?-({'|'.join(_ARCHITECTURES)})")
_RULE = re.compile(rf"({_ROLE})-(?:from|to)-[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class ClusterNames:
    """What the names of a cluster's resources follow from.

    Parameters
    ----------
    where
        The cluster.
    role_path, role_name_prefix
        Where the cluster's own roles lie; None where it has none, because hosts share the
        workspace's.
    """

    where: Where
    role_path: str | None = None
    role_name_prefix: str = ""

    def role(self, role: str) -> str:
        """Return the name of a role of the cluster's own."""
        return self.where.role_name(role, self.role_name_prefix)


_Rule = Callable[[ClusterNames, str], Mapping[str, str] | None]


def expected(names: ClusterNames, kind: str, address: str) -> Mapping[str, str] | None:
    """Return the patterns that a resource's attributes match whole; None if the stack makes no
    resource of this type and name.

    Parameters
    ----------
    names
        The cluster.
    kind
        Type, as in Terraform.
    address
        Name in the stack: what follows the type in the address.
    """
    if kind not in _RULES or (KINDS[kind].clusters == "isolated" and names.role_path is None):
        return None
    return _RULES[kind](names, address)


def kinds() -> frozenset[str]:
    """Return the types of resources that a cluster can have."""
    return frozenset(_RULES)


def _exactly(**attributes: str) -> dict[str, str]:
    return {name: re.escape(value) for name, value in attributes.items()}


def _group(names: ClusterNames, key: str) -> Mapping[str, str] | None:
    if not is_group_key(key):
        return None
    name = names.where.group_name(key)
    return _exactly(id=name, name=name)


def _secret(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    if address != "keys":
        return None
    name = names.where.secret_id
    # Secrets Manager puts six characters behind the name.
    arn = re.escape(names.where.arn("secretsmanager", f"secret:{name}-")) + "[A-Za-z0-9]{6}"
    return {"id": arn, "arn": arn, "name": re.escape(name)}


def _descriptor(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    if address != "descriptor":
        return None
    key = cluster_key(str(names.where.cluster), "cluster.json")
    bucket = re.escape(names.where.bucket)
    # Newer providers put the bucket in front.
    return {"id": f"({bucket}/)?{re.escape(key)}", "bucket": bucket, "key": re.escape(key)}


def _template(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    found = _TEMPLATE.fullmatch(address)
    if found is None:
        return None
    role, group, architecture = found.groups()
    if group is not None and (role != "worker" or not is_worker_group(group)):
        return None
    host = role if group is None else f"{role}-{group}"
    name = names.where.host_name(host) + _ARCHITECTURES[architecture]
    return {"id": "lt-[0-9a-f]+", "name": re.escape(name)}


def _placement_group(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    name = names.where.placement_group
    return _exactly(id=name, name=name) if address == "hosts" else None


def _role(names: ClusterNames, role: str) -> Mapping[str, str] | None:
    if role not in ROLES:
        return None
    name = names.role(role)
    arn = names.where.iam_arn(f"role{names.role_path}{name}")
    return _exactly(id=name, name=name, arn=arn)


def _role_policy(names: ClusterNames, role: str) -> Mapping[str, str] | None:
    name = names.role(role)
    return _exactly(id=f"{name}:{name}", name=name, role=name) if role in ROLES else None


def _instance_profile(names: ClusterNames, role: str) -> Mapping[str, str] | None:
    name = names.role(role)
    return _exactly(id=name, name=name, role=name) if role in ROLES else None


def _security_group(names: ClusterNames, role: str) -> Mapping[str, str] | None:
    if role not in ROLES:
        return None
    name = names.where.host_name(role)
    return {"id": "sg-[0-9a-f]+", "name": re.escape(name)}


def _rule(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    if _RULE.fullmatch(address) is None:
        return None
    return {"id": "sgr-[0-9a-f]+", "security_group_id": "sg-[0-9a-f]+"}


_RULES: Mapping[str, _Rule] = {
    "aws_autoscaling_group": _group,
    "aws_iam_instance_profile": _instance_profile,
    "aws_iam_role": _role,
    "aws_iam_role_policy": _role_policy,
    "aws_launch_template": _template,
    "aws_placement_group": _placement_group,
    "aws_s3_object": _descriptor,
    "aws_secretsmanager_secret": _secret,
    "aws_security_group": _security_group,
    "aws_vpc_security_group_egress_rule": _rule,
    "aws_vpc_security_group_ingress_rule": _rule,
}
