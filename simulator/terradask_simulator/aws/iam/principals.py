"""Find the caller, a principal with its policies, by its access key. Call with the state's lock
held.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from terradask_simulator.aws.access_keys import role_assumed_with, user_with
from terradask_simulator.aws.backend import account_in
from terradask_simulator.aws.fidelity.session_tokens import session_of
from terradask_simulator.aws.iam.documents import MalformedPolicy, Policy
from terradask_simulator.aws.iam.evaluation import Policies
from terradask_simulator.aws.iam.world import iam_backend, table

__all__ = ["Principal", "find_entity", "find_principal"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Principal:
    """A user or a role's session, with its policies and the condition keys of its requests."""

    #: The ARN in error messages; a session's for a role.
    arn: str
    #: The ARN of the user or role, by which requests are logged.
    entity: str
    policies: Policies = field(default_factory=Policies)
    context: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Whether the credentials are a user's session.
    is_session: bool = False


def find_principal(access_key: str, owner: str = "") -> Principal | None:
    """Return the principal of an access key, or None; `owner` is the access key with all
    permissions.
    """
    if owner and access_key == owner:
        return Principal("", "")
    if (session := session_of(access_key)) is not None:
        caller = find_principal(session.caller, owner)
        return None if caller is None else replace(caller, is_session=True)
    if (assumed := role_assumed_with(access_key)) is not None:
        return _session(assumed)
    user, _ = user_with(access_key)
    return None if user is None else _user(user)


def find_entity(arn: str) -> Principal | None:
    """Return the user, group or role of an ARN as a caller."""
    for user in iam_backend().users.values():
        if user.arn == arn:
            return _user(user)
    for group in iam_backend().groups.values():
        if group.arn == arn:
            held = (*_inline(group.policies), *_managed(group.managed_policies))
            return Principal(arn, arn, Policies(held))
    role = _role(arn)
    if role is None:
        return None
    context = _context(role.arn, "AssumedRole", role.id, table(role.tags))
    return Principal(arn, arn, _policies_of(role), context)


def _role(arn: str) -> Any:
    roles = iam_backend(account_in(arn)).roles.values()
    return next((one for one in roles if one.arn == arn), None)


def _session(assumed: Any) -> Principal | None:
    role = _role(assumed.role_arn)
    if role is None:
        return None
    context = _context(
        role.arn, "AssumedRole", f"{role.id}:{assumed.session_name}", table(role.tags)
    )
    if assumed.session_name.startswith("i-"):
        # Sessions of instances' roles are named after their instances.
        context["ec2:SourceInstanceARN"] = (
            f"arn:aws:ec2:{assumed.region_name}:{assumed.account_id}:instance/{assumed.session_name}",
        )
        # AWS (documented): aws:EC2InstanceSourceVPC is present in requests that an instance's own
        # credentials sign. Here only its presence counts.
        # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
        context["aws:EC2InstanceSourceVPC"] = ("vpc-0",)
    session = _read(assumed.policy, "session policy") if assumed.policy else None
    policies = replace(_policies_of(role), session=session)
    return Principal(assumed.arn, role.arn, policies, context)


def _policies_of(role: Any) -> Policies:
    boundary = _managed([role.permissions_boundary_arn] if role.permissions_boundary_arn else [])
    return Policies(
        identity=(*_inline(role.policies), *_managed(role.managed_policies)),
        boundary=boundary[0] if boundary else None,
    )


def _user(user: Any) -> Principal:
    backend = iam_backend(account_in(user.arn))
    context = _context(user.arn, "User", user.id, table(backend.list_user_tags(user.name)))
    context["aws:username"] = (user.name,)
    holders = [user, *(group for group in backend.groups.values() if user in group.users)]
    identity = [
        policy
        for one in holders
        for policy in (*_inline(one.policies), *_managed(one.managed_policies))
    ]
    return Principal(user.arn, user.arn, Policies(tuple(identity)), context)


def _context(arn: str, kind: str, user_id: str, tags: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        "aws:PrincipalAccount": (account_in(arn),),
        "aws:PrincipalArn": (arn,),
        "aws:PrincipalIsAWSService": ("false",),
        "aws:PrincipalType": (kind,),
        "aws:userid": (user_id,),
        **{f"aws:PrincipalTag/{key}": (value,) for key, value in tags.items()},
    }


def _inline(policies: dict[str, Any]) -> list[Policy]:
    return [policy for name, document in policies.items() if (policy := _read(document, name))]


def _managed(arns: Iterable[str]) -> list[Policy]:
    found = []
    for arn in arns:
        held = iam_backend(account_in(arn)).managed_policies.get(arn)
        # A deleted boundary allows nothing.
        documents = (
            [version.document for version in held.versions if version.is_default]
            if held is not None
            else ['{"Statement": []}']
        )
        found += [policy for document in documents if (policy := _read(document, arn))]
    return found


def _read(document: Any, name: str) -> Policy | None:
    try:
        return Policy.parse(document if isinstance(document, str) else json.dumps(document), name)
    except MalformedPolicy as error:
        # AWS would have rejected the document; it allows nothing.
        _log.warning("%s", error)
        return Policy((), name=name)
