"""The result of a host's tries of targets: who refuses each, and the line that opens it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from terradask._aws.listing import listed
from terradask._clusters.reach.advice import Side
from terradask._clusters.reach.outbound import read_rules
from terradask._clusters.reach.result import Found, Reach, judge
from terradask._clusters.reach.targets import Target
from terradask.errors import AccessDenied

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._network.baseline import Baseline
    from terradask_modules.egress import Egress

_GROUP = re.compile("sg-[0-9a-z]{1,40}")


def timed_out(found: dict[str, Any]) -> bool:
    """Return whether a host's connection to a target timed out."""
    read = map(Found.read, found.get("results") or ())
    return any(one.problem.get("kind") == "timeout" for one in read)


def _security_groups(found: dict[str, Any]) -> tuple[str, ...]:
    groups = found.get("security_groups") or ()
    return tuple(str(each) for each in groups if _GROUP.fullmatch(str(each)))


def read_rules_of(aws: Aws, found: dict[str, Any]) -> list[Egress] | None:
    """Return the rules of a host's security groups; None if the caller may not read them."""
    groups = _security_groups(found)
    if not groups:
        return None
    filters = [{"Name": "group-id", "Values": [*groups]}]
    with suppress(AccessDenied):
        ec2 = aws.client("ec2")
        return read_rules(
            listed(ec2, "describe_security_group_rules", "SecurityGroupRules", Filters=filters)
        )
    return None


def explain(
    cluster: str,
    host: str,
    targets: Sequence[Target],
    found: dict[str, Any],
    baseline: Baseline,
    *,
    rules: Sequence[Egress] | None = None,
) -> Reach:
    """Return the result from what a host found."""
    caller = found.get("caller")
    caller = str(caller) if caller else None
    groups = _security_groups(found)
    side = side_of(cluster, caller, groups, baseline)
    answers = iter(found.get("results") or ())
    results = tuple(
        judge(one, Found.read(next(answers, None) if one.kind else None), side, baseline, rules)
        for one in targets
    )
    return Reach(cluster, host, caller, groups, results)


def side_of(cluster: str, caller: str | None, groups: Sequence[str], baseline: Baseline) -> Side:
    """Return a cluster's side, with the role that AWS saw."""
    roles = [role for each in baseline.host_roles(cluster).values() for role in each]
    # arn:aws:sts::123456789012:assumed-role/NAME/SESSION
    name = caller.split("/")[1] if caller and ":assumed-role/" in caller else None
    own = next((role for role in roles if role.rpartition("/")[2] == name), None)
    is_own = "instance_profiles" not in baseline.given and (caller is None or own is not None)
    return Side(
        cluster=cluster,
        role=own or caller or baseline.host_roles(cluster)["worker"][-1],
        is_own_role=is_own,
        security_groups=groups,
        has_own_groups="security_groups" not in baseline.given,
        is_isolated=baseline.isolation == "cluster",
        partition=baseline.where.partition,
    )
