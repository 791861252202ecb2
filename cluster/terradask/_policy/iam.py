"""P6: permissions are limited to the workspace, and can't be widened or passed on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from terradask._policy.document import PlanDocument, Resource, Unknown
from terradask._policy.findings import PolicyFinding
from terradask._policy.statements import (
    Statement,
    Unread,
    identity_statements,
    resource_statements,
    trust_statements,
)
from terradask_modules.iam import listed

#: Verbs of actions that change nothing (IAM User Guide, "Access level summaries": List and Read).
_READS = re.compile(
    r"^(describe|get|list|head|batchget|batchdescribe|lookup|search|query|scan|select|view)",
    re.IGNORECASE,
)
#: Reads that return secrets or data: on all resources they are as bad as writes.
_DATA_READS = (
    "secretsmanager:getsecretvalue",
    "secretsmanager:batchgetsecretvalue",
    "ssm:getparameter",
    "ssm:getparameters",
    "ssm:getparametersbypath",
    "ssm:getparameterhistory",
    "s3:getobject",
    "s3:getobjectversion",
    "ec2:getpassworddata",
    "sts:getfederationtoken",
)
#: What Session Manager's agent reports of its own host: AWS documents no narrower resource for it
#: (https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-create-iam-instance-profile.html).
_OF_ITSELF = frozenset(
    {
        "ssm:updateinstanceinformation",
        "ssmmessages:createcontrolchannel",
        "ssmmessages:createdatachannel",
        "ssmmessages:opencontrolchannel",
        "ssmmessages:opendatachannel",
    }
)
#: Operators that don't match if the key is absent; ``…IfExists`` and ``ForAllValues:…`` do, and so
#: limit nothing.
_STRICT = (
    "StringEquals",
    "StringLike",
    "ArnEquals",
    "ArnLike",
    "ForAnyValue:StringEquals",
    "ForAnyValue:StringLike",
)
_EXISTING_TAG = re.compile(
    r"^(aws|ec2|autoscaling|secretsmanager|ssm):resourcetag/terradask:", re.IGNORECASE
)
_GIVEN_TAG = re.compile(r"^aws:requesttag/terradask:", re.IGNORECASE)
#: Verbs of actions that add and remove tags (service authorization reference, access level
#: "Tagging").
_TAGGING = re.compile(
    r"^[a-z0-9-]+:(createtags|deletetags|createorupdatetags|tag|untag|addtags|removetags|put\w*tagging)",
    re.IGNORECASE,
)
_PASSED_TO = "ec2.amazonaws.com"
_LENDING = "iam:passrole"
#: AWS managed policies that allow everything (IAM User Guide, "AWS managed policies for job
#: functions").
_BROAD = ("AdministratorAccess", "PowerUserAccess", "IAMFullAccess")

_SCOPE = "name the workspace's own resources, or require their tag terradask:workspace"


def iam_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield permissions that reach beyond the workspace."""
    for statement in identity_statements(document):
        yield from _unread(statement) if isinstance(statement, Unread) else _rights(statement)
    for statement in (*trust_statements(document), *resource_statements(document)):
        yield from _unread(statement) if isinstance(statement, Unread) else _principals(statement)
    yield from _managed(document)
    yield from _roles(document)


def _rights(statement: Statement) -> Iterator[PolicyFinding]:
    for element in statement.inverted:
        yield _error(
            statement,
            f"allows everything except what {element} lists",
            "list what is allowed instead",
        )
    everything = [action for action in statement.actions if action == "*" or action.endswith(":*")]
    if everything:
        yield _error(
            statement,
            f"allows every action: {', '.join(everything)}",
            "list the actions that are needed",
        )
    for action in statement.actions:
        if action in everything:
            continue
        if fnmatchcase(_LENDING, action.lower()):
            yield from _pass_role(statement, action)
        elif action.lower().startswith("iam:") and not _reads(action):
            yield _error(
                statement,
                f"allows {action}, which can widen permissions",
                "leave it to the role that deploys",
            )
        elif action.lower() in _OF_ITSELF and _in_region(statement):
            continue
        elif not _reads(action) and not _scoped(statement, action):
            yield _error(statement, f"allows {action} beyond the workspace", _SCOPE)
        elif _reads(action) and "*" in statement.resources and not _in_region(statement):
            yield PolicyFinding(
                "P6",
                "warning",
                statement.address,
                f"{statement.sid} allows {action} in every region",
                "add aws:RequestedRegion",
            )


def _reads(action: str) -> bool:
    lowered = action.lower()
    return _READS.match(lowered.partition(":")[2]) is not None and not any(
        fnmatchcase(read, lowered) for read in _DATA_READS
    )


