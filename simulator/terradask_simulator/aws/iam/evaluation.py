"""Decide whether policies allow a request. Pure.

Without an organization's service and resource control policies.

AWS (documented): IAM denies by an explicit deny, and allows only what a policy allows.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from terradask_simulator.aws.iam.conditions import holds
from terradask_simulator.aws.iam.documents import Policy, Statement
from terradask_simulator.aws.iam.patterns import Context, like, like_resource

__all__ = ["Decision", "Policies", "Request", "evaluate"]

IDENTITY, BOUNDARY, SESSION, RESOURCE = (
    "identity-based policy",
    "permissions boundary",
    "session policy",
    "resource-based policy",
)

#: Prefixes of the actions that a role's trust policy or a key's policy must allow, regardless of
#: the caller's own policies.
_RESOURCE_DECIDES = ("sts:assumerole", "kms:")
#: How specifically a resource's policy named the caller.
_NOT, _BY_ACCOUNT, _BY_ENTITY, _BY_SESSION = range(4)


@dataclass(frozen=True)
class Request:
    """One action on one resource.

    Parameters
    ----------
    action
        ``service:Action``.
    resource
        The ARN, or ``*`` if the action doesn't support resources.
    context
        Condition keys with their values; keys are case-insensitive.
    principal
        The caller's ARN in error messages; empty without one.
    """

    action: str
    resource: str = "*"
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    principal: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the request as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Request:
        """Return the request from JSON values."""
        context = {key: tuple(values) for key, values in given["context"].items()}
        return cls(**{**given, "context": context})

    def keys(self) -> Context:
        """Return the context with lower-case keys."""
        return {key.lower(): values for key, values in self.context.items()}


@dataclass(frozen=True)
class Policies:
    """The policies that apply to a request.

    Parameters
    ----------
    identity
        Policies of the user and its groups, or of the role.
    boundary
        The permissions boundary; None without one.
    session
        The session policy; None without one.
    resource
        The resource's own policy: a bucket's policy, a role's trust policy; None without one, or to
        ignore it.
    """

    identity: tuple[Policy, ...] = ()
    boundary: Policy | None = None
    session: Policy | None = None
    resource: Policy | None = None


@dataclass(frozen=True)
class Decision:
    """The decision of policies on a request.

    Parameters
    ----------
    allowed
        Whether the request is allowed.
    kind
        The kind of policy that decided.
    statement
        The deciding statement, None if no statement allows the request.
    policy
        The name of the policy with that statement.
    """

    allowed: bool
    kind: str
    statement: Statement | None = None
    policy: str = ""

    def why(self, action: str) -> str:
        """Return the end of AWS's message: with an explicit deny, or because no policy allows the
        request.

        AWS (denied-texts)
        """
        if self.allowed:
            return ""
        article = "an" if self.kind == IDENTITY else "a"
        if self.statement is not None:
            return f"with an explicit deny in {article} {self.kind}"
        return f"because no {self.kind} allows the {action} action"


def evaluate(request: Request, policies: Policies | Iterable[Policy]) -> Decision:
    """Decide a request.

    Parameters
    ----------
    request
        The action on the resource.
    policies
        The policies that apply; a bare list of policies is identity-based.
    """
    all_of = policies if isinstance(policies, Policies) else Policies(identity=tuple(policies))
    context = request.keys()
    for kind, several in _by_kind(all_of):
        denied = _first("Deny", request, context, several, named=kind == RESOURCE)
        if denied is not None:
            return Decision(False, kind, *denied)
    granted = _grant_of_resource(request, context, all_of.resource)
    if (
        granted[0] == _NOT
        and all_of.resource is not None
        and request.action.lower().startswith(_RESOURCE_DECIDES)
    ):
        return Decision(False, RESOURCE)
    if _is_elsewhere(request, context):
        # AWS (documented): For a role of another account, a policy of the caller must allow
        # AssumeRole beside the role's trust policy.
        # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic-cross-account.html
        return _grant_of_identity(request, context, all_of, by_resource=False)
    if granted[0] == _BY_SESSION or (
        granted[0] == _BY_ENTITY and not _narrowed_for_role(request, context, all_of)
    ):
        return Decision(True, RESOURCE, granted[1], all_of.resource.name if all_of.resource else "")
    return _grant_of_identity(request, context, all_of, by_resource=granted[0] == _BY_ENTITY)


def _is_elsewhere(request: Request, context: Context) -> bool:
    """Return whether a role to assume is another account's than the caller."""
    account = "".join(context.get("aws:principalaccount", ()))
    return (
        request.action.lower().startswith("sts:assumerole")
        and bool(account)
        and request.resource.split(":")[4:5] not in ([account], [])
    )


