"""The policy of a private cluster's secret: it narrows what IAM policies allow for any secret of
the workspace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from terradask_modules.errors import InvalidInput
from terradask_modules.iam import policy_document, statement

#: An IAM user, an IAM role or an account's root user.
PRINCIPAL_PATTERN = r"^arn:aws(-[a-z]+)*:iam::[0-9]{12}:((user|role)/[A-Za-z0-9+=,.@_/-]+|root)$"

#: Reading, and what would let others read: a changed policy, or a deleted secret, which could be
#: made again under its name without one. A caller who writes it decides what hosts run, since it
#: binds their documents.
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
    """Return the principal that IAM's policies know a caller by: of a role's session the role,
    everybody else as they are.

    Parameters
    ----------
    caller_arn
        What ``sts:GetCallerIdentity`` says. Of a role it leaves out the path, and so does this.
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
    principals are gone.

    Parameters
    ----------
    principals
        ARNs of users and roles.
    host_roles
        ARNs of the hosts' roles, which may be Terraform's expressions.
    account, partition
        Where the secret is.

    Raises
    ------
    InvalidInput
        If a principal is of another account: what IAM there allows doesn't reach this secret.

    Notes
    -----
    What a request's ``aws:PrincipalArn`` is:
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
    """Return whether `private_policy` for these principals lets a caller change the secret.

    Parameters
    ----------
    caller_arn
        What ``sts:GetCallerIdentity`` says.
    principals
        ARNs of users and roles.
    """
    caller = principal_of(caller_arn)
    return caller.endswith(":root") or caller in {_without_path(arn) for arn in principals}


def _without_path(arn: str) -> str:
    """Return a role's ARN as that of its sessions leads to it; other ARNs as they are."""
    head, _, name = arn.partition(":role/")
    return f"{head}:role/{name.rpartition('/')[2]}" if name else arn


def _patterns(arn: str) -> list[str]:
    """Return what a principal's ARN may look like: that of a role without a path also with one,
    since roles' names are an account's own.
    """
    head, _, name = arn.partition(":role/")
    return [arn] if not name or "/" in name else [arn, f"{head}:role/*/{name}"]