def _pass_role(statement: Statement, action: str) -> Iterator[PolicyFinding]:
    if any("*" in arn or "?" in arn for arn in statement.resources):
        yield _error(
            statement,
            f"allows {action} for any role that fits a pattern",
            "list the ARNs of the roles",
        )
    if statement.condition("StringEquals").get("iam:PassedToService") != [_PASSED_TO]:
        yield _error(
            statement,
            f"allows {action} to any service",
            f'require iam:PassedToService = "{_PASSED_TO}"',
        )


def _scoped(statement: Statement, action: str) -> bool:
    keys = statement.condition(*_STRICT)
    values_end = {
        key: not any(value.startswith("*") for value in values) for key, values in keys.items()
    }
    if any(_EXISTING_TAG.match(key) and ends for key, ends in values_end.items()):
        return True
    named = bool(statement.resources) and all(map(_named, statement.resources))
    if _TAGGING.match(action):
        # A role that may put the workspace's tag on any resource gets all permissions that the tag
        # grants.
        return named or "ec2:CreateAction" in keys
    return named or any(_GIVEN_TAG.match(key) and ends for key, ends in values_end.items())


def _named(arn: str) -> bool:
    """Return whether an ARN names one resource, or resources of a workspace by their prefix."""
    parts = arn.split(":", 5)
    if len(parts) < 6:
        # ${aws_iam_role.worker.arn}: an exact ARN.
        return re.fullmatch(r"\$\{[^}]*\}(/[^*?]*\*?)?", arn) is not None
    service, resource = parts[2], parts[5]
    if service == "s3":
        return re.search(r"[*?]", resource.partition("/")[0]) is None
    return not re.search(r"[*?]", resource) or "terradask" in resource


def _in_region(statement: Statement) -> bool:
    return "aws:RequestedRegion" in statement.condition(
        "StringEquals", "StringLike", "ForAnyValue:StringEquals"
    )


def _principals(statement: Statement) -> Iterator[PolicyFinding]:
    if "NotPrincipal" in statement.inverted:
        yield _error(
            statement,
            "allows every principal except those in NotPrincipal",
            "list the allowed principals instead",
        )
    if "*" in statement.principals and not statement.conditions:
        yield _error(statement, "allows everybody", "name the principals, or add a condition")
    web = any(action.lower() == "sts:assumerolewithwebidentity" for action in statement.actions)
    subjects = [
        value
        for key, values in statement.condition("StringEquals", "StringLike").items()
        if key.endswith(":sub")
        for value in values
    ]
    if web and (not subjects or any(value.startswith("*") for value in subjects)):
        yield _error(
            statement,
            "lets every identity of its provider assume the role",
            "require the allowed subject (…:sub)",
        )


def _managed(document: PlanDocument) -> Iterator[PolicyFinding]:
    attached = [
        (attachment.address, attachment.values.get("policy_arn"))
        for attachment in document.of("aws_iam_role_policy_attachment")
    ]
    attached += [
        (role.address, arn)
        for role in document.of("aws_iam_role")
        for arn in listed(role.values.get("managed_policy_arns"))
        if arn != Unknown()
    ]
    for address, arn in attached:
        if isinstance(arn, str) and ":iam::aws:policy/" in arn:
            name = arn.rpartition("/")[2]
            if name in _BROAD:
                yield PolicyFinding(
                    "P6", "error", address, f"attaches {name}", "write a policy of what is needed"
                )
            else:
                yield PolicyFinding(
                    "P6",
                    "warning",
                    address,
                    f"attaches {name}, which AWS manages and may widen",
                    "write a policy of what is needed",
                )


def _roles(document: PlanDocument) -> Iterator[PolicyFinding]:
    roles = list(document.of("aws_iam_role"))
    rules = document.role_rules
    bounded = any(role.values.get("permissions_boundary") for role in roles)
    for role in roles:
        boundary, name = role.values.get("permissions_boundary"), role.values.get("name")
        if isinstance(boundary, str | None) and rules.permissions_boundary not in (None, boundary):
            yield _on_role(
                role,
                f"doesn't carry the permissions boundary {rules.permissions_boundary}",
                "set permissions_boundary",
            )
        elif bounded and not boundary:
            yield _on_role(
                role,
                "carries no permissions boundary, which other roles do",
                "set permissions_boundary",
            )
        if isinstance(name, str) and not name.startswith(rules.name_prefix):
            yield _on_role(
                role,
                f"is named {name}, without the prefix {rules.name_prefix}",
                "use the prefix of roles' names",
            )


def _on_role(role: Resource, message: str, advice: str) -> PolicyFinding:
    return PolicyFinding("P6", "error", role.address, message, advice)


def _unread(policy: Unread) -> Iterator[PolicyFinding]:
    yield PolicyFinding(
        "P6",
        "warning",
        policy.address,
        f"{policy.attribute} {policy.why}, and can't be checked",
        "check it by hand",
    )


def _error(statement: Statement, message: str, advice: str) -> PolicyFinding:
    return PolicyFinding("P6", "error", statement.address, f"{statement.sid} {message}", advice)
