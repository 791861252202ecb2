"""Check that the volumes' KMS key lets Auto Scaling launch hosts.

AWS (documented): Without use of the volumes' KMS key, Auto Scaling's instances end right after
their launch.
https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.listing import listed as listed_pages
from terradask._aws.service_roles import AUTOSCALING
from terradask._aws.session import Aws
from terradask._doctor.finding import Finding
from terradask.errors import AccessDenied
from terradask_modules.caller_policies import SERVICE_ROLES
from terradask_modules.iam import covers, listed, statement, statements_of

#: The calls of a launch with encrypted volumes; the last one only for AWS's own resources.
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

_CORRECT = "correct network.kms_key_arn"


def check_volume_key(aws: Aws, key_arn: str | None) -> Finding:
    """Check that Auto Scaling's service-linked role may encrypt volumes with the customer's key, if
    one is set.

    Permissions needed: ``kms:DescribeKey``, ``kms:GetKeyPolicy``, ``kms:ListGrants`` on the key;
    without them the check passes. Statements with unusual conditions don't count.
    """
    if key_arn is None:
        return Finding("volume-key", True, "AWS's own (network.kms_key_arn is not set)")
    service_role = SERVICE_ROLES[AUTOSCALING]
    role = (
        f"arn:{aws.partition}:iam::{aws.account_id}:role/aws-service-role/{AUTOSCALING}/"
        f"{service_role}"
    )
    client = aws.client("kms")
    missing = None
    try:
        with unless("NotFoundException"):
            wrong = _unusable(client.describe_key(KeyId=key_arn)["KeyMetadata"])
            if wrong is not None:
                return Finding("volume-key", False, wrong, _CORRECT)
            policy = client.get_key_policy(KeyId=key_arn, PolicyName="default")["Policy"]
            missing = missing_statements(json.loads(policy), role=role, account=aws.account_id)
            if missing and _granted(client, key_arn, role):
                return Finding("volume-key", True, f"a grant lets {service_role} use the key")
    except AccessDenied as error:
        found = f"not visible to this caller: it lacks {error.action}"
        return Finding("volume-key", True, found)
    if missing is None:
        return Finding("volume-key", False, f"the key {key_arn} doesn't exist", _CORRECT)
    lets = "doesn't let" if missing else "lets"
    found = f"the policy of {key_arn} {lets} {service_role} use the key"
    fix = f"add to the key's policy: {json.dumps(list(missing))}" if missing else None
    return Finding("volume-key", not missing, found, fix)


def statements_for(role: str) -> tuple[dict[str, Any], ...]:
    """Return a key policy's statements for launches of hosts with encrypted volumes by a role."""
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
    """Return the missing ones of the two statements in a key's policy."""
    statements = statements_of(policy)
    granted = {action for action in (*_USES, _GRANTS) if _allows(statements, action, role, account)}
    use, grant = statements_for(role)
    return (
        *(() if granted.issuperset(_USES) else (use,)),
        *(() if _GRANTS in granted else (grant,)),
    )


def _allows(statements: Iterable[Mapping[str, Any]], action: str, role: str, account: str) -> bool:
    about = [s for s in statements if covers(s, action) and _names(s.get("Principal"), role)]
    if any(s["Effect"] == "Deny" and not s.get("Condition") for s in about):
        return False
    return any(s["Effect"] == "Allow" and _holds(s.get("Condition", {}), account) for s in about)


def _names(principal: Any, role: str) -> bool:
    if isinstance(principal, Mapping):
        return any(named in ("*", role) for named in listed(principal.get("AWS")))
    return bool(principal == "*")


def _holds(condition: Mapping[str, Mapping[str, Any]], account: str) -> bool:
    """Return whether a condition surely holds when Auto Scaling launches an instance here."""
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
    """Return why volumes can't be encrypted with a key by any caller, or None."""
    if key.get("KeyState", "Enabled") != "Enabled":
        return f"the key {key['Arn']} is {key['KeyState']}"
    if key.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        return f"the key {key['Arn']} is {key['KeySpec']}; volumes take symmetric keys"
    return None


def _granted(client: Any, key_arn: str, role: str) -> bool:
    wanted = {action.removeprefix("kms:") for action in (*_USES, _GRANTS)}
    grants = listed_pages(client, "list_grants", "Grants", KeyId=key_arn, GranteePrincipal=role)
    return any(
        wanted <= set(grant["Operations"])
        for grant in grants
        if grant.get("GranteePrincipal") == role
    )
