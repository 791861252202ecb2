"""Which instance types the account may launch at all: on AWS's Free plan a few small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask._aws.free_plan import eligible_types
from terradask._aws.session import Aws
from terradask._doctor.finding import Finding
from terradask._quotas.needs import clusters_of
from terradask._stacks.resolve_cluster import named_or_default
from terradask.errors import AwsError

if TYPE_CHECKING:
    from terradask_stacks.settings import Settings

#: Where the service is, for all regions:
#: https://docs.aws.amazon.com/general/latest/gr/billing.html
_HOME = "us-east-1"


def check_account_plan(aws: Aws, settings: Settings) -> Finding:
    """Read the account's plan, and with the Free plan the types that it has: clusters' groups need
    others where the settings don't name these.

    Permissions needed: ``freetier:GetAccountPlanState``, ``ec2:DescribeInstanceTypes``; without
    them nothing is found wrong.
    """
    from botocore.exceptions import ClientError

    if aws.partition != "aws":
        return Finding("account-plan", True, f"{aws.partition} has no Free plan")
    try:
        state = Aws(_HOME, profile=aws.profile).client("freetier").get_account_plan_state()
        if state["accountPlanType"] != "FREE":
            return Finding("account-plan", True, "not the Free plan: every type can be launched")
        eligible = eligible_types(aws)
    except (AwsError, ClientError) as error:
        found = f"can't be seen by this caller: {' '.join(str(error).split())}"
        return Finding("account-plan", True, found)
    groups = [
        types for one in clusters_of(settings).values() for types in named_or_default(one).values()
    ]
    if all(set(types) & set(eligible) for types in groups):
        return Finding("account-plan", True, "AWS's Free plan, which has types of each group")
    return Finding(
        "account-plan",
        False,
        "AWS's Free plan, which launches a few small types only",
        "upgrade to the Paid plan, or name types of it in worker_vm_types and scheduler_vm_types: "
        f"{', '.join(eligible)}",
    )
