"""A role that isn't in an instance profile can't be taken out of it: IAM says that there is no such
entity, which Terraform takes for done. moto breaks, and Terraform repeats its call for half an
hour.

https://docs.aws.amazon.com/IAM/latest/APIReference/API_RemoveRoleFromInstanceProfile.html,
https://github.com/crossplane-contrib/provider-aws/pull/1719
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]


def install() -> None:
    """Replace moto's removal of a role."""
    from moto.iam.exceptions import NoSuchEntity
    from moto.iam.models import IAMBackend

    remove = IAMBackend.remove_role_from_instance_profile

    def remove_if_there(backend: Any, profile_name: str, role_name: str) -> None:
        roles = backend.get_instance_profile(profile_name).roles
        if all(role.name != role_name for role in roles):
            raise NoSuchEntity(f"The role with name {role_name} cannot be found.")
        remove(backend, profile_name, role_name)

    IAMBackend.remove_role_from_instance_profile = remove_if_there
