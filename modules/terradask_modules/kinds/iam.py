"""Roles, the network's and isolated clusters', with their policies, instance profiles and boundary.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames, Shape, exactly
from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, Deletion, Named, ResourceKind
from terradask_modules.names import ROLES


def _named_as_its_role(**attributes: str) -> Shape:
    """Return the shape of what has such attributes, which name the role or its ARN."""

    def shape(names: ClusterNames, role: str) -> Mapping[str, str] | None:
        if role not in ROLES:
            return None
        name = names.role(role)
        arn = names.where.iam_arn(f"role{names.role_path}{name}")
        found = {key: text.format(role=name, arn=arn) for key, text in attributes.items()}
        return exactly(name=name, **found)

    return shape


def _with_hosts(noun: str, **attributes: str) -> ResourceKind:
    """Return what hosts have, whose calls and keys follow from its name."""
    camel = noun.title().replace("_", "")
    return ResourceKind(
        f"aws_iam_{noun}",
        after=("aws_iam_policy",) if noun == "role" else ("aws_iam_role",),
        service="iam",
        find=Named(f"get_{noun}", f"{camel}Name", camel),
        delete=Deletion(f"delete_{noun}", f"{camel}Name"),
        adopt="named",
        orphan=noun.replace("_", "-"),
        price=FREE,
        born="CreateDate",
        clusters="isolated",
        shape=_named_as_its_role(**attributes),
        loss_to_hosts=HOSTS_NEED_IT,
    )


# A role's boundary.
POLICY = ResourceKind(
    "aws_iam_policy",
    service="iam",
    find=Named(
        "get_policy", "PolicyArn", "Policy", "arn:{partition}:iam::{account}:policy{path}{name}"
    ),
    delete=Deletion("delete_policy", "PolicyArn"),
    adopt="named",
    price=FREE,
)
ROLE = _with_hosts("role", id="{role}", arn="{arn}")
ROLE_POLICY = ResourceKind(
    "aws_iam_role_policy",
    after=("aws_iam_role",),
    service="iam",
    delete=Deletion("delete_role_policy", "PolicyName"),
    part_of=("aws_iam_role", "RoleName"),
    price=FREE,
    clusters="isolated",
    shape=_named_as_its_role(id="{role}:{role}", role="{role}"),
)


def _attachment(names: ClusterNames, name: str) -> Mapping[str, str] | None:
    """Return the shape of a managed policy's attachment to one of the cluster's roles."""
    role = name.partition("-")[0]
    if role not in ROLES or role == name:
        return None
    own = re.escape(names.role(role))
    # AWS gives it no id: the provider makes one.
    return {"id": f"{own}[-/].+", "role": own}


ROLE_POLICY_ATTACHMENT = ResourceKind(
    "aws_iam_role_policy_attachment",
    # The role's own policy denies what a managed one must never allow.
    after=("aws_iam_role_policy",),
    service="iam",
    price=FREE,
    clusters="isolated",
    shape=_attachment,
)
INSTANCE_PROFILE = _with_hosts("instance_profile", id="{role}", role="{role}")
