"""P6: roles have the permissions that hosts need, and only AWS's services assume them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from terradask._common.naming import some
from terradask._plans.policy.document import (
    PlanDocument,
    Resource,
    Unknown,
    held_document,
    written_document,
)
from terradask._plans.policy.expected import differences, with_sorted_lists
from terradask._plans.policy.findings import PolicyFinding, error, warning
from terradask._plans.policy.grants import (
    ANY_CLUSTER,
    IDENTITY_POLICIES,
    RESOURCE_POLICIES,
    SCHEDULER,
    WORKER,
    Statement,
    Within,
    grants_of,
    of_cluster_alone,
    read_policy,
    unproven_grants,
    where_of,
    writers,
)
from terradask._plans.policy.values import decoded
from terradask_modules.iam import listed, statements_of
from terradask_modules.kinds import KINDS
from terradask_modules.policies import bucket_policy, trust_policy
from terradask_modules.secret_policy import private_policy
from terradask_modules.task_rights import of_cluster, shared

_ATTACHMENTS = (
    "aws_iam_role_policy_attachment",
    "aws_iam_policy_attachment",
    "aws_iam_user_policy_attachment",
    "aws_iam_group_policy_attachment",
    "aws_iam_role_policy_attachments_exclusive",
)
_NEEDED = "write it as terradask does; hosts need nothing else"
_BASELINE = "jsondecode(data.aws_s3_object.baseline.body)"
#: Statements that clusters' roles take from the network's document, where they are checked.
_OF_THE_NETWORK = (
    f"${{{_BASELINE}.isolated.access}}",
    f"${{try({_BASELINE}.isolated.scheduler_access, [])}}",
)
#: Principals that a private secret's policy may name: users, federated users and roles of the
#: account, with any path; and the hosts' roles, from the network's document.
_PRINCIPAL = (
    r"arn:{partition}:(?:iam::{account}:(?:user|role(?:/\*)?)|sts::{account}:(?:federated-)?user)"
    r"/[\w+=,.@/-]+"
    r"|(?:arn:{partition}:iam::{account}:role)?(?:\$\{{{baseline}[\w.]+\}})+[\w.-]*"
)


def iam_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield permissions and principals of hosts' roles that hosts don't need."""
    rights = _Rights(document)
    for resource in document.of(*IDENTITY_POLICIES):
        yield from rights.policy_findings(resource, "policy", resource.values.get("policy"))
    written_by_aws = writers()
    for role in document.of("aws_iam_role"):
        for inline in listed(role.values.get("inline_policy")):
            if (
                isinstance(inline, Mapping)
                and inline.get("policy")
                and not _stands_alone(document, role, inline)
            ):
                yield from rights.policy_findings(role, "inline_policy", inline["policy"])
        where = where_of(document.scope)
        writer = written_by_aws.get(role.name)
        trust = writer.trust_policy(where) if writer else trust_policy(where.partition)
        yield from _policy_differences(document, role, "assume_role_policy", trust)
    yield from _network_document_findings(document, rights)
    yield from _resource_policies(document)
    yield from _managed_policy_findings(document)
    yield from _roles(document)


def _stands_alone(document: PlanDocument, role: Resource, inline: Mapping[str, Any]) -> bool:
    """Return whether a role's policy is one that the plan has, changes or removes as a resource:
    the provider repeats it at the role, as it was.
    """
    return any(
        each.type == "aws_iam_role_policy"
        and (each.values.get("role"), each.values.get("name"))
        == (role.values.get("name"), inline.get("name"))
        and decoded(each.values.get("policy")) == decoded(inline["policy"])
        for each in document.before
    )


