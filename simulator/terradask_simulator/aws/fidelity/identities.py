"""Check IAM's tags, roles in instance profiles and service-linked roles as strictly as AWS.

- AWS (documented): IAM's tags have keys and values of a pattern.
  https://docs.aws.amazon.com/IAM/latest/APIReference/API_Tag.html
  AWS (reported): The error names the pattern. https://github.com/SWO-GS/auto-tag/issues/90
  moto checks only keys, accepts line breaks and tabs as blanks, and doesn't check tags of instance
  profiles.
- AWS (documented): Removing a role that isn't in an instance profile fails with NoSuchEntity.
  https://docs.aws.amazon.com/IAM/latest/APIReference/API_RemoveRoleFromInstanceProfile.html,
  https://github.com/crossplane-contrib/provider-aws/pull/1719
  Terraform treats that as success. moto fails with an internal error, and Terraform repeats its
  call for half an hour.
- Service-linked roles have AWS's names, and an existing one can't be created again. moto names
  Spot's role ``AWSServiceRoleForspot``, and reports an existing role with another error than IAM.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

_SIGNS = frozenset("_.:/=+-@")

#: AWS (service-roles)
_SERVICES = {"batch": "Batch", "spot": "EC2Spot", "spotfleet": "EC2SpotFleet"}


def install() -> None:
    """Replace moto's checks."""
    from moto.iam import models
    from moto.iam.exceptions import IAMException, NoSuchEntity
    from moto.iam.models import IAMBackend

    models.SERVICE_NAME_CONVERSION.update(_SERVICES)

    @around(IAMBackend, "_tag_verification")
    def verify(verify: Any, backend: Any, tags: list[dict[str, str]]) -> Any:
        verified = verify(backend, tags)
        for number, tag in enumerate(tags, 1):
            _check(tag["Key"], f"tags.{number}.member.key", "+")
            _check(tag["Value"], f"tags.{number}.member.value", "*")
        return verified

    @around(IAMBackend, "create_instance_profile")
    def create_profile(create: Any, backend: Any, *args: Any, **kwargs: Any) -> Any:
        backend._tag_verification(kwargs.get("tags") or [])
        return create(backend, *args, **kwargs)

    @around(IAMBackend, "tag_instance_profile")
    def tag_profile(tag: Any, backend: Any, instance_profile_name: str, tags: Any) -> Any:
        backend._tag_verification(tags)
        return tag(backend, instance_profile_name, tags)

    @around(IAMBackend, "remove_role_from_instance_profile")
    def remove_if_there(remove: Any, backend: Any, profile_name: str, role_name: str) -> None:
        roles = backend.get_instance_profile(profile_name).roles
        if all(role.name != role_name for role in roles):
            raise NoSuchEntity(f"The role with name {role_name} cannot be found.")
        remove(backend, profile_name, role_name)

    @around(IAMBackend, "create_service_linked_role")
    def create_once(
        create: Any, backend: Any, service_name: str, description: str, suffix: str
    ) -> Any:
        path = f"/aws-service-role/{service_name}/"
        for role in backend.roles.values():
            if role.path == path and role.name.endswith(suffix or ""):
                raise IAMException(
                    "InvalidInput",
                    f"Service role name {role.name} has been taken in this account, please try a "
                    "different suffix.",
                )
        return create(backend, service_name, description, suffix)


def _check(text: str, where: str, times: str) -> None:
    from moto.iam.exceptions import ValidationError

    if all(sign in _SIGNS or unicodedata.category(sign)[0] in "LZN" for sign in text):
        return
    raise ValidationError(
        f"1 validation error detected: Value '{text}' at '{where}' failed to satisfy constraint: "
        r"Member must satisfy regular expression pattern: [\p{L}\p{Z}\p{N}_.:/=+\-@]" + times
    )
