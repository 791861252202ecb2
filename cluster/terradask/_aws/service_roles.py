"""The service-linked roles through which AWS launches instances: once for a whole account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.session import Aws
from terradask.errors import AccessDenied, AwsError
from terradask_modules.caller_policies import SERVICE_ROLES

AUTOSCALING = "autoscaling.amazonaws.com"

#: IAM's message about a role that exists; its code is that of any wrong input.
_TAKEN = "has been taken in this account"


@dataclass(frozen=True)
class ServiceRole:
    """A service-linked role."""

    #: Such as ``AWSServiceRoleForAutoScaling``.
    name: str
    service: str
    #: Whether the account has it; None where the caller may not see that.
    exists: bool | None

    @property
    def command(self) -> str:
        """The command by which an administrator makes it."""
        return f"aws iam create-service-linked-role --aws-service-name {self.service}"


def find_service_roles(aws: Aws) -> list[ServiceRole]:
    """Look for the service-linked roles that groups need.

    Permission needed: ``iam:GetRole`` on both roles; without it `ServiceRole.exists` is None.
    """
    client = aws.client("iam")
    return [
        ServiceRole(name, service, _exists(client, name)) for service, name in SERVICE_ROLES.items()
    ]


def ensure_service_roles(aws: Aws) -> list[ServiceRole]:
    """Make the service-linked roles that are missing. Doing it again changes nothing.

    They belong to the account, cost nothing, and stay when the network is destroyed.

    Raises `AwsError`.

    Permissions needed: ``iam:GetRole`` and ``iam:CreateServiceLinkedRole`` on both roles. A role
    that the caller may neither see nor make is taken to be there: most accounts have it.
    """
    missing = [role for role in find_service_roles(aws) if not role.exists]
    return [ServiceRole(role.name, role.service, True) for role in missing if _make(aws, role)]


def _exists(client: Any, name: str) -> bool | None:
    try:
        with unless("NoSuchEntity"):
            client.get_role(RoleName=name)
            return True
    except AccessDenied:
        return None
    return False


def _make(aws: Aws, role: ServiceRole) -> bool:
    from botocore.exceptions import ClientError

    client = aws.client("iam")
    try:
        with unless("EntityAlreadyExists"):
            client.create_service_linked_role(AWSServiceName=role.service)
            return True
    except ClientError as error:
        # Another caller made it in the meantime, or it could not be seen.
        if _TAKEN not in str(error):
            raise
    except AccessDenied as error:
        # Without the role of spot, groups on demand launch; the first spot group reports it.
        if role.exists is None or role.service != AUTOSCALING:
            return False
        raise AwsError(
            f"the account has no service-linked role {role.name}, without which AWS launches no "
            "instance for a group",
            given=f"AWS refuses {error.action}",
            allowed="an existing role, or the right to create it (`terradask iam setup`)",
            advice=f"ask an administrator to run, once for the account: {role.command}",
        ) from error
    return False
