"""Service-linked roles have AWS's names, and one that is there can't be made again.

moto names Spot's role ``AWSServiceRoleForspot``, and says that a role exists with another error
than IAM does.
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]

#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
_NAMES = {"spot": "EC2Spot", "spotfleet": "EC2SpotFleet"}


def install() -> None:
    """Replace moto's making of service-linked roles."""
    from moto.iam import models

    models.SERVICE_NAME_CONVERSION.update(_NAMES)
    create = models.IAMBackend.create_service_linked_role

    def create_once(backend: Any, service_name: str, description: str, suffix: str) -> Any:
        path = f"/aws-service-role/{service_name}/"
        taken = next(
            (
                role.name
                for role in backend.roles.values()
                if role.path == path and role.name.endswith(suffix or "")
            ),
            None,
        )
        if taken is not None:
            raise _taken(taken)
        return create(backend, service_name, description, suffix)

    models.IAMBackend.create_service_linked_role = create_once


def _taken(role: str) -> Any:
    from moto.iam.exceptions import IAMException

    return IAMException(
        "InvalidInput",
        f"Service role name {role} has been taken in this account, please try a different suffix.",
    )
