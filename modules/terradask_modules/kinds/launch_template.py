"""Launch templates, the network's and clusters' own. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_modules.kinds.kind import FREE, in_ec2
from terradask_modules.names import ROLES, is_worker_group

_ARCHITECTURES = {"x86_64": "", "arm64": "-arm64"}
_ADDRESS = re.compile(rf"({'|'.join(ROLES)})(?:-([a-z0-9]+))?-({'|'.join(_ARCHITECTURES)})")


def _shape(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    role, group, architecture = found.groups()
    if group is not None and (role != "worker" or not is_worker_group(group)):
        return None
    host = role if group is None else f"{role}-{group}"
    name = names.where.host_name(host) + _ARCHITECTURES[architecture]
    return {"id": "lt-[0-9a-f]+", "name": re.escape(name)}


LAUNCH_TEMPLATE = in_ec2(
    "aws_launch_template",
    after=(
        "aws_security_group",
        "aws_iam_instance_profile",
    ),
    prefix="lt",
    adopt="named",
    orphan="launch-template",
    within="nothing",
    change=("CreateLaunchTemplateVersion", "ModifyLaunchTemplate"),
    given_with=None,
    price=FREE,
    born="CreateTime",
    clusters="templates",
    shape=_shape,
)
