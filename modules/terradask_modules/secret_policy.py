"""The policy of a private cluster's secret, which narrows the rights of IAM policies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from terradask_modules.errors import InvalidInput
from terradask_modules.iam import policy_document, statement

#: An IAM user, an IAM role or an account's root user.
PRINCIPAL_PATTERN = r"^arn:aws(-[a-z]+)*:iam::[0-9]{12}:((user|role)/[A-Za-z0-9+=,.@_/-]+|root)$"

#: Reading, and ways to let others read: a changed policy, or a deleted secret, which could be made
#: again under its name without one. A caller who writes it decides what hosts run, because it binds
#: their documents.
_DENIED = (
    "secretsmanager:DeleteResourcePolicy",
    "secretsmanager:DeleteSecret",
    "secretsmanager:GetSecretValue",
    "secretsmanager:PutResourcePolicy",
    "secretsmanager:PutSecretValue",
    "secretsmanager:ReplicateSecretToRegions",
    "secretsmanager:RotateSecret",
    "secretsmanager:TagResource",
    "secretsmanager:UntagResource",
    "secretsmanager:UpdateSecret",
    "secretsmanager:UpdateSecretVersionStage",
)

_SESSION = re.compile(
    r"^arn:(?P<partition>[^:]+):sts::(?P<account>\d+):assumed-role/(?P<role>[^/]+)/.+$"
)


def principal_of(caller_arn: str) -> str:
    """Return a caller's principal in IAM policies: the role of a role's session, else the caller.

    `caller_arn` is from ``sts:GetCallerIdentity``, which omits a role's path; so does the result.
    """
    session = _SESSION.match(caller_arn)
    if session is None:
        return caller_arn
    return f"arn:{session['partition']}:iam::{session['account']}:role/{session['role']}"


def private_policy(
    principals: Sequence[str], host_roles: Iterable[str], *, account: str, partition: str
) -> str:
    """Return the policy of a secret that only its hosts and some principals read, change or delete,
    whatever IAM allows others. No policy of hosts allows more than reading.

    The account's root user may do both: otherwise the secret would stay forever once the named
    principals are gone. ARNs of hosts' roles may be Terraform's expressions.

    Raises `InvalidInput` if a principal is of another account: what IAM there allows doesn't reach
    this secret.

    AWS (documented): For a role's session, IAM's key aws:PrincipalArn is the role's ARN, with its
    path.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-principalarn
    """
    strangers = [arn for arn in principals if arn.split(":")[4] != account]
    if strangers:
        raise InvalidInput(
            "cluster.secret_principals names principals of another AWS account",
            given=", ".join(strangers),
            allowed=f"users and roles of account {account}",
            advice="name a role of this account that they may assume",
        )
    named = [pattern for arn in principals for pattern in _patterns(arn)]
    allowed = sorted({*named, f"arn:{partition}:iam::{account}:root"}) + list(host_roles)
    deny = statement(
        "Deny",
        list(_DENIED),
        sid="KeepOthersOut",
        principal="*",
        resource="*",
        condition={"ArnNotLike": {"aws:PrincipalArn": allowed}},
    )
    return json.dumps(policy_document([deny]))


def is_named(caller_arn: str, principals: Iterable[str]) -> bool:
    """Return whether `private_policy` for these principals lets a caller change the secret."""
    caller = principal_of(caller_arn)
    return caller.endswith(":root") or caller in {_without_path(arn) for arn in principals}


def _without_path(arn: str) -> str:
    """Return a role's ARN without its path, as in its sessions' ARNs; other ARNs unchanged."""
    head, _, name = arn.partition(":role/")
    return f"{head}:role/{name.rpartition('/')[2]}" if name else arn


def _patterns(arn: str) -> list[str]:
    """Return possible forms of a principal's ARN: a role's also with a path, because roles' names
    are unique in an account.
    """
    head, _, name = arn.partition(":role/")
    return [arn] if not name or "/" in name else [arn, f"{head}:role/*/{name}"]
