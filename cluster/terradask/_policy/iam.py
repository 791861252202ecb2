"""P6: roles have the permissions that hosts need, and only AWS's services assume them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from terradask._common.naming import some
from terradask._policy.document import (
    PlanDocument,
    Resource,
    Unknown,
    held_document,
    written_document,
)
from terradask._policy.findings import PolicyFinding
from terradask._policy.grants import SCHEDULER, WORKER, Grant, Within, grants_of, unproven_grants
from terradask._policy.policy_shapes import BUCKET_POLICY, SECRET_POLICY, TOPIC_POLICY, TRUST
from terradask._policy.shapes import Place, Shape, of_shape
from terradask._policy.statements import (
    IDENTITY_POLICIES,
    RESOURCE_POLICIES,
    Statement,
    read_policy,
)
from terradask_modules.iam import listed

_ATTACHMENTS = (
    "aws_iam_role_policy_attachment",
    "aws_iam_policy_attachment",
    "aws_iam_user_policy_attachment",
    "aws_iam_group_policy_attachment",
    "aws_iam_role_policy_attachments_exclusive",
)
_NEEDED = "write it as terradask does; hosts need nothing else"
#: Statements that a cluster's roles take from the network's document, where they are checked.
_OF_THE_NETWORK = (
    "${jsondecode(data.aws_s3_object.baseline.body).isolated.access}",
    "${try(jsondecode(data.aws_s3_object.baseline.body).isolated.scheduler_access, [])}",
)


def iam_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield permissions that hosts don't need, and principals that don't need hosts' roles."""
    rights = _Rights(document)
    for resource in document.of(*IDENTITY_POLICIES):
        yield from rights.of_text(resource, "policy", resource.values.get("policy"))
    for role in document.of("aws_iam_role"):
        for inline in listed(role.values.get("inline_policy")):
            if isinstance(inline, Mapping) and inline.get("policy"):
                yield from rights.of_text(role, "inline_policy", inline["policy"])
        shape = TRUST.get(role.name, TRUST[WORKER])
        yield from _shaped(document, role, "assume_role_policy", shape)
    yield from _passed_on(document, rights)
    yield from _resource_policies(document)
    yield from _managed(document)
    yield from _roles(document)


class _Rights:
    """Judges what identity-based policies allow."""

    def __init__(self, document: PlanDocument) -> None:
        self._within = Within(document.scope)
        self._grants = tuple(grants_of(document.rules, document.scope))
        self._unproven = tuple(unproven_grants(document.rules))

    def of_text(self, resource: Resource, attribute: str, value: Any) -> Iterator[PolicyFinding]:
        """Yield what a policy allows beyond the role that has it."""
        held = read_policy(value)
        if isinstance(held, str):
            yield _unread(resource, attribute, held)
            return
        # A boundary bounds both roles.
        roles = (SCHEDULER, WORKER) if resource.type == "aws_iam_policy" else (resource.name,)
        for entry in held:
            if isinstance(entry, Statement):
                yield from self.of_statement(resource.address, roles, entry)
            elif entry not in _OF_THE_NETWORK:
                yield _error(resource.address, f"takes statements from {entry}", _NEEDED)

    def of_statement(
        self, address: str, roles: tuple[str, ...], statement: Statement
    ) -> Iterator[PolicyFinding]:
        """Yield what a statement allows beyond these roles' grants."""
        if statement.effect != "Allow":
            return
        for element in statement.inverted:
            yield _error(
                address,
                f"{statement.sid} allows everything except what {element} lists",
                "list what is allowed instead",
            )
        unproven: list[tuple[str, str]] = []
        for action in statement.actions:
            beyond = [
                each
                for each in statement.resources
                if not self._allowed(roles, statement, action, each)
            ]
            foreign = [each for each in beyond if not self._may_be(statement, action, each)]
            if foreign:
                yield _error(
                    address,
                    f"{statement.sid} allows {action} on {some(foreign, 1)}, which "
                    f"{' and '.join(roles)} hosts don't need, or not without a condition",
                    _NEEDED,
                )
            unproven += [(action, each) for each in beyond if each not in foreign]
        if unproven:
            action, resource = unproven[0]
            yield PolicyFinding(
                "P6",
                "warning",
                address,
                f"{statement.sid} allows {action} on {resource}: whether the settings give it "
                "can't be checked",
                "check it by hand, or pass workspace_rules to evaluate",
            )

    def _allowed(
        self, roles: tuple[str, ...], statement: Statement, action: str, resource: str
    ) -> bool:
        return any(
            set(roles) & set(grant.roles) and self._grants_it(grant, statement, action, resource)
            for grant in self._grants
        )

    def _may_be(self, statement: Statement, action: str, resource: str) -> bool:
        return any(self._grants_it(grant, statement, action, resource) for grant in self._unproven)

    def _grants_it(self, grant: Grant, statement: Statement, action: str, resource: str) -> bool:
        return (
            action in grant.actions
            and any(self._within.holds(pattern, resource) for pattern in grant.resources)
            and all(
                self._demanded(statement, operator, key, allowed)
                for operator, keys in grant.conditions.items()
                for key, allowed in keys.items()
            )
        )

    def _demanded(
        self, statement: Statement, operator: str, key: str, allowed: tuple[str, ...]
    ) -> bool:
        values = statement.condition(operator).get(key)
        return bool(values) and all(
            any(self._within.holds(pattern, value) for pattern in allowed) for value in values or ()
        )


