"""AWS's Free plan.

AWS (documented): Accounts on AWS's Free plan may use only some services, and of EC2's instance
types those that are eligible for the free tier.
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/free-tier-plans.html
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from terradask._aws.listing import listed
from terradask.errors import AwsError
from terradask_host.rules.launch_problem import LaunchProblem

if TYPE_CHECKING:
    from terradask._aws.session import Aws


def eligible_types(aws: Aws) -> tuple[str, ...]:
    """Return the Free plan's types in the region, those with most memory first.

    Permission needed: ``ec2:DescribeInstanceTypes``.
    """
    eligible = [{"Name": "free-tier-eligible", "Values": ["true"]}]
    found = listed(aws.client("ec2"), "describe_instance_types", "InstanceTypes", Filters=eligible)
    sizes = {one["InstanceType"]: one["MemoryInfo"]["SizeInMiB"] for one in found}
    return tuple(sorted(sizes, key=lambda name: (-sizes[name], name)))


def with_eligible(problems: Sequence[LaunchProblem], aws: Aws) -> list[LaunchProblem]:
    """Return problems, with the launchable types in those about the plan, if they can be read: one
    call, if there are such problems.
    """
    if any(problem.kind == "free-plan" for problem in problems):
        with suppress(AwsError):
            eligible = eligible_types(aws)
            return [
                replace(one, eligible=eligible) if one.kind == "free-plan" else one
                for one in problems
            ]
    return list(problems)
