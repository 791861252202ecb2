"""Whether the caller may do what the check does, as AWS's own policy simulator sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.listing import listed as listed_pages
from terradask._aws.session import Aws
from terradask._live_check.steps import Notes
from terradask.errors import AccessDenied, LiveCheckFailed
from terradask_modules.caller_policies import CallerScope, caller_statements
from terradask_modules.iam import Statement, allow, listed

#: So many actions are asked about at once.
_AT_ONCE = 50
#: Operators whose values are known -> the type of such keys.
_OPERATORS = {"StringEquals": "string", "ArnLike": "string", "Bool": "boolean"}
#: What the role of the check needs, in addition to the network's rights.
_MAKE_THE_ROLE = (
    "iam:AttachRolePolicy",
    "iam:CreatePolicy",
    "iam:CreateRole",
    "iam:DeletePolicy",
    "iam:DeleteRole",
    "iam:DetachRolePolicy",
    "sts:AssumeRole",
)


@dataclass(frozen=True)
class Question:
    """Actions on a resource, with what the calls would carry."""

    actions: tuple[str, ...]
    resource: str
    #: Condition key -> its type, as the simulator calls it, and its value.
    context: Mapping[str, tuple[str, str]]


def questions(statements: Iterable[Statement], region: str) -> Iterator[Question]:
    """Yield what to ask, so that exactly such statements would be enough."""
    for one in statements:
        if one["Effect"] != "Allow":
            continue
        context = dict(_context(one.get("Condition", {})))
        actions = [action for action in listed(one["Action"]) if "*" not in action]
        for start in range(0, len(actions), _AT_ONCE):
            yield Question(
                tuple(actions[start : start + _AT_ONCE]),
                listed(one["Resource"])[0],
                {"aws:RequestedRegion": ("string", region), **context},
            )


def _context(condition: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield condition keys with values for which a condition holds."""
    for key, value in condition.get("Null", {}).items():
        if value == "false":
            # Whichever value it has.
            yield key, ("stringList" if key == "aws:TagKeys" else "string", "any")
    for operator, kind in _OPERATORS.items():
        for key, value in condition.get(operator, {}).items():
            yield key, (kind, str(listed(value)[0]))


def refused(results: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the actions that nothing allows: action -> AWS's decision.

    What depends on facts that weren't given is left out.
    """
    allowed, refusals = set[str](), dict[str, str]()
    for one in results:
        action, decision = one["EvalActionName"], one["EvalDecision"]
        by_organisation = one.get("OrganizationsDecisionDetail", {})
        if decision == "allowed" or one.get("MissingContextValues"):
            allowed.add(action)
        elif by_organisation.get("AllowedByOrganizations") is False:
            refusals[action] = f"{decision}, by a policy of the organisation"
        else:
            refusals[action] = decision
    return {action: why for action, why in sorted(refusals.items()) if action not in allowed}


def check_rights(aws: Aws, scope: CallerScope, notes: Notes) -> str | None:
    """Ask AWS about everything that a check does; return why that can't be asked.

    Raises `LiveCheckFailed`. Permissions needed: ``iam:SimulatePrincipalPolicy``, and for a role's
    session ``iam:GetRole``; without them nothing is found wrong.
    """
    client = aws.client("iam")
    statements = [
        *caller_statements(scope, "setup"),
        *caller_statements(scope, "user"),
        allow("MakeTheRole", list(_MAKE_THE_ROLE), "*"),
    ]
    results = None
    try:
        with unless("NoSuchEntity"):
            source = _entity(aws.caller_arn, client)
            if source is None:
                return "AWS's policy simulator knows users and roles only"
            results = [
                result
                for question in questions(statements, aws.region)
                for result in _asked(client, source, question)
            ]
    except AccessDenied as error:
        return f"this caller lacks {error.action}"
    if results is None:
        return "AWS's policy simulator doesn't know this caller"
    notes.facts["actions"] = len({one["EvalActionName"] for one in results})
    missing = refused(results)
    if missing:
        raise LiveCheckFailed(
            f"the caller lacks {len(missing)} of the rights that the check needs",
            given="; ".join(f"{action} ({why})" for action, why in missing.items()),
            allowed="those of terradask iam setup and terradask iam user, in any workspace",
            advice="use an administrator's credentials for the check",
        )
    return None


def _asked(client: Any, source: str, question: Question) -> Iterator[Mapping[str, Any]]:
    context = [
        {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": kind}
        for key, (kind, value) in question.context.items()
    ]
    yield from listed_pages(
        client,
        "simulate_principal_policy",
        "EvaluationResults",
        PolicySourceArn=source,
        ActionNames=list(question.actions),
        ResourceArns=[question.resource],
        ContextEntries=context,
    )


def _entity(caller_arn: str, client: Any) -> str | None:
    """Return the user or role behind a caller; None where there is neither."""
    kind, _, name = caller_arn.split(":")[5].partition("/")
    if kind == "user":
        return caller_arn
    if kind == "assumed-role":
        # A session's ARN lacks the role's path.
        return str(client.get_role(RoleName=name.partition("/")[0])["Role"]["Arn"])
    return None