def _passed_on(document: PlanDocument, rights: _Rights) -> Iterator[PolicyFinding]:
    """Yield what the network's document grants beyond hosts' needs to clusters' own roles."""
    for item in document.of("aws_s3_object"):
        isolated = written_document(item).get("isolated")
        if not isinstance(isolated, Mapping):
            continue
        for name, roles in (("access", (WORKER,)), ("scheduler_access", (SCHEDULER,))):
            policy = json.dumps({"Statement": isolated.get(name) or []})
            for entry in read_policy(policy):
                if isinstance(entry, Statement):
                    yield from rights.of_statement(item.address, roles, entry)


_SHAPES = {
    "aws_s3_bucket_policy": BUCKET_POLICY,
    "aws_secretsmanager_secret": SECRET_POLICY,
    "aws_sns_topic": TOPIC_POLICY,
}


def _resource_policies(document: PlanDocument) -> Iterator[PolicyFinding]:
    for resource in document.of(*RESOURCE_POLICIES):
        value = resource.values.get("policy")
        # AWS gives keys a default policy if none is set.
        if not value or value == Unknown():
            continue
        held = read_policy(value)
        if isinstance(held, str):
            yield _unread(resource, "policy", held)
            continue
        for entry in held:
            if isinstance(entry, Statement) and entry.effect == "Allow":
                yield _error(
                    resource.address,
                    f"{entry.sid} allows principals of its own to use it",
                    "leave it to the roles' own policies",
                )
        if resource.type in _SHAPES:
            yield from _shaped(document, resource, "policy", _SHAPES[resource.type])
    yield from _kept_private(document)


def _kept_private(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield the secret of a private cluster that has no policy against others."""
    for item in document.of("aws_s3_object"):
        settings = written_document(item).get("settings")
        if isinstance(settings, Mapping) and settings.get("private_to_creator") is True:
            for secret in document.of("aws_secretsmanager_secret"):
                if not secret.values.get("policy"):
                    yield _error(
                        secret.address,
                        "has no policy that keeps others out, though its cluster is private",
                        _NEEDED,
                    )


def _shaped(
    document: PlanDocument, resource: Resource, attribute: str, shape: Shape
) -> Iterator[PolicyFinding]:
    """Yield where a policy isn't written as the stacks write it."""
    policy = held_document(resource.values.get(attribute))
    if not isinstance(policy, Mapping):
        yield _unread(resource, attribute, "is known only after the apply, or is no JSON")
        return
    place = Place.of(resource.name, document.scope, document.rules)
    for path, _ in dict(of_shape(shape, policy, "", place)).items():
        yield _error(
            resource.address, f"{attribute} has another {path} than terradask writes", _NEEDED
        )


def _managed(document: PlanDocument) -> Iterator[PolicyFinding]:
    for attachment in document.of(*_ATTACHMENTS):
        yield _error(
            attachment.address,
            f"attaches {_shown(attachment.values.get('policy_arn'))}",
            "write what is needed into the role's own policy",
        )
    for role in document.of("aws_iam_role"):
        for arn in listed(role.values.get("managed_policy_arns")):
            if arn != Unknown():
                yield _error(
                    role.address,
                    f"attaches {_shown(arn)}",
                    "write what is needed into the role's own policy",
                )


def _roles(document: PlanDocument) -> Iterator[PolicyFinding]:
    roles = list(document.of("aws_iam_role"))
    rules = document.role_rules
    bounded = any(role.values.get("permissions_boundary") for role in roles)
    for role in roles:
        boundary, name = role.values.get("permissions_boundary"), role.values.get("name")
        if isinstance(boundary, str | None) and rules.permissions_boundary not in (None, boundary):
            yield _error(
                role.address,
                f"doesn't carry the permissions boundary {rules.permissions_boundary}",
                "set permissions_boundary",
            )
        elif bounded and not boundary:
            yield _error(
                role.address,
                "carries no permissions boundary, which other roles do",
                "set permissions_boundary",
            )
        if isinstance(name, str) and not name.startswith(rules.name_prefix):
            yield _error(
                role.address,
                f"is named {name}, without the prefix {rules.name_prefix}",
                "use the prefix of roles' names",
            )


def _shown(arn: Any) -> str:
    return arn if isinstance(arn, str) else "a policy that is known only after the apply"


def _unread(resource: Resource, attribute: str, why: str) -> PolicyFinding:
    return PolicyFinding(
        "P6",
        "warning",
        resource.address,
        f"{attribute} {why}, and can't be checked",
        "check it by hand",
    )


def _error(address: str, message: str, advice: str) -> PolicyFinding:
    return PolicyFinding("P6", "error", address, message, advice)