def _by_kind(policies: Policies) -> list[tuple[str, tuple[Policy, ...]]]:
    single = (
        (RESOURCE, policies.resource),
        (BOUNDARY, policies.boundary),
        (SESSION, policies.session),
    )
    return [
        (IDENTITY, policies.identity),
        *((kind, (one,)) for kind, one in single if one is not None),
    ]


def _grant_of_identity(
    request: Request, context: Context, policies: Policies, *, by_resource: bool
) -> Decision:
    allowed = _first("Allow", request, context, policies.identity)
    if allowed is None and not by_resource:
        return Decision(False, IDENTITY)
    for kind, narrowing in ((BOUNDARY, policies.boundary), (SESSION, policies.session)):
        if narrowing is not None and _first("Allow", request, context, (narrowing,)) is None:
            return Decision(False, kind)
    return Decision(True, RESOURCE) if allowed is None else Decision(True, IDENTITY, *allowed)


def _narrowed_for_role(request: Request, context: Context, policies: Policies) -> bool:
    """Return whether boundary and session policy still apply if the resource's policy names the
    caller.

    AWS (documented): IAM's boundary limits what a resource policy grants to a role, but not to a
    user, nor to a session that the policy names.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_boundaries.html#access_policies_boundaries-eval-logic
    """
    is_role = ":assumed-role/" in request.principal or ":role/" in "".join(
        context.get("aws:principalarn", ())
    )
    return is_role and (policies.boundary is not None or policies.session is not None)


def _grant_of_resource(
    request: Request, context: Context, policy: Policy | None
) -> tuple[int, Statement | None]:
    best: tuple[int, Statement | None] = (_NOT, None)
    for statement in policy.statements if policy else ():
        if statement.effect == "Allow" and _applies(
            statement, request, context, policy.version if policy else ""
        ):
            closeness = _closeness(statement.principals, request, context)
            best = max(best, (closeness, statement), key=lambda pair: pair[0])
    return best


def _first(
    effect: str,
    request: Request,
    context: Context,
    policies: tuple[Policy, ...],
    *,
    named: bool = False,
) -> tuple[Statement, str] | None:
    for policy in policies:
        for statement in policy.statements:
            if statement.effect != effect or not _applies(
                statement, request, context, policy.version
            ):
                continue
            if not named or _names(statement, request, context):
                return statement, policy.name
    return None


def _applies(statement: Statement, request: Request, context: Context, version: str) -> bool:
    return (
        _action_matches(statement, request.action)
        and _resource_matches(statement, request, context, version)
        and all(holds(condition, context, version) for condition in statement.conditions)
    )


def _action_matches(statement: Statement, action: str) -> bool:
    def any_of(patterns: tuple[str, ...]) -> bool:
        return any(like(pattern, action, {}, ignore_case=True) for pattern in patterns)

    return any_of(statement.actions) if statement.actions else not any_of(statement.not_actions)


def _resource_matches(
    statement: Statement, request: Request, context: Context, version: str
) -> bool:
    if statement.not_resources:
        return not any(
            like_resource(one, request.resource, context, version)
            for one in statement.not_resources
        )
    if not statement.resources:
        # A trust policy names no resource: the resource is its role.
        return bool(statement.principals or statement.not_principals)
    return any(
        like_resource(one, request.resource, context, version) for one in statement.resources
    )


def _names(statement: Statement, request: Request, context: Context) -> bool:
    if statement.not_principals:
        return _closeness(statement.not_principals, request, context) == _NOT
    return _closeness(statement.principals, request, context) != _NOT


def _closeness(principals: tuple[tuple[str, str], ...], request: Request, context: Context) -> int:
    account = "".join(context.get("aws:principalaccount", ()))
    entity = "".join(context.get("aws:principalarn", ()))
    closest = _NOT
    for kind, name in principals:
        if kind != "AWS" or (not request.principal and name != "*"):
            continue
        if name in ("*", entity):
            closest = max(closest, _BY_ENTITY)
        elif name == request.principal:
            closest = max(closest, _BY_SESSION)
        elif account and name in (account, f"arn:aws:iam::{account}:root"):
            closest = max(closest, _BY_ACCOUNT)
    return closest
