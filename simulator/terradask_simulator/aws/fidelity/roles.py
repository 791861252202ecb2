"""Check policies of roles, and describe roles, as IAM does.

AWS (recorded): IAM refuses a trust policy that isn't JSON with MalformedPolicyDocument.
tests/records/data/iam.json

AWS (recorded): IAM's CreateRole returns neither MaxSessionDuration nor RoleLastUsed.
tests/records/data/iam.json

AWS (recorded): IAM attaches a managed policy to a service-linked role.
tests/records/data/iam.json

moto takes any text as a trust policy, returns all of a role at its creation, reads escaped signs in
listed policies twice, and attaches nothing to service-linked roles.
"""

from __future__ import annotations

import json
from typing import Any

from terradask_simulator.aws.fidelity.patching import add, around

__all__ = ["install"]

_POLICIES = "arn:aws:iam::aws:policy/aws-service-role/"
#: Service -> the policy of its service-linked role.
_SERVICE_POLICIES = {
    "autoscaling.amazonaws.com": "AutoScalingServiceRolePolicy",
    "spot.amazonaws.com": "AWSEC2SpotServiceRolePolicy",
}


def install() -> None:
    """Replace moto's checks and answers."""
    from moto.core.serialize import QuerySerializer, never_return, url_encode
    from moto.iam.exceptions import ValidationError
    from moto.iam.models import IAMBackend
    from moto.iam.policy_validation import IAMTrustPolicyDocumentValidator
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

    @around(IAMBackend, "create_role")
    def create_role(
        create: Any, backend: Any, name: str, document: str, *args: Any, **more: Any
    ) -> Any:
        _check_json(document)
        IAMTrustPolicyDocumentValidator(document).validate()
        return create(backend, name, document, *args, **more)

    @around(IAMBackend, "update_assume_role_policy")
    def update_trust(update: Any, backend: Any, name: str, document: str) -> None:
        _check_json(document)
        update(backend, name, document)

    @around(IAMBackend, "put_role_policy")
    def put_role_policy(put: Any, backend: Any, role: str, name: str, document: str) -> None:
        _check_json(document)
        put(backend, role, name, document)

    @around(IAMBackend, "attach_role_policy")
    def attach_role_policy(attach: Any, backend: Any, policy_arn: str, role_name: str) -> None:
        if not policy_arn.startswith("arn:"):
            raise ValidationError("Invalid ARN:  Could not be parsed!")
        attach(backend, policy_arn, role_name)

    # As a patch: simulator/upstream/release/iam-service-role-policies.patch
    @around(IAMBackend, "create_service_linked_role")
    def create_service_role(create: Any, backend: Any, service: str, *args: Any) -> Any:
        role = create(backend, service, *args)
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

    # As a patch: simulator/upstream/release/iam-instance-profile-tags.patch
    def list_instance_profile_tags(response: Any) -> Any:
        profile = response.backend.get_instance_profile(response._get_param("InstanceProfileName"))
        return {"Tags": profile.tags, "IsTruncated": False}

    add(IamResponse, list_instance_profile_tags)


def _check_json(document: str) -> None:
    from moto.iam.exceptions import MalformedPolicyDocument

    try:
        json.loads(document)
    except ValueError as error:
        raise MalformedPolicyDocument("This policy contains invalid Json") from error
