"""Ask AWS's policy simulator whether the caller has the permissions of the check."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.listing import listed as listed_pages
from terradask._aws.session import Aws
from terradask._common.batches import batches
from terradask._doctor.account_check.place import role_name
from terradask._doctor.account_check.steps import StepResult
from terradask.errors import AccessDenied, TerradaskError
from terradask_modules.caller_policies import CallerScope, caller_policies, caller_statements
from terradask_modules.iam import Statement, allow, listed, policy_document
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Listed

#: Number of actions per call.
_AT_ONCE = 50
#: Operators with known values -> the type of their keys.
_OPERATORS = {"StringEquals": "string", "ArnLike": "string", "Bool": "boolean"}
_ALLOWED = "allowed"
#: Condition key of an object's encryption.
#: AWS (documented): A policy may require S3's condition keys of a write's encryption.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
_WRITE = "s3:PutObject"
_ENCRYPTION = "s3:x-amz-server-side-encryption"
_KEY = "s3:x-amz-server-side-encryption-aws-kms-key-id"
#: The verdict on an action that the simulator can't judge.
NOT_KNOWN = "not known"
#: Permissions for the check's role and its policies, beyond the network's.
_OF_THE_ROLE = (
    "iam:AttachRolePolicy",
    "iam:CreateRole",
    "iam:DeleteRole",
    "iam:DetachRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
    "iam:TagRole",
    "sts:AssumeRole",
)
_OF_ITS_POLICIES = ("iam:CreatePolicy", "iam:DeletePolicy", "iam:TagPolicy")
#: Lists of IAM in which the check looks for what it leaves, which concern no resource: a caller who
#: may not use the simulator, as with AWS's PowerUserAccess, is refused here.
#: Call -> what it lists, the answer's list, its names, and more of the request.
IAM_LISTS: Mapping[str, tuple[str, str, str, Mapping[str, str]]] = {
    "list_policies": ("policy", "Policies", "PolicyName", {"Scope": "Local"}),
    "list_roles": ("role", "Roles", "RoleName", {}),
    "list_instance_profiles": (
        "instance profile",
        "InstanceProfiles",
        "InstanceProfileName",
        {},
    ),
}


@dataclass(frozen=True)
class Question:
    """Some of a statement's actions on its resources, with the calls' context."""

    actions: tuple[str, ...]
    #: Of several kinds: each action applies to at least one.
    resources: tuple[str, ...]
    #: Condition key -> its type in the simulator, and its values.
    context: Mapping[str, tuple[str, ...]]
    #: The statement that allows them.
    statement: Statement


def questions(
    statements: Iterable[Statement], region: str, keys: Mapping[str, str | None]
) -> Iterator[Question]:
    """Yield the questions for which exactly such statements would suffice.

    Parameters
    ----------
    statements, region
        The statements that callers need, and their region.
    keys
        ARN of a bucket -> the KMS key that encrypts writes to it; None: S3's own.
    """
    for one in statements:
        if one["Effect"] != "Allow":
            continue
        context = _context(one.get("Condition", {}))
        resources = tuple(listed(one["Resource"]))
        actions = [action for action in listed(one["Action"]) if "*" not in action]
        writes = [action for action in actions if action == _WRITE]
        others = [action for action in actions if action != _WRITE]
        for some, more in ((others, {}), (writes, _encryption(resources[0], keys))):
            for batch in batches(some, _AT_ONCE):
                yield Question(
                    tuple(batch),
                    resources,
                    {"aws:RequestedRegion": ("string", region), **context, **more},
                    one,
                )


def _encryption(resource: str, keys: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
    bucket = resource.partition("/")[0]
    if bucket not in keys:
        return {}
    key = keys[bucket]
    if key is None:
        return {_ENCRYPTION: ("string", "AES256")}
    return {_ENCRYPTION: ("string", "aws:kms"), _KEY: ("string", key)}


def _context(condition: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return condition keys with values that satisfy a condition."""
    # Whichever value it has.
    found: dict[str, tuple[str, ...]] = {
        key: ("stringList" if key == "aws:TagKeys" else "string", "any")
        for key, value in condition.get("Null", {}).items()
        if value == "false"
    }
    for operator, keys in condition.items():
        for key, value in keys.items():
            first = str(listed(value)[0])
            if operator in _OPERATORS:
                found[key] = (_OPERATORS[operator], first)
            elif operator.startswith("ForAnyValue:"):
                found[key] = (*found.get(key, ("stringList",)), first)
    return found


