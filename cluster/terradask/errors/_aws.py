"""AWS, as things are, can't be used."""

from __future__ import annotations

from terradask_modules.errors import TerradaskError


class AwsError(TerradaskError):
    """AWS can't be used as things are."""

    exit_code = 3


class NoCredentials(AwsError):
    """There are no AWS credentials."""


class ExpiredCredentials(AwsError):
    """The AWS credentials have expired."""


class InvalidCredentials(AwsError):
    """AWS doesn't know the credentials, or not in this region."""


class AccessDenied(AwsError):
    """The caller may not do something.

    Parameters
    ----------
    action
        The IAM action that was refused, such as ``ec2:DescribeAvailabilityZones``.
    problem
        What AWS said.
    """

    def __init__(self, action: str, problem: str) -> None:
        super().__init__(
            f"AWS refuses {action}",
            given=problem,
            advice=f"let an administrator allow {action} for this caller, or use another profile (AWS_PROFILE)",
        )
        self.action = action


class RegionUnknown(AwsError):
    """There is no such AWS region."""

    exit_code = 2


class EndpointUnreachable(AwsError):
    """AWS doesn't answer."""


class AccountChanged(AwsError):
    """Locked answers belong to another AWS account than the credentials."""

    exit_code = 5