class _Rights:
    """Compare identity-based policies with the grants."""

    def __init__(self, document: PlanDocument) -> None:
        self._within = Within(document.scope)
        name = document.scope.cluster or ""
        path = f".{name}" if "-" not in name else f'["{name}"]'
        #: Statements of a cluster's tasks alone, from the same document.
        self._of_cluster = f"${{try({_BASELINE}.isolated.task_rights{path}, [])}}"
        self._granted = grants_of(document.rules, document.scope)
        self._unproven = unproven_grants(document.rules, document.scope)

    def policy_findings(
        self, resource: Resource, attribute: str, value: Any
    ) -> Iterator[PolicyFinding]:
        """Yield permissions of a policy beyond its role's grants."""
        held = read_policy(value)
        if isinstance(held, str):
            yield _unread(resource, attribute, held)
            return
        # A boundary limits the roles of all clusters.
        roles = (ANY_CLUSTER,) if resource.type == "aws_iam_policy" else (resource.name,)
        for entry in held:
            if isinstance(entry, Statement):
                yield from self.statement_findings(resource.address, roles, entry)
            elif entry not in (*_OF_THE_NETWORK, self._of_cluster):
                yield error(resource.address, f"takes statements from {entry}", _NEEDED)

    def statement_findings(
        self, address: str, roles: tuple[str, ...], statement: Statement
    ) -> Iterator[PolicyFinding]:
        """Yield permissions of a statement beyond these roles' grants."""
        if statement.effect != "Allow":
            return
        for element in statement.inverted:
            yield error(
                address,
                f"{statement.sid} allows everything except the listed {element}",
                "list the allowed ones instead",
            )
        granted = [each for role in roles for each in self._granted.get(role, ())]
        unproven: list[tuple[str, str]] = []
        for action in statement.actions:
            beyond = self._beyond(granted, statement, action, statement.resources)
            foreign = self._beyond(self._unproven, statement, action, beyond)
            if foreign:
                yield error(
                    address,
                    f"{statement.sid} allows {action} on {some(foreign, 1)}, which "
                    f"{' and '.join(roles)} hosts don't need, or only with a condition",
                    "give it in network.task_rights, if tasks need it; otherwise remove it",
                )
            unproven += [(action, each) for each in beyond if each not in foreign]
        if unproven:
            action, resource = unproven[0]
            yield warning(
                address,
                f"{statement.sid} allows {action} on {resource}: it depends on settings "
                "that aren't known",
                "check it by hand, or pass workspace_rules to evaluate",
            )

    def _beyond(
        self,
        granted: Sequence[Statement],
        statement: Statement,
        action: str,
        resources: Sequence[str],
    ) -> list[str]:
        """Return the resources on which none of these statements grants the action."""
        return [
            resource
            for resource in resources
            if not any(self._within.grants(each, statement, action, resource) for each in granted)
        ]


def _network_document_findings(document: PlanDocument, rights: _Rights) -> Iterator[PolicyFinding]:
    """Yield the network document's grants to clusters' roles beyond hosts' needs."""
    for item in document.of("aws_s3_object"):
        isolated = written_document(item).get("isolated")
        if not isinstance(isolated, Mapping):
            continue
        given = [(WORKER, isolated.get("access")), (SCHEDULER, isolated.get("scheduler_access"))]
        of_clusters = isolated.get("task_rights")
        if isinstance(of_clusters, Mapping):
            given += [(of_cluster_alone(name), it) for name, it in of_clusters.items()]
        for role, statements in given:
            for entry in read_policy(json.dumps({"Statement": statements or []})):
                if isinstance(entry, Statement):
                    yield from rights.statement_findings(item.address, (role,), entry)


def _resource_policies(document: PlanDocument) -> Iterator[PolicyFinding]:
    kinds = (name for name, kind in KINDS.items() if kind.policy)
    for resource in document.of(*RESOURCE_POLICIES, *kinds):
        value = resource.values.get("policy")
        # AWS adds a default policy to keys without one.
        if not value or value == Unknown():
            continue
        held = read_policy(value)
        if isinstance(held, str):
            yield _unread(resource, "policy", held)
            continue
        for entry in held:
            if isinstance(entry, Statement) and entry.effect == "Allow":
                yield error(
                    resource.address,
                    f"{entry.sid} allows other principals",
                    "use the roles' own policies instead",
                )
        where = where_of(document.scope)
        if resource.type == "aws_s3_bucket_policy":
            yield from _policy_differences(
                document, resource, "policy", bucket_policy(where.bucket_arn)
            )
        elif (kind := KINDS.get(resource.type)) and kind.policy:
            yield from _policy_differences(document, resource, "policy", kind.policy(where))
        elif resource.type == "aws_secretsmanager_secret":
            yield from _secret_policy_findings(document, resource)
    yield from _secrets_without_policy(document)


