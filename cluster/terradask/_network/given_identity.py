"""Check given instance profiles, the boundary, the KMS key and the images. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._network.given_network import LikelyFinding, own_tag
from terradask_modules.iam import listed, statements_of
from terradask_modules.names import ROLES
from terradask_modules.partitions import SUFFIXES, dns_suffix, partition_of
from terradask_modules.task_limits import could_allow
from terradask_stacks.errors import Finding
from terradask_stacks.settings.network import IMAGE_SETTINGS

if TYPE_CHECKING:
    from terradask._network.given_facts import Description, GivenFacts
    from terradask_stacks.settings import NetworkSettings, Settings

#: The role with which Auto Scaling launches instances.
AUTO_SCALING_ROLE = "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"


def identity_findings(settings: Settings, facts: GivenFacts) -> Iterator[Finding]:
    """Find problems of profiles, roles, the boundary, the key and the images."""
    yield from _profile_findings(settings, facts)
    boundary = settings.network.permissions_boundary
    if boundary is not None and facts.boundaries is not None and boundary not in facts.boundaries:
        yield Finding(
            where="network.permissions_boundary",
            problem="there is no such policy",
            given=boundary,
            allowed="a managed policy of this account, or of AWS's",
            advice="correct it; aws iam list-policies --scope Local lists the existing ones",
        )
    if boundary is not None and facts.boundary_document is not None:
        yield from _boundary_findings(settings.network, boundary, facts.boundary_document)
    yield from _key_findings(settings, facts)
    yield from _image_findings(settings, facts)


def trusts_instances(role: Description) -> bool:
    """Return whether EC2 may pass a role to instances."""
    return any(
        statement.get("Effect") == "Allow"
        and any(
            action in {"sts:AssumeRole", "sts:*", "*"} for action in listed(statement.get("Action"))
        )
        and any(
            service in {f"ec2.{suffix}" for suffix in SUFFIXES}
            for service in _principals(statement, "Service")
        )
        for statement in statements_of(role.get("AssumeRolePolicyDocument"))
    )


def key_policy_names(policy: Description, kind: str, ending: str) -> bool:
    """Return whether a key's policy names a principal, or everybody."""
    return any(
        statement.get("Effect") == "Allow"
        and any(
            str(principal) == "*" or str(principal).endswith(ending)
            for principal in _principals(statement, kind)
        )
        for statement in statements_of(policy)
    )


def _boundary_findings(
    network: NetworkSettings, boundary: str, document: Description
) -> Iterator[Finding]:
    """Find rights of tasks that the boundary of their roles leaves without effect."""
    buckets = [
        ("network.data_buckets", one.path, "s3:GetObject", f"arn:*:s3:::{one.path}/*")
        for one in network.data
    ]
    rights = [
        ("network.task_rights", one.reason, action, resource)
        for one in network.rights
        for action in one.actions
        for resource in one.resources
    ]
    for where, what, action, resource in (*buckets, *rights):
        if not could_allow(document, action, resource):
            yield LikelyFinding(
                where=where,
                problem=f"the permissions boundary of tasks' roles allows no {action} on "
                f"{resource}, so this has no effect",
                given=what,
                allowed=f"what {boundary} allows",
                advice="have the boundary extended (terradask iam setup prints it again, if it is "
                "terradask's), or leave the entry out",
            )


