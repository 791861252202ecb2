"""May Auto Scaling use the customer's key for volumes? If not, instances end as soon as they are
launched, and nothing says why.

`Required key policy for encrypted volumes
<https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html>`_
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from terradask._aws.service_roles import AUTOSCALING
from terradask.errors import AccessDenied
from terradask_modules.caller_policies import SERVICE_ROLES
from terradask_modules.iam import listed, statement, statements_of

if TYPE_CHECKING:
    from terradask._aws.session import Aws

#: What launching encrypted volumes calls; the last one only for AWS's own resources.
_USES = (
    "kms:Encrypt",
    "kms:Decrypt",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:DescribeKey",
)
_GRANTS = "kms:CreateGrant"


@dataclass(frozen=True)
class KeyCheck:
    """Whether Auto Scaling may use a key."""

    #: Whether it may; None where the caller may not see that.
    ok: bool | None
    #: What is there.
    found: str
    #: What to add to the key's policy, where something is missing.
    statements: tuple[dict[str, Any], ...] = ()

    @property
    def fix(self) -> str | None:
        """What to do, where it isn't well."""
        if not self.statements:
            return None
        return f"add to the key's policy: {json.dumps(list(self.statements))}"


def check_kms_key(aws: Aws, key_arn: str) -> KeyCheck:
    """Check that Auto Scaling's service-linked role may encrypt volumes with a customer's key.

    Permissions needed: ``kms:DescribeKey``, ``kms:GetKeyPolicy``, ``kms:ListGrants`` on the key;
    without them `KeyCheck.ok` is None. What an unusual condition in the policy means is not decided
    here: such a statement doesn't count.
    """
    name = f"{AUTOSCALING}/{SERVICE_ROLES[AUTOSCALING]}"
    role = f"arn:{aws.partition}:iam::{aws.account_id}:role/aws-service-role/{name}"
    client = aws.client("kms")
    try:
        key = client.describe_key(KeyId=key_arn)["KeyMetadata"]
        unusable = _unusable(key)
        if unusable is not None:
            return KeyCheck(False, unusable)
        policy = json.loads(client.get_key_policy(KeyId=key_arn, PolicyName="default")["Policy"])
        missing = missing_statements(policy, role=role, account=aws.account_id)
        if missing and _granted(client, key_arn, role):
            return KeyCheck(True, f"a grant lets {SERVICE_ROLES[AUTOSCALING]} use the key")
    except client.exceptions.NotFoundException:
        return KeyCheck(False, f"there is no key {key_arn}")
    except AccessDenied as error:
        return KeyCheck(
            None, f"can't be seen by this caller: it lacks {error.action}", statements_for(role)
        )
    if missing:
        return KeyCheck(
            False,
            f"the policy of {key_arn} doesn't let {SERVICE_ROLES[AUTOSCALING]} use the key",
            missing,
        )
    return KeyCheck(True, f"its policy lets {SERVICE_ROLES[AUTOSCALING]} use the key")


def statements_for(role: str) -> tuple[dict[str, Any], ...]:
    """Return a key policy's statements that let a role launch hosts with encrypted volumes."""
    uses = [
        "kms:Encrypt",
        "kms:Decrypt",
        "kms:ReEncrypt*",
        "kms:GenerateDataKey*",
        "kms:DescribeKey",
    ]
    for_aws = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    principal = {"AWS": role}
    return (
        statement("Allow", uses, sid="AutoScalingUsesTheKey", principal=principal, resource="*"),
        statement(
            "Allow",
            _GRANTS,
            sid="AutoScalingAttachesVolumes",
            principal=principal,
            resource="*",
            condition=for_aws,
        ),
    )


def missing_statements(
    policy: Mapping[str, Any], *, role: str, account: str
) -> tuple[dict[str, Any], ...]:
    """Return those of the two statements that a key's policy lacks."""
    statements = statements_of(policy)
    granted = {action for action in (*_USES, _GRANTS) if _allows(statements, action, role, account)}
    use, grant = statements_for(role)
    return (
        *(() if granted.issuperset(_USES) else (use,)),
        *(() if _GRANTS in granted else (grant,)),
    )


def _allows(statements: Iterable[Mapping[str, Any]], action: str, role: str, account: str) -> bool:
    about = [s for s in statements if _covers(s, action) and _names(s.get("Principal"), role)]
    if any(s["Effect"] == "Deny" and not s.get("Condition") for s in about):
        return False
    return any(s["Effect"] == "Allow" and _holds(s.get("Condition", {}), account) for s in about)


def _covers(statement: Mapping[str, Any], action: str) -> bool:
    return any(
        fnmatchcase(action.lower(), pattern.lower()) for pattern in listed(statement.get("Action"))
    )


def _names(principal: Any, role: str) -> bool:
    if isinstance(principal, Mapping):
        return any(named in ("*", role) for named in listed(principal.get("AWS")))
    return bool(principal == "*")


def _holds(condition: Mapping[str, Mapping[str, Any]], account: str) -> bool:
    """Say whether a condition surely holds when Auto Scaling launches an instance here."""
    for operator, keys in condition.items():
        for key, values in keys.items():
            known = {
                ("StringEquals", "kms:CallerAccount"): account in listed(values),
                ("Bool", "kms:GrantIsForAWSResource"): str(values).lower() == "true",
            }
            if not known.get((operator, key), False):
                return False
    return True


def _unusable(key: Mapping[str, Any]) -> str | None:
    """Say why volumes can't be encrypted with a key, by any caller."""
    if key.get("KeyState", "Enabled") != "Enabled":
        return f"the key {key['Arn']} is {key['KeyState']}"
    if key.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        return f"the key {key['Arn']} is {key['KeySpec']}; volumes take symmetric keys"
    return None


def _granted(client: Any, key_arn: str, role: str) -> bool:
    pages = client.get_paginator("list_grants").paginate(KeyId=key_arn, GranteePrincipal=role)
    wanted = {action.removeprefix("kms:") for action in (*_USES, _GRANTS)}
    return any(
        wanted <= set(grant["Operations"])
        for page in pages
        for grant in page["Grants"]
        if grant.get("GranteePrincipal") == role
    )
