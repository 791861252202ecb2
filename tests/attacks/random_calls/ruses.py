"""Ruses: calls after which a command that goes by names alone changes what isn't its cluster's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from terradask_modules.names import group_name, secret_id

from .calls import Call
from .foreign import FOREIGN_GROUP, FOREIGN_SECRET
from .reach import TAG_CLUSTER
from .rights import ApiCall


@dataclass(frozen=True)
class Target:
    """The cluster that is attacked, with its genuine documents."""

    workspace: str
    cluster: str
    bucket: str
    genuine: Mapping[str, bytes]


def _secret_without_tag(target: Target) -> Call:
    name = secret_id(target.workspace, target.cluster)
    given = {"SecretId": name, "TagKeys": [TAG_CLUSTER]}
    return Call(ApiCall("secretsmanager", "UntagResource"), given)


def _group_of_another(target: Target) -> Call:
    tag = {
        "ResourceId": group_name(target.workspace, target.cluster, "scheduler"),
        "ResourceType": "auto-scaling-group",
        "PropagateAtLaunch": True,
        "Key": TAG_CLUSTER,
        "Value": "another",
    }
    return Call(ApiCall("autoscaling", "CreateOrUpdateTags"), {"Tags": [tag]})


def _names_of_another(target: Target) -> Call:
    document: dict[str, Any] = json.loads(target.genuine["cluster.json"])
    document["secret_id"] = FOREIGN_SECRET
    for group in document["groups"].values():
        group["autoscaling_group"] = FOREIGN_GROUP
    key = f"clusters/{target.cluster}/cluster.json"
    given = {"Bucket": target.bucket, "Key": key, "Body": json.dumps(document).encode()}
    return Call(ApiCall("s3", "PutObject"), given)


Ruse = Callable[[Target], Call]
RUSES: tuple[Ruse, ...] = (
    _secret_without_tag,
    _group_of_another,
    _names_of_another,
)
#: The commands that would fall for them.
TRICKED = ("start", "stop")