@dataclass(frozen=True)
class Answer:
    """The simulator's decision on one action and resource."""

    action: str
    resource: str
    #: Such as ``allowed``, or ``implicitDeny, by a policy of the organisation``.
    decision: str
    #: Whether it depends on missing context.
    depends: bool = False


def answers(results: Iterable[Mapping[str, Any]]) -> Iterator[Answer]:
    """Yield the decisions of results: on each named resource, else on all."""
    for one in results:
        organisation = one.get("OrganizationsDecisionDetail", {})
        by = (
            ", by a policy of the organisation"
            if organisation.get("AllowedByOrganizations") is False
            else ""
        )
        for part in one.get("ResourceSpecificResults") or [one]:
            decision = part.get("EvalResourceDecision") or one["EvalDecision"]
            missing = part.get("MissingContextValues") or one.get("MissingContextValues")
            yield Answer(
                one["EvalActionName"],
                part["EvalResourceName"],
                decision if decision == _ALLOWED else f"{decision}{by}",
                bool(missing),
            )


def verdicts(found: Iterable[Answer], judged: Iterable[Answer]) -> dict[str, str]:
    """Return the actions that aren't allowed: action -> AWS's decision, or `NOT_KNOWN`.

    Parameters
    ----------
    found
        The simulator's answers for the caller's policies.
    judged
        Its answers for the requested statement alone. The simulator refuses an action on a resource
        of the wrong kind under any policy, so a refusal counts only where this statement would be
        allowed.
    """
    known = {(one.action, one.resource) for one in judged if one.decision == _ALLOWED}
    held, lacking, open_ones = set[str](), dict[str, str](), set[str]()
    for one in found:
        if one.decision == _ALLOWED:
            held.add(one.action)
        elif one.depends or (one.action, one.resource) not in known:
            open_ones.add(one.action)
        else:
            lacking[one.action] = one.decision
    return {**dict.fromkeys(open_ones - held, NOT_KNOWN), **lacking}


def needed(scope: CallerScope) -> list[Statement]:
    """Return the statements that allow every call of a check in a workspace."""
    policies = [
        scope.hosts.where.iam_arn(f"policy/{name}") for name in caller_policies(scope, "user")
    ]
    name = role_name(scope.role_name_prefix, scope.hosts.where.workspace)
    role = scope.hosts.where.iam_arn(f"role{scope.role_path}{name}")
    return [
        *caller_statements(scope, "setup"),
        *caller_statements(scope, "user"),
        allow("MakeTheRole", list(_OF_THE_ROLE), role),
        allow("MakeItsPolicies", list(_OF_ITS_POLICIES), policies),
        allow(
            "RemoveBucketOfState", ["s3:DeleteBucket", "s3:ListBucketVersions"], scope.state_bucket
        ),
        allow("LookForLeftovers", list(_lists()), "*"),
        allow("RemoveState", "s3:DeleteObjectVersion", f"{scope.state_bucket}/*"),
    ]


def _lists() -> Iterator[str]:
    """Yield the actions that look for what a check leaves."""
    yield from (f"iam:{_action(call)}" for call in sorted(IAM_LISTS))
    for kind in KINDS.values():
        if isinstance(kind.find, Listed):
            yield f"ec2:{_action(kind.find.call)}"


def _action(call: str) -> str:
    return "".join(word.capitalize() for word in call.split("_"))


def _refused_lists(client: Any) -> list[str]:
    """Return the lists of IAM that are refused."""
    refused = []
    for method, (*_, request) in IAM_LISTS.items():
        try:
            getattr(client, method)(**request, MaxItems=1)
        except AccessDenied as error:
            refused.append(error.action)
    return refused


