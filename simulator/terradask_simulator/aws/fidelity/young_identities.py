"""New roles and instance profiles that other services don't know yet, if switched on.

AWS (documented): Changes in IAM take time to be visible everywhere.
https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency

What is refused meanwhile:

- AWS (reported): AddRoleToInstanceProfile answers NoSuchEntity for a role of seconds before.
  https://github.com/hashicorp/terraform-provider-aws/pull/6079
- AWS (reported): CreateAutoScalingGroup and UpdateAutoScalingGroup answer ValidationError for a
  launch template with a new instance profile, by name or by ARN.
  https://github.com/eksctl-io/eksctl/issues/8039
  https://github.com/hashicorp/terraform-provider-aws/issues/24910
- AWS (reported): RunInstances answers InvalidParameterValue for a new instance profile.
  https://github.com/hashicorp/terraform-provider-aws/issues/27516
- AWS (reported): AssumeRole answers AccessDenied for ten to thirty seconds.
  https://github.com/hashicorp/terraform-provider-aws/issues/6566
- AWS (believed): S3 answers MalformedPolicy, and Secrets Manager
  MalformedPolicyDocumentException, to a resource policy that names a new role; Terraform's provider
  repeats both calls for these codes and texts.

CreateLaunchTemplate takes a profile unseen. What is about one resource's role alone is with that
resource.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from typing import Any

from terradask_simulator.aws.fidelity.assumed_roles import refused_role
from terradask_simulator.aws.fidelity.clock import now
from terradask_simulator.aws.iam.mapping.autoscaling import launch_templates
from terradask_simulator.aws.iam.operation import Operation, named
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.iam.world import World, iam_backend
from terradask_simulator.aws.switchboard import Setting

__all__ = ["CHECKS", "DELAY", "check_identities", "is_young", "role_named"]

#: The longest time until other services know an identity.
DELAY = Setting(seconds=0.0, seed=0)

_BAD_REQUEST = "400 Bad Request"


def check_identities(operation: Operation) -> Refusal | None:
    """Return the error for a call that names a role or instance profile that is too new."""
    check = CHECKS.get((operation.service, operation.name)) if DELAY.seconds else None
    return None if check is None else check(operation)


def _role_of_profile(operation: Operation) -> Refusal | None:
    name = named(operation.parameters, "RoleName")
    if not is_young(role_named(name)):
        return None
    message = f"The role with name {name} cannot be found."
    return worded(operation, "NoSuchEntity", message, "404 Not Found")


def _assumed(operation: Operation) -> Refusal | None:
    role = role_named(named(operation.parameters, "RoleArn"))
    return refused_role(operation) if is_young(role) else None


def _group(operation: Operation) -> Refusal | None:
    world = World(operation.region)
    for specification, _ in launch_templates(operation.parameters):
        template = world.template(
            named(specification, "LaunchTemplateId", "LaunchTemplateName"),
            named(specification, "Version") or "$Default",
        )
        invalid = _invalid(template.data.get("IamInstanceProfile") if template else None)
        if invalid:
            return worded(
                operation,
                "ValidationError",
                f"You must use a valid fully-formed launch template. {invalid}",
                _BAD_REQUEST,
            )
    return None


def _launch(operation: Operation) -> Refusal | None:
    invalid = _invalid(operation.parameters.get("IamInstanceProfile"))
    return worded(operation, "InvalidParameterValue", invalid, _BAD_REQUEST) if invalid else None


def _secret_policy(operation: Operation) -> Refusal | None:
    if not _names_young_role(named(operation.parameters, "ResourcePolicy")):
        return None
    message = "This resource policy contains an unsupported principal."
    return worded(operation, "MalformedPolicyDocumentException", message)


def _bucket_policy(operation: Operation) -> Refusal | None:
    if operation.method != "PUT" or "policy" not in operation.parameters:
        return None
    if not _names_young_role(operation.body.decode("utf-8", "replace")):
        return None
    return worded(operation, "MalformedPolicy", "Invalid principal in policy", _BAD_REQUEST)


def _names_young_role(policy: str) -> bool:
    return any(f'"{role.arn}"' in policy for role in _young_roles())


def _invalid(profile: Any) -> str:
    """Return AWS's words for an instance profile that is too new, or an empty string."""
    for field, kind in (("Arn", "ARN"), ("Name", "name")):
        value = str((profile or {}).get(field) or "")
        found = iam_backend().instance_profiles.values() if value else ()
        if any(value in (one.arn, one.name) and is_young(one) for one in found):
            return (
                f"Value ({value}) for parameter iamInstanceProfile.{field.lower()} is invalid. "
                f"Invalid IAM Instance Profile {kind}"
            )
    return ""


def role_named(name_or_arn: str) -> Any:
    """Return a role of moto's, or None."""
    name = name_or_arn.rpartition("/")[2]
    return next((one for one in iam_backend().roles.values() if one.name == name), None)


def _young_roles() -> Iterator[Any]:
    return (one for one in iam_backend().roles.values() if is_young(one))


def is_young(identity: Any) -> bool:
    """Return whether other services don't know a role or instance profile yet."""
    if identity is None:
        return False
    # Drawn by the identity, so that each has one time for all callers.
    drawn = random.Random(f"{DELAY.seed} {identity.arn}")  # noqa: S311  (nothing secret)
    created = identity.create_date.replace(tzinfo=datetime.UTC)
    age_seconds = (now() - created).total_seconds()
    return bool(age_seconds < drawn.uniform(0.0, DELAY.seconds))


#: Service and operation -> what returns the error for a call that names an identity too new.
CHECKS: dict[tuple[str, str], Callable[[Operation], Refusal | None]] = {
    ("iam", "AddRoleToInstanceProfile"): _role_of_profile,
    ("sts", "AssumeRole"): _assumed,
    ("autoscaling", "CreateAutoScalingGroup"): _group,
    ("autoscaling", "UpdateAutoScalingGroup"): _group,
    ("ec2", "RunInstances"): _launch,
    ("secretsmanager", "PutResourcePolicy"): _secret_policy,
    ("s3", ""): _bucket_policy,
}
