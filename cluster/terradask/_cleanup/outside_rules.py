"""Rules outside a plan that name a security group which the plan removes.

The provider repeats the deletion for 15 minutes, halfway through the plan.

AWS (documented, ec2-in-use): EC2 refuses with DependencyViolation to delete a security group that a
network interface has, or a rule of another group in the VPC.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteSecurityGroup.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from terradask._aws.listing import listed
from terradask._common.naming import counted, some
from terradask.errors import InUse
from terradask_modules.ingress import ports_text

if TYPE_CHECKING:
    from terradask._aws.session import Aws

_GROUP = "aws_security_group"
_NAMED_IN_ERROR = 5


@dataclass(frozen=True)
class OutsideRule:
    """A rule in another security group that names a group to be removed."""

    id: str
    group: str
    group_name: str
    named: str
    is_egress: bool
    #: Protocol and ports, as in ``TCP 5432``.
    traffic: str

    def __str__(self) -> str:
        way = "to" if self.is_egress else "from"
        return f"{self.group} ({self.group_name}): {self.traffic} {way} {self.named}"


def security_groups(ids: Mapping[str, str]) -> dict[str, str]:
    """Return the security groups among the ids in a state."""
    return {key: value for key, value in ids.items() if key.startswith(f"{_GROUP}.")}


def refuse_named_groups(
    aws: Aws, stack: str, removed: Collection[str], known: Collection[str]
) -> None:
    """Refuse to remove security groups that rules of other groups name, except rules with known
    ids, which Terraform removes. Raises `InUse`.

    Permissions needed, if there are such groups: ``ec2:DescribeSecurityGroups``,
    ``DescribeSecurityGroupRules``.
    """
    rules = [one for one in _outside_rules(aws, removed) if one.id not in known]
    if rules:
        raise InUse(
            f"{counted(len(rules), 'rule')} of other security groups name those of {stack} that "
            "would be removed: AWS deletes no such group",
            clusters=(),
            given=some([str(one) for one in rules], _NAMED_IN_ERROR),
            advice=f"have them removed: {'; '.join(_commands(rules))}; then run this again",
        )


def _outside_rules(aws: Aws, removed: Collection[str]) -> list[OutsideRule]:
    own = _by_filter(aws, "security_groups", "group-id", removed)
    # Through a peering, rules don't block: they become stale.
    places = {one["VpcId"] for one in own}
    naming = {
        group["GroupId"]: group["GroupName"]
        for way in ("", "egress.")
        for group in _by_filter(aws, "security_groups", f"{way}ip-permission.group-id", removed)
        if group["GroupId"] not in removed and group["VpcId"] in places
    }
    return [
        OutsideRule(
            id=rule["SecurityGroupRuleId"],
            group=rule["GroupId"],
            group_name=naming[rule["GroupId"]],
            named=named,
            is_egress=rule["IsEgress"],
            traffic=_traffic(rule),
        )
        for rule in _by_filter(aws, "security_group_rules", "group-id", naming)
        if (named := rule.get("ReferencedGroupInfo", {}).get("GroupId")) in removed
    ]


def _by_filter(
    aws: Aws, what: str, name: str, values: Collection[str]
) -> Iterator[Mapping[str, Any]]:
    listing = "".join(word.title() for word in what.split("_"))
    filters = [{"Name": name, "Values": sorted(values)}]
    yield from listed(aws.client("ec2"), f"describe_{what}", listing, Filters=filters)


def _traffic(rule: Mapping[str, Any]) -> str:
    protocol = str(rule["IpProtocol"])
    if protocol == "-1":
        return "all traffic"
    first, last = int(rule.get("FromPort", -1)), int(rule.get("ToPort", -1))
    return f"{protocol.upper()} {ports_text((first, last))}" if first >= 0 else protocol.upper()


def _commands(rules: Sequence[OutsideRule]) -> Iterator[str]:
    """Yield the commands that remove rules, one for each group and direction."""
    by_group: dict[tuple[str, bool], list[str]] = {}
    for rule in rules:
        by_group.setdefault((rule.group, rule.is_egress), []).append(rule.id)
    for (group, is_egress), ids in by_group.items():
        yield (
            f"aws ec2 revoke-security-group-{'egress' if is_egress else 'ingress'} "
            f"--group-id {group} --security-group-rule-ids {' '.join(ids)}"
        )