def _lacking(scope: CallerScope, number: str, given: str) -> TerradaskError:
    settings = " and ".join(f"network.{name}" for name in sorted(scope.settings))
    return TerradaskError(
        f"the caller lacks {number} of the rights that the check needs",
        given=given,
        allowed=f"those of terradask iam setup and terradask iam user, with {settings}, for "
        f"workspace {scope.hosts.where.workspace}, and those for a role of the check's own",
        advice="use an administrator's credentials for the check: it makes a workspace and a role "
        "of its own. To use terradask, the policies of terradask iam setup and terradask iam user "
        "of your workspace are enough, which an administrator can give you",
    )


def check_rights(aws: Aws, scope: CallerScope, result: StepResult) -> str | None:
    """Check the caller's permissions for the check; return why that is impossible, or None.

    Raises `TerradaskError`. Permissions needed: ``iam:SimulatePrincipalPolicy`` and
    ``iam:SimulateCustomPolicy``, and for a role's session ``iam:GetRole``; without them the check
    is skipped, unless IAM refuses what it needs in any case.
    """
    client, statements = aws.client("iam"), needed(scope)
    found = None
    try:
        with unless("NoSuchEntity"):
            source = _entity(aws.caller_arn, client)
            if source is None:
                return "AWS's policy simulator knows users and roles only"
            keys = {scope.state_bucket: scope.state_key_arn, scope.bucket: scope.hosts.kms_key_arn}
            found = [
                (question, _verdicts(client, source, question))
                for question in questions(statements, aws.region, keys)
            ]
    except AccessDenied as error:
        refused = _refused_lists(client)
        if refused:
            given = f"{'; '.join(refused)}; not known: all others, without {error.action}"
            raise _lacking(scope, f"at least {len(refused)}", given) from error
        return f"this caller lacks {error.action}"
    if found is None:
        return "AWS's policy simulator doesn't know this caller"
    result.facts["actions"] = len({action for question, _ in found for action in question.actions})
    denied = [
        (action, why if why == NOT_KNOWN else f"{why}{_carrying(question)}")
        for question, verdict in found
        for action, why in verdict.items()
    ]
    result.facts["not_known"] = sorted({action for action, why in denied if why == NOT_KNOWN})
    missing = dict(sorted((action, why) for action, why in denied if why != NOT_KNOWN))
    if missing:
        given = "; ".join(f"{action} ({why})" for action, why in missing.items())
        raise _lacking(scope, str(len(missing)), given)
    return None


def _carrying(question: Question) -> str:
    named = question.context.get(_ENCRYPTION)
    return "" if named is None else f", of objects encrypted with {named[1]}"


def _verdicts(client: Any, source: str, question: Question) -> dict[str, str]:
    """Return the actions of a question that the caller lacks."""
    # AWS (documented): InvalidInput refuses an entire call, such as for actions that can't be
    # combined; PolicyEvaluation means that a policy couldn't be evaluated.
    # https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
    with unless("InvalidInput", "PolicyEvaluation"):
        found = list(_asked(client, "simulate_principal_policy", question, PolicySourceArn=source))
        if all(one.decision == _ALLOWED for one in found):
            return {}
        alone = json.dumps(policy_document([question.statement]))
        judged = _asked(client, "simulate_custom_policy", question, PolicyInputList=[alone])
        return verdicts(found, judged)
    if len(question.actions) == 1:
        return dict.fromkeys(question.actions, NOT_KNOWN)
    each = (replace(question, actions=(action,)) for action in question.actions)
    return {action: why for one in each for action, why in _verdicts(client, source, one).items()}


def _asked(client: Any, operation: str, question: Question, **whose: Any) -> Iterator[Answer]:
    context = [
        {"ContextKeyName": key, "ContextKeyValues": values, "ContextKeyType": kind}
        for key, (kind, *values) in question.context.items()
    ]
    results = listed_pages(
        client,
        operation,
        "EvaluationResults",
        **whose,
        ActionNames=list(question.actions),
        ResourceArns=list(question.resources),
        ContextEntries=context,
    )
    yield from answers(results)


def _entity(caller_arn: str, client: Any) -> str | None:
    """Return the user or role behind a caller, or None."""
    kind, _, name = caller_arn.split(":")[5].partition("/")
    if kind == "user":
        return caller_arn
    if kind == "assumed-role":
        # A session's ARN lacks the role's path.
        return str(client.get_role(RoleName=name.partition("/")[0])["Role"]["Arn"])
    return None
