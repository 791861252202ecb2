"""Read the managed policies that the settings give tasks, and check what they allow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import unless
from terradask.errors import AccessDenied
from terradask_modules.iam import Statement, listed
from terradask_modules.task_limits import raising
from terradask_modules.task_rights import allowed_in
from terradask_stacks.errors import Finding, SettingsError

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.settings import Settings

#: A variable of a policy, which can stand for anything.
_VARIABLE = re.compile(r"\$\{[^}]*\}")


def read_task_policies(settings: Settings, aws: Aws) -> dict[str, list[Statement]]:
    """Return ARN -> what the managed policies of ``network.task_rights`` allow now.

    Raises `SettingsError` for those by which a task could raise itself, and those that don't exist
    or can't be read.

    Permissions needed: ``iam:GetPolicy`` and ``iam:GetPolicyVersion`` on them.
    """
    arns = sorted({policy.arn for policy in settings.network.policies()})
    found: dict[str, list[Statement]] = {}
    findings: list[Finding] = []
    for arn in arns:
        try:
            document = read_policy_document(aws.client("iam"), arn)
        except AccessDenied as error:
            raise SettingsError.of(
                where="network.task_rights",
                problem="the managed policy can't be read, so what it allows can't be checked",
                given=f"{arn}: AWS refused {error.action}",
                allowed="callers who may read it",
                advice="print the policies again (terradask iam) and have them attached, or write "
                "statements in its place",
            ) from error
        if document is None or arn.split(":")[4] not in ("aws", aws.account_id):
            findings.append(_missing(arn, aws.account_id))
            continue
        findings.extend(_raising(arn, document, settings))
        found[arn] = allowed_in(document)
    if findings:
        raise SettingsError(findings)
    return found


def read_policy_document(client: Any, arn: str) -> Mapping[str, Any] | None:
    """Return a managed policy's document as it is now; None if there is no such policy."""
    with unless("NoSuchEntity"):
        version = client.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        found = client.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]
        document: Mapping[str, Any] = found["Document"]
        return document
    return None


def _missing(arn: str, account: str) -> Finding:
    return Finding(
        where="network.task_rights",
        problem="there is no such managed policy",
        given=arn,
        allowed=f"a managed policy of account {account}, or of AWS's",
        advice="correct policy_arn; aws iam list-policies --scope Local lists the existing ones",
    )


def _raising(arn: str, document: Mapping[str, Any], settings: Settings) -> Iterator[Finding]:
    """Yield the statements by which a task could raise itself: one finding for each."""
    for number, statement in enumerate(allowed_in(document)):
        what = _why(statement, settings)
        if what is not None:
            yield Finding(
                where="network.task_rights",
                problem=f"statement {statement.get('Sid') or number} of the managed policy {what}",
                given=arn,
                allowed="policies that allow no action on roles, on machines, on a workspace's "
                "bucket, groups or secrets",
                advice="write what tasks need of it as statements (actions and resources)",
            )


def _why(statement: Statement, settings: Settings) -> str | None:
    negated = [name for name in ("NotAction", "NotResource") if name in statement]
    if negated:
        return f"allows everything except the listed {' and '.join(negated)}"
    found = raising(
        map(str, listed(statement.get("Action"))),
        [_VARIABLE.sub("*", str(each)) for each in listed(statement.get("Resource"))],
        buckets=settings.state_buckets,
        repositories=settings.network.container_repositories,
    )
    for action, resource, why in found:
        return f"allows {action} on {resource}, by which a task could raise itself: {why}"
    return None
