"""Security groups, the network's and isolated clusters', and their rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, Deletion, ResourceKind, in_ec2
from terradask_modules.names import ROLES

_ID = "sg-[0-9a-f]+"
_RULE = re.compile(rf"({'|'.join(ROLES)})-(?:from|to)-[A-Za-z0-9_-]+")


def _group(names: ClusterNames, role: str) -> Mapping[str, str] | None:
    if role not in ROLES:
        return None
    return {"id": _ID, "name": re.escape(names.where.host_name(role))}


def _rule(_names: ClusterNames, address: str) -> Mapping[str, str] | None:
    if _RULE.fullmatch(address) is None:
        return None
    return {"id": "sgr-[0-9a-f]+", "security_group_id": _ID}


SECURITY_GROUP = in_ec2(
    "aws_security_group",
    after=("aws_vpc",),
    prefix="sg",
    id="GroupId",
    adopt="security_group",
    orphan="security-group",
    within="vpc",
    change=(
        "AuthorizeSecurityGroupEgress",
        "AuthorizeSecurityGroupIngress",
        "ModifySecurityGroupRules",
        "RevokeSecurityGroupEgress",
        "RevokeSecurityGroupIngress",
    ),
    given_with="security_groups",
    price=FREE,
    clusters="isolated",
    shape=_group,
    loss="hosts in this group are unreachable until their templates name the new one",
    loss_to_hosts=HOSTS_NEED_IT,
)


def _rules(direction: str) -> ResourceKind:
    revoke = f"revoke_security_group_{direction}"
    return ResourceKind(
        f"aws_vpc_security_group_{direction}_rule",
        after=("aws_security_group",),
        delete=Deletion(revoke, "SecurityGroupRuleIds", in_list=True),
        part_of=("aws_security_group", "GroupId"),
        adopt="rule",
        price=FREE,
        clusters="isolated",
        shape=_rule,
    )


EGRESS_RULE, INGRESS_RULE = _rules("egress"), _rules("ingress")