def _profile_findings(settings: Settings, facts: GivenFacts) -> Iterator[Finding]:
    given = settings.network.instance_profiles
    if given is None:
        return
    network = settings.network
    for setting, named in (
        ("data_buckets", [one.path for one in network.data_buckets]),
        ("task_rights", [one.reason for one in network.task_rights]),
    ):
        if named:
            yield Finding(
                where=f"network.{setting}",
                problem=(
                    "permissions of tasks are policies of the hosts' roles, and given roles are "
                    "never changed"
                ),
                given=named,
                allowed=f"no {setting} with network.instance_profiles",
                advice=f"give the given roles these permissions, and leave {setting} out",
            )
    if facts.profiles is None:
        return
    for role in ROLES:
        where, name = f"network.instance_profiles.{role}", getattr(given, role)
        finding = partial(Finding, where=where, given=name)
        profile = facts.profiles.get(name)
        if profile is None:
            yield finding(
                problem="there is no such instance profile in this account",
                allowed="the name of an instance profile (a role alone isn't one)",
                advice="aws iam list-instance-profiles lists the existing ones",
            )
            continue
        yield from own_tag(where, name, profile, settings.workspace.name)
        roles = profile.get("Roles", ())
        if not roles:
            yield finding(
                problem="the instance profile holds no role",
                allowed="an instance profile with a role",
                advice=(
                    f"aws iam add-role-to-instance-profile --instance-profile-name {name} "
                    "--role-name ROLE"
                ),
            )
        elif not trusts_instances(roles[0]):
            yield finding(
                problem=(
                    f"its role {roles[0].get('RoleName')} doesn't trust EC2: instances would "
                    "get no credentials"
                ),
                allowed="a role that lets ec2.amazonaws.com call sts:AssumeRole",
                advice="have the role's trust policy changed, or give another profile",
            )


def _key_findings(settings: Settings, facts: GivenFacts) -> Iterator[Finding]:
    arn = settings.network.kms_key_arn
    if arn is None or facts.keys is None:
        return
    allowed = f"an enabled symmetric key for encryption in {facts.region}"
    finding = partial(Finding, where="network.kms_key_arn", given=arn, allowed=allowed)
    key = facts.keys.get(arn)
    if arn.split(":")[3] != facts.region or key is None:
        yield finding(
            problem=f"there is no such key in {facts.region}",
            advice="give a key of workspace.region; aws kms list-keys lists the existing ones",
        )
        return
    wanted = (
        ("KeyState", "Enabled"),
        ("KeyUsage", "ENCRYPT_DECRYPT"),
        ("KeySpec", "SYMMETRIC_DEFAULT"),
    )
    for attribute, value in wanted:
        if key.get(attribute, value) != value:
            yield finding(
                problem=f"the key can't encrypt for hosts: its {attribute} is {key[attribute]}",
                advice="enable it (aws kms enable-key), or give another one"
                if attribute == "KeyState"
                else "give another key",
            )
    if facts.key_policy is not None:
        yield from _key_policy_findings(arn, facts.key_policy, facts.region)


def _key_policy_findings(arn: str, policy: Description, region: str) -> Iterator[Finding]:
    # Grants have the same effect as a policy, and aren't read: likely, not certain.
    for kind, ending, who, source in (
        (
            "AWS",
            AUTO_SCALING_ROLE,
            (
                "Auto Scaling's role (AWSServiceRoleForAutoScaling): instances with encrypted "
                "volumes won't start"
            ),
            "https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html",
        ),
        (
            "Service",
            f"logs.{region}.{dns_suffix(partition_of(region))}",
            "CloudWatch Logs: the log group can't be encrypted with it",
            "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html",
        ),
    ):
        if not key_policy_names(policy, kind, ending):
            yield LikelyFinding(
                where="network.kms_key_arn",
                problem=f"the key's policy doesn't name {who}, unless a grant lets it",
                given=arn,
                allowed=f"a policy that names {ending}",
                advice=f"have it added to the key's policy: {source}",
            )


def _image_findings(settings: Settings, facts: GivenFacts) -> Iterator[Finding]:
    if facts.images is None:
        return
    for architecture, image in settings.network.images.items():
        found, setting = facts.images.get(image), f"network.{IMAGE_SETTINGS[architecture]}"
        problem = None
        if found is None:
            problem = f"there is no such image in {facts.region} that this account may launch"
        elif found.get("Architecture", architecture) != architecture:
            problem = f"the image is for {found['Architecture']}"
        elif found.get("State", "available") != "available":
            problem = f"the image is {found['State']}"
        if problem is not None:
            yield Finding(
                where=setting,
                problem=problem,
                given=image,
                allowed=f"an available image for {architecture}",
                advice=f"correct {setting}, or leave it out for the newest Amazon Linux 2023",
            )


def _principals(statement: Mapping[str, Any], kind: str) -> list[Any]:
    principal = statement.get("Principal")
    return ["*"] if principal == "*" else listed((principal or {}).get(kind))
