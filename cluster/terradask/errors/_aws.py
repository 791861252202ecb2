"""AWS can't be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from terradask_modules.errors import TerradaskError


class AwsError(TerradaskError):
    """AWS can't be used."""

    exit_code = 3


class NoCredentials(AwsError):
    """There are no AWS credentials."""


class ExpiredCredentials(AwsError):
    """The AWS credentials have expired."""


class ClockSkewed(AwsError):
    """The machine's clock is so wrong that AWS refuses signed calls."""


class InvalidCredentials(AwsError):
    """AWS doesn't know the credentials, or they are not valid in this region."""


class AccessDenied(AwsError):
    """AWS refuses an action to the caller.

    Parameters
    ----------
    action
        The IAM action that was refused, such as ``ec2:DescribeAvailabilityZones``.
    problem
        AWS's message.
    """

    def __init__(self, action: str, problem: str) -> None:
        super().__init__(
            f"AWS refuses {action}",
            given=problem,
            advice=(
                f"ask an administrator to allow {action} for this caller, or use another "
                "profile (AWS_PROFILE)"
            ),
        )
        self.action = action


class ServiceRoleMissing(AwsError):
    """The account lacks a service-linked role, and the caller may not create it.

    Parameters
    ----------
    role
        The role, such as ``AWSServiceRoleForAutoScaling``.
    command
        The command with which an administrator creates it.
    denied
        The action that the caller lacks.
    """

    def __init__(self, role: str, *, command: str, denied: str) -> None:
        super().__init__(
            f"the account has no service-linked role {role}, without which AWS launches no "
            "instance for a group",
            given=f"AWS refuses {denied}",
            allowed="an existing role, or the right to create it (`terradask iam setup`)",
            advice=f"ask an administrator to run, once for the account: {command}",
        )
        self.role = role
        self.command = command
        self.denied = denied


class QuotaTooSmall(AwsError):
    """AWS's quotas don't let the account reach what the settings allow.

    Parameters
    ----------
    quotas
        A line for each quota that is too small.
    """

    exit_code = 8

    def __init__(self, quotas: list[str]) -> None:
        super().__init__(
            f"{len(quotas)} of AWS's quotas {'is' if len(quotas) == 1 else 'are'} too small "
            "for what the settings can reach",
            given="; ".join(quotas),
            advice="request more with `terradask quotas --request`, or lower max_workers",
        )
        self.quotas = quotas


class QuotaExceeded(AwsError):
    """A cluster needs more vCPUs, or a network more addresses, than the account's quota allows:
    nothing was made or started.

    Parameters
    ----------
    cluster
        The cluster's name; None for the network.
    largest
        Group of workers, or ``scheduler`` -> how many of its hosts fit within the quotas, for
        groups whose hosts don't all fit.
    quotas
        The quotas that count them: ``service``, ``code``, ``name``, ``limit``, ``in_use`` beside
        the cluster and ``needed`` by it, in vCPUs or resources.
    """

    exit_code = 8

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        given: Any = None,
        largest: Mapping[str, int] | None = None,
        quotas: Sequence[Mapping[str, Any]] = (),
        advice: str | None = None,
    ) -> None:
        allowed = "; ".join(f"{number} of {group}" for group, number in (largest or {}).items())
        super().__init__(
            problem, given=given, allowed=f"at most {allowed}" if allowed else None, advice=advice
        )
        self.cluster = cluster
        self.largest = dict(largest or {})
        self.quotas = [dict(quota) for quota in quotas]


class RegionUnknown(AwsError):
    """There is no such AWS region."""

    exit_code = 2


class RegionNotEnabled(AwsError):
    """The account hasn't enabled the region, so AWS refuses its credentials there.

    Parameters
    ----------
    region
        The region.
    """

    exit_code = 2

    def __init__(self, region: str) -> None:
        super().__init__(
            "the account has not enabled this region: AWS accepts its credentials elsewhere",
            given=region,
            advice=(
                f"aws account enable-region --region-name {region}, which takes minutes to hours; "
                "or choose another workspace.region"
            ),
        )
        self.region = region


class EndpointUnreachable(AwsError):
    """AWS doesn't answer."""


class BucketTaken(AwsError):
    """A bucket of this name belongs to another AWS account."""


class AccountChanged(AwsError):
    """Locked answers belong to another AWS account than the credentials."""

    exit_code = 5


class LiveCheckFailed(TerradaskError):
    """A step of ``terradask doctor --live`` found that something isn't as it has to be."""
