"""Create roles with given policies, to act with them on the embedded AWS."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from terradask_simulator.aws.backend import ACCOUNT
from terradask_simulator.aws.errors import SimulatorError

__all__ = ["assume"]

#: AWS (iam-sizes)
_MAX_CHARACTERS = 6_144

_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "sts:AssumeRole",
        }
    ],
}


def assume(
    iam: Any, sts: Any, name: str, policies: Sequence[Mapping[str, Any] | str]
) -> dict[str, str]:
    """Create a role or replace its policies; return variables with its session's credentials."""
    documents = [policy if isinstance(policy, str) else json.dumps(policy) for policy in policies]
    for document in documents:
        size = len("".join(document.split()))
        if size > _MAX_CHARACTERS:
            raise SimulatorError(
                "A managed policy is larger than AWS allows",
                given=f"{size} characters",
                allowed=str(_MAX_CHARACTERS),
                advice="split it",
            )
    with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
    for attached in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=name, PolicyArn=attached["PolicyArn"])
        iam.delete_policy(PolicyArn=attached["PolicyArn"])
    for number, document in enumerate(documents):
        arn = iam.create_policy(PolicyName=f"{name}-{number}", PolicyDocument=document)["Policy"][
            "Arn"
        ]
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    session = sts.assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/{name}", RoleSessionName=name)[
        "Credentials"
    ]
    return {
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["SessionToken"],
    }
