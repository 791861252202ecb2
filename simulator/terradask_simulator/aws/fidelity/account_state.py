"""Accounts that may not launch what they like, once that is switched on: on AWS's Free plan, not
verified yet, or blocked.

moto knows no plans. Texts are those that people report:
https://github.com/LinkedInLearning/learning-terraform-3087701/issues/345,
https://github.com/UA-TECH-POWER/DDoS_terraform_aws/issues/5
"""

from __future__ import annotations

import json

from terradask_simulator.aws.account import ACCOUNT
from terradask_simulator.aws.errors import EmbeddedAwsError

__all__ = ["check_account", "current_state", "plan_state", "set_state"]

_REFUSALS = {
    "free-plan": (
        "InvalidParameterCombination",
        "The specified instance type is not eligible for Free Tier. For a list of Free Tier "
        "instance types, run 'describe-instance-types' with the filter 'free-tier-eligible=true'.",
    ),
    "unverified": (
        "PendingVerification",
        "Your request for accessing resources in this region is being validated, and you will not "
        "be able to launch additional resources in this region until the validation is complete.",
    ),
    "blocked": (
        "Blocked",
        "This account is currently blocked and not recognized as a valid account.",
    ),
}


class _Account:
    state = ""


def current_state() -> str:
    """Return what keeps the account from launching; nothing where nothing does."""
    return _Account.state


def set_state(state: str) -> str:
    """Let launches be refused so; return how it was before."""
    if state and state not in _REFUSALS:
        raise EmbeddedAwsError(
            "An account has no such state", given=state, allowed=", ".join(_REFUSALS)
        )
    before, _Account.state = _Account.state, state
    return before


def check_account(instance_type: str) -> None:
    """Refuse a launch that the account may not make."""
    from moto.ec2.exceptions import EC2ClientError
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    if not _Account.state or (
        _Account.state == "free-plan"
        and INSTANCE_TYPES.get(instance_type, {}).get("FreeTierEligible")
    ):
        return
    raise EC2ClientError(*_REFUSALS[_Account.state])


def plan_state() -> bytes:
    """Return the answer to ``freetier:GetAccountPlanState``, a service that moto lacks."""
    plan = "FREE" if _Account.state == "free-plan" else "PAID"
    return json.dumps(
        {"accountId": ACCOUNT, "accountPlanType": plan, "accountPlanStatus": "ACTIVE"}
    ).encode()
