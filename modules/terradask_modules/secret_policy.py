"""Who may read a cluster's secret, beside the IAM policies that say who may read any: the secret's
own policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from terradask_modules.errors import InvalidInput
from terradask_modules.iam import policy_document, statement

#: An IAM user, an IAM role or an account's root user.
PRINCIPAL_PATTERN = r"^arn:aws(-[a-z]+)*:iam::[0-9]{12}:((user|role)/[A-Za-z0-9+=,.@_/-]+|root)$"

#: Reading, and taking this policy away. A caller who stops or destroys the cluster writes over the
#: keys or deletes them, and reads none.
_DENIED = (
    "secretsmanager:DeleteResourcePolicy",
    "secretsmanager:GetSecretValue",
    "secretsmanager:PutResourcePolicy",
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
    """Return the policy of a secret that only its hosts and some principals read, whatever IAM
    allows others.

    The account's root user may take the policy away: otherwise no principal could, once those
    that are named are gone.

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
    readers = sorted({*named, f"arn:{partition}:iam::{account}:root"}) + list(host_roles)
    deny = statement(
        "Deny",
        list(_DENIED),
        sid="KeepOthersOut",
        principal="*",
        resource="*",
        condition={"ArnNotLike": {"aws:PrincipalArn": readers}},
    )
    return json.dumps(policy_document([deny]))


def _patterns(arn: str) -> list[str]:
    """Return what a principal's ARN may look like: that of a role without a path also with one,
    since roles' names are an account's own.
    """
    head, _, name = arn.partition(":role/")
    return [arn] if not name or "/" in name else [arn, f"{head}:role/*/{name}"]
