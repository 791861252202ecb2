"""AWS can't be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from terradask_modules.errors import TerradaskError


class AwsError(TerradaskError):
    """AWS refuses a request, or can't be reached."""

    exit_code = 3


class NoCredentials(AwsError):
    """There are no AWS credentials, or they have expired: log in."""


class InvalidCredentials(AwsError):
    """AWS doesn't know the credentials, or they aren't valid in this region."""


#: Actions that policies of callers limit by the size and the types of a group
#: (`terradask_modules.caller_policies.CallerLimits`). AWS's message doesn't name the condition that
#: failed.
_LIMITED = frozenset(
    {
        "autoscaling:CreateAutoScalingGroup",
        "autoscaling:UpdateAutoScalingGroup",
        "ec2:RunInstances",
    }
)


#: Actions of warm pools, which policies of users with a limit of workers lack.
_OF_POOLS = frozenset(
    f"autoscaling:{name}"
    for name in ("PutWarmPool", "DeleteWarmPool", "DescribeWarmPool", "PutLifecycleHook")
)

#: Kind of policy that refuses, where the caller's own can't allow it -> what is to be changed.
BEYOND = {
    "organization": "a policy of the organization refuses it, which its managers change",
    "boundary": "this caller's permissions boundary has to allow it, too",
    "session": "the session has fewer rights than its role: log in without a session policy",
    "endpoint": "the policy of the VPC's endpoint has to allow it, too",
}


class AccessDenied(AwsError):
    """AWS refuses an action to the caller.

    Parameters
    ----------
    action
        The IAM action that was refused, such as ``ec2:DescribeAvailabilityZones``.
    problem
        AWS's message.
    resource
        The ARN that the message names; None if it names none.
    by
        Kind of policy that refuses, if the message names it: ``role``, ``organization``,
        ``boundary``, ``session``, ``endpoint`` and others.
    """

    def __init__(
        self, action: str, problem: str, *, resource: str | None = None, by: str | None = None
    ) -> None:
        advice = (
            f"ask an administrator to allow {action} for this caller, or use another "
            "profile (AWS_PROFILE)"
        )
        if by in BEYOND:
            advice = f"{BEYOND[by]}. {advice[0].upper()}{advice[1:]}"
        if action in _OF_POOLS:
            advice = (
                "your policies may have a limit of workers (terradask iam user --max-workers), "
                f"with which no hosts are kept prepared: leave out standby. Otherwise {advice}"
            )
        if action in _LIMITED:
            advice = (
                "your policies may limit it (terradask iam user --max-workers, --types, --no-gpu, "
                "--clusters): try a smaller max_workers, other instance types, or a name that "
                f"is yours. Otherwise {advice}"
            )
        super().__init__(f"AWS refuses {action}", given=problem, advice=advice)
        self.action = action
        self.resource = resource
        self.by = by


class QuotaExceeded(AwsError):
    """The account's quotas, or the workspace's limits, are too small for the cluster, the network
    or the settings: request more, ask for less, or wait. Nothing was made or started.

    Parameters
    ----------
    cluster
        The cluster's name; None for the network.
    largest
        Group of workers, or ``scheduler`` -> how many of its hosts fit within the quotas, for
        groups whose hosts don't all fit.
    quotas
        The quotas that count them: ``service``, ``code``, ``name``, ``limit``, ``in_use`` beside
        the cluster and ``needed`` by it, in vCPUs or resources. A limit of the workspace has the
        service ``terradask``, and also ``by``, ``set_by`` and ``set_at``.
    """

    exit_code = 8

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        given: Any = None,
        allowed: str | None = None,
        largest: Mapping[str, int] | None = None,
        quotas: Sequence[Mapping[str, Any]] = (),
        advice: str | None = None,
    ) -> None:
        if largest:
            fit = "; ".join(f"{number} of {group}" for group, number in largest.items())
            allowed = f"at most {fit}"
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.cluster = cluster
        self.largest = dict(largest or {})
        self.quotas = [dict(quota) for quota in quotas]


class RegionUnusable(AwsError):
    """There is no such AWS region, or the account hasn't enabled it."""

    exit_code = 2


class EndpointUnreachable(AwsError):
    """AWS doesn't answer: check the network, or try again later."""