def _secrets_without_policy(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield the secrets of private clusters without a policy that excludes others."""
    for item in document.of("aws_s3_object"):
        settings = written_document(item).get("settings")
        if isinstance(settings, Mapping) and settings.get("private_to_creator") is True:
            for secret in document.of("aws_secretsmanager_secret"):
                if not secret.values.get("policy"):
                    yield error(
                        secret.address,
                        "has no policy that excludes others, though its cluster is private",
                        _NEEDED,
                    )


def _secret_policy_findings(document: PlanDocument, secret: Resource) -> Iterator[PolicyFinding]:
    """Yield principals of a private secret's policy other than named ones of the account, and the
    cluster's hosts.
    """
    where = where_of(document.scope)
    root = where.iam_arn("root")
    held = held_document(secret.values.get("policy"))
    named = [
        each for one in statements_of(held) for each in _admitted_principals(one) if each != root
    ]
    allowed = re.compile(
        _PRINCIPAL.format(**document.scope.patterns, baseline=re.escape(_BASELINE))
    )
    for principal in named:
        if not allowed.fullmatch(principal):
            yield error(secret.address, f"admits {principal}", _NEEDED)
    written = private_policy([], named, account=where.account, partition=where.partition)
    yield from _policy_differences(document, secret, "policy", written)


def _admitted_principals(statement: Mapping[str, Any]) -> list[str]:
    condition = statement.get("Condition")
    keys = condition.get("ArnNotLike") if isinstance(condition, Mapping) else None
    named = keys.get("aws:PrincipalArn") if isinstance(keys, Mapping) else None
    return [str(each) for each in listed(named)]


def _policy_differences(
    document: PlanDocument, resource: Resource, attribute: str, written: str
) -> Iterator[PolicyFinding]:
    """Yield the differences between a policy and terradask's."""
    policy = held_document(resource.values.get(attribute))
    if not isinstance(policy, Mapping):
        yield _unread(resource, attribute, "is known only after the apply, or is not valid JSON")
        return
    within = Within(document.scope)

    def is_same(expected: Any, given: Any) -> bool:
        return bool(expected == given) or within.is_same(str(expected), str(given))

    expected = with_sorted_lists(json.loads(written))
    for path in dict.fromkeys(
        each.path for each in differences(expected, with_sorted_lists(policy), same=is_same)
    ):
        yield error(
            resource.address, f"{attribute} has another {path} than terradask writes", _NEEDED
        )


_IN_SETTINGS = "name it in network.task_rights (policy_arn), if tasks need it; otherwise remove it"


def _managed_policy_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield attached policies that the settings don't give the role."""
    cluster, policies = document.scope.cluster, document.rules.task_policies or ()
    allowed = {one.arn for one in (*shared(policies), *of_cluster(policies, str(cluster)))}
    attached = [
        # An attachment's name begins with its role's.
        (one, one.name.partition("-")[0] if one.type == _ATTACHMENTS[0] else "", arn)
        for one in document.of(*_ATTACHMENTS)
        for arn in [one.values.get("policy_arn")]
    ]
    attached += [
        (role, role.name, arn)
        for role in document.of("aws_iam_role")
        for arn in listed(role.values.get("managed_policy_arns"))
        if arn != Unknown()
    ]
    for resource, role_name, arn in attached:
        if role_name not in (SCHEDULER, WORKER) or arn not in allowed:
            yield error(resource.address, f"attaches {_shown(arn)}", _IN_SETTINGS)


def _roles(document: PlanDocument) -> Iterator[PolicyFinding]:
    roles = list(document.of("aws_iam_role"))
    rules = document.role_rules
    bounded = any(role.values.get("permissions_boundary") for role in roles)
    for role in roles:
        boundary, name = role.values.get("permissions_boundary"), role.values.get("name")
        if isinstance(boundary, str | None) and rules.permissions_boundary not in (None, boundary):
            yield error(
                role.address,
                f"lacks the permissions boundary {rules.permissions_boundary}",
                "set permissions_boundary",
            )
        elif bounded and not boundary:
            yield error(
                role.address,
                "has no permissions boundary, which other roles do",
                "set permissions_boundary",
            )
        if isinstance(name, str) and not name.startswith(rules.name_prefix):
            yield error(
                role.address,
                f"is named {name}, without the prefix {rules.name_prefix}",
                "use the prefix of roles' names",
            )


def _shown(arn: Any) -> str:
    return arn if isinstance(arn, str) else "a policy that is known only after the apply"


def _unread(resource: Resource, attribute: str, why: str) -> PolicyFinding:
    return warning(resource.address, f"{attribute} {why}, and can't be checked", "check it by hand")
