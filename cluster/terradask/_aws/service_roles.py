"""The service-linked roles through which AWS launches instances, one per account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.session import Aws
from terradask.errors import AccessDenied, AwsError
from terradask_modules.caller_policies import SERVICE_ROLES

AUTOSCALING = "autoscaling.amazonaws.com"

#: AWS (reported): IAM answers InvalidInput to CreateServiceLinkedRole of an existing role: "Service
#: role name … has been taken in this account". https://github.com/DataDog/pathfinding-labs/issues/23
_TAKEN = "has been taken in this account"


@dataclass(frozen=True)
class ServiceRole:
    """A service-linked role."""

    #: Such as ``AWSServiceRoleForAutoScaling``.
    name: str
    service: str
    #: Whether it exists; None if the caller may not see that.
    exists: bool | None

    @property
    def command(self) -> str:
        """The administrator's command that creates it."""
        return f"aws iam create-service-linked-role --aws-service-name {self.service}"


def find_service_roles(aws: Aws) -> list[ServiceRole]:
    """Find the service-linked roles that groups need.

    Permission needed: ``iam:GetRole`` on both roles; without it `ServiceRole.exists` is None.
    """
    client = aws.client("iam")
    return [
        ServiceRole(name, service, _exists(client, name)) for service, name in SERVICE_ROLES.items()
    ]


def ensure_service_roles(aws: Aws) -> list[ServiceRole]:
    """Create missing service-linked roles. Repeating it changes nothing.

    They belong to the account, cost nothing, and remain when the network is destroyed.

    Raises `AwsError`.

    Permissions needed: ``iam:GetRole`` and ``iam:CreateServiceLinkedRole`` on both roles. A role
    that the caller may neither see nor create is assumed to exist, as in most accounts.
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
        # Another caller created it meanwhile, or it wasn't visible.
        if _TAKEN not in str(error):
            raise
    except AccessDenied as error:
        # Without the Spot role, on-demand groups still launch; the first Spot group reports it.
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
