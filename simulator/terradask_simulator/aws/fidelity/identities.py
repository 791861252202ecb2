"""Check IAM's tags, roles, their policies and instance profiles as strictly as AWS, and describe
roles as IAM does.

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
- AWS (recorded): IAM refuses a policy that isn't JSON with MalformedPolicyDocument.
  tests/records/data/iam.json
  moto has another text for it, and takes any text as a new role's trust.
- AWS (recorded): IAM's CreateRole returns neither MaxSessionDuration nor RoleLastUsed.
  tests/records/data/iam.json
  moto returns all of a role at its creation, and reads escaped signs in listed policies twice.
- AWS (recorded): IAM attaches a managed policy to a service-linked role.
  tests/records/data/iam.json
  moto attaches nothing.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from terradask_simulator.aws.fidelity.patching import add, around

__all__ = ["install"]

_SIGNS = frozenset("_.:/=+-@")

#: AWS (service-roles)
_SERVICES = {"batch": "Batch", "spot": "EC2Spot", "spotfleet": "EC2SpotFleet"}
_POLICIES = "arn:aws:iam::aws:policy/aws-service-role/"
#: Service -> the policy of its service-linked role.
_SERVICE_POLICIES = {
    "autoscaling.amazonaws.com": "AutoScalingServiceRolePolicy",
    "spot.amazonaws.com": "AWSEC2SpotServiceRolePolicy",
}


def install() -> None:
    """Replace moto's checks and answers."""
    _install_tags_and_profiles()
    _install_roles()
    _install_service_roles()


def _install_tags_and_profiles() -> None:
    from moto.iam.exceptions import NoSuchEntity
    from moto.iam.models import IAMBackend
    from moto.iam.responses import IamResponse

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

    # As a patch: simulator/upstream/release/iam-instance-profile-tags.patch
    def list_instance_profile_tags(response: Any) -> Any:
        profile = response.backend.get_instance_profile(response._get_param("InstanceProfileName"))
        return {"Tags": profile.tags, "IsTruncated": False}

    add(IamResponse, list_instance_profile_tags)


def _install_roles() -> None:
    from moto.core.serialize import QuerySerializer, never_return, url_encode
    from moto.iam.exceptions import MalformedPolicyDocument, ValidationError
    from moto.iam.models import IAMBackend
    from moto.iam.policy_validation import BaseIAMPolicyValidator, IAMTrustPolicyDocumentValidator
    from moto.iam.responses import IamResponse

    IamResponse.RESPONSE_KEY_PATH_TO_TRANSFORMER |= {
        "CreateRoleResponse.Role.MaxSessionDuration": never_return,
        "CreateRoleResponse.Role.RoleLastUsed": never_return,
        "ListRolesResponse.Roles.Role.AssumeRolePolicyDocument": url_encode,
    }

    @around(QuerySerializer, "_serialize_error_metadata")
    def serialize(serialize: Any, serializer: Any, serialized: Any, *args: Any) -> None:
        serialize(serializer, serialized, *args)
        # The model names it so; the recorded errors of IAM have ``Message`` alone.
        serialized.pop("message", None)

    @around(BaseIAMPolicyValidator, "validate")
    def validate(validate: Any, validator: Any) -> None:
        try:
            json.loads(validator._policy_document)
        except ValueError as error:
            raise MalformedPolicyDocument("This policy contains invalid Json") from error
        validate(validator)

    @around(IAMBackend, "create_role")
    def create_role(
        create: Any, backend: Any, name: str, document: str, *args: Any, **more: Any
    ) -> Any:
        IAMTrustPolicyDocumentValidator(document).validate()
        return create(backend, name, document, *args, **more)

    @around(IAMBackend, "attach_role_policy")
    def attach_role_policy(attach: Any, backend: Any, policy_arn: str, role_name: str) -> None:
        if not policy_arn.startswith("arn:"):
            raise ValidationError("Invalid ARN:  Could not be parsed!")
        attach(backend, policy_arn, role_name)


def _install_service_roles() -> None:
    from moto.iam import models
    from moto.iam.exceptions import IAMException
    from moto.iam.models import IAMBackend

    models.SERVICE_NAME_CONVERSION.update(_SERVICES)

    # As a patch: simulator/upstream/release/iam-service-role-policies.patch
    @around(IAMBackend, "create_service_linked_role")
    def create_service_role(
        create: Any, backend: Any, service: str, description: str, suffix: str
    ) -> Any:
        path = f"/aws-service-role/{service}/"
        for role in backend.roles.values():
            if role.path == path and role.name.endswith(suffix or ""):
                raise IAMException(
                    "InvalidInput",
                    f"Service role name {role.name} has been taken in this account, please try a "
                    "different suffix.",
                )
        role = create(backend, service, description, suffix)
        trust = json.loads(role.assume_role_policy_document)
        for statement in trust["Statement"]:
            statement |= {"Action": "sts:AssumeRole", "Principal": {"Service": service}}
        role.assume_role_policy_document = json.dumps(trust)
        if service in _SERVICE_POLICIES:
            backend.attach_role_policy(_POLICIES + _SERVICE_POLICIES[service], role.name)
        return role

    @around(IAMBackend, "delete_service_linked_role")
    def delete_service_role(delete: Any, backend: Any, role_name: str) -> Any:
        for arn in list(backend.get_role(role_name).managed_policies):
            backend.detach_role_policy(arn, role_name)
        return delete(backend, role_name)


def _check(text: str, where: str, times: str) -> None:
    from moto.iam.exceptions import ValidationError

    if all(sign in _SIGNS or unicodedata.category(sign)[0] in "LZN" for sign in text):
        return
    raise ValidationError(
        f"1 validation error detected: Value '{text}' at '{where}' failed to satisfy constraint: "
        r"Member must satisfy regular expression pattern: [\p{L}\p{Z}\p{N}_.:/=+\-@]" + times
    )
