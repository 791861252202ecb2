"""The permissions of hosts' roles, from the statements of `terradask_modules` for the workspace.

Statements are compared as sets: each action on each resource of a plan's statement must lie within
a granted statement, including its conditions. Additional conditions only narrow.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask._plans.policy.document import Unknown
from terradask._plans.policy.hcl import NotLiteral, encoded
from terradask._plans.policy.scope import Scope, WorkspaceRules
from terradask_modules.iam import listed, policy_text
from terradask_modules.image_rights import LOGIN_ACTION, PULL_ACTIONS
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Writer
from terradask_modules.policies import (
    PolicyScope,
    access_statements,
    bounding_statements,
    scheduler_access_statements,
    scheduler_policy,
    worker_policy,
)
from terradask_modules.task_rights import clusters_of, right_statements
from terradask_modules.where import Where

#: Resources whose ``policy`` is identity-based: the permissions of a principal.
IDENTITY_POLICIES = (
    "aws_iam_role_policy",
    "aws_iam_policy",
    "aws_iam_user_policy",
    "aws_iam_group_policy",
)
#: Resources whose ``policy`` is resource-based, beside kinds with one: the permitted principals.
RESOURCE_POLICIES = (
    "aws_s3_bucket_policy",
    "aws_secretsmanager_secret",
    "aws_secretsmanager_secret_policy",
    "aws_kms_key",
    "aws_kms_key_policy",
    "aws_sqs_queue_policy",
    "aws_sns_topic_policy",
)


@dataclass(frozen=True)
class Statement:
    """One statement."""

    #: ``Allow`` or ``Deny``.
    effect: str
    #: Its name or number.
    sid: str
    actions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    #: Keys and values by condition operator.
    conditions: Mapping[str, Mapping[str, Any]] | None = None
    #: The negated elements, such as ``NotAction``.
    inverted: tuple[str, ...] = ()

    def condition(self, operator: str) -> dict[str, list[str]]:
        """Return keys and values of the conditions with an operator."""
        pairs = (self.conditions or {}).get(operator)
        if not isinstance(pairs, Mapping):
            return {}
        return {key: [str(value) for value in listed(values)] for key, values in pairs.items()}


def read_policy(value: Any) -> list[Statement | str] | str:
    """Return a policy's statements, with expressions as text; or why it is unreadable."""
    text = value.template if isinstance(value, Unknown) else value
    if not isinstance(text, str):
        return "is known only after the apply"
    # IAM's variables, which Terraform's templates escape.
    text = text.replace("$${", "${")
    try:
        policy = encoded(text)
    except NotLiteral:
        return "is known only after the apply" if "${" in text else "is not valid JSON"
    entries = listed(policy.get("Statement")) if isinstance(policy, Mapping) else []
    return [
        _statement(number, entry) if isinstance(entry, Mapping) else str(entry)
        for number, entry in enumerate(entries)
    ]


def _statement(number: int, entry: Mapping[str, Any]) -> Statement:
    return Statement(
        effect=str(entry.get("Effect")),
        sid=str(entry.get("Sid") or f"statement {number}"),
        actions=_texts(entry.get("Action")),
        resources=_texts(entry.get("Resource")),
        conditions=entry.get("Condition"),
        inverted=tuple(
            name for name in ("NotAction", "NotResource", "NotPrincipal") if name in entry
        ),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in listed(value))


SCHEDULER, WORKER = "scheduler", "worker"
#: Key of the grants to hosts of any cluster: their boundary's.
ANY_CLUSTER = "isolated cluster"

#: Role -> statements.
Grants = Mapping[str, tuple[Statement, ...]]

#: Possible grants of unknown settings: a bucket outside of terradask's names, a key by its id, one
#: topic.
_GIVEN = {
    "data": r"(?!terradask-)[a-z0-9.-]+(?:/[^?]*)?",
    "key": "[0-9a-f-]+",
    "topic": "[A-Za-z0-9_-]+",
}
_ANY_REPOSITORY = "arn:{partition}:ecr:*:repository/*"


def where_of(scope: Scope) -> Where:
    """Return a plan's workspace; unknown parts are placeholders such as ``{account}``."""
    return Where(
        partition=scope.partition or "{partition}",
        region=scope.region or "{region}",
        account=scope.account or "{account}",
        workspace=scope.workspace or "{workspace}",
        cluster=scope.cluster,
    )


def grants_of(rules: WorkspaceRules, scope: Scope) -> Grants:
    """Return the permissions of a workspace's hosts under its settings."""
    where, rights = where_of(scope), rules.task_rights or ()
    given = rules.given or ()
    keys = [None, *(each for each in given if ":kms:" in each)]
    topics = [None, *(each for each in given if ":sns:" in each)]
    scopes = [
        PolicyScope(
            where=where,
            data_buckets=rules.data_buckets or (),
            container_repositories=rules.container_repositories or (),
            task_rights=rules.task_rights or (),
            task_policies=rules.task_policies or (),
            kms_key_arn=key,
            groups=["*"],
            session_manager=True,
            notify_topic_arn=topic,
        )
        for key, topic in itertools.product(keys, topics)
    ]
    # In a plan of one cluster, its roles have the rights of its tasks alone too.
    own = policy_text(right_statements(rights, scope.cluster) if scope.cluster else [])
    return {
        SCHEDULER: _statements(*map(scheduler_policy, scopes), own),
        WORKER: _statements(*map(worker_policy, scopes), own),
        ANY_CLUSTER: _statements(
            *(
                policy_text(bounding_statements(each, of_each=of_each))
                for each in scopes
                for of_each in (True, False)
            )
        ),
        **{
            of_cluster_alone(name): _statements(policy_text(right_statements(rights, name)))
            for name in clusters_of(rights)
        },
        **{name: _statements(writer.policy(where)) for name, writer in writers().items()},
    }


def writers() -> dict[str, Writer]:
    """Return the services of AWS that write what kinds yield, by the names of their roles."""
    return {kind.writer.name: kind.writer for kind in KINDS.values() if kind.writer}


def of_cluster_alone(name: str) -> str:
    """Return the key of the grants to one cluster's tasks alone."""
    return f"cluster {name}"


def unproven_grants(rules: WorkspaceRules, scope: Scope) -> tuple[Statement, ...]:
    """Return the permissions that unknown settings may grant."""
    where = where_of(scope)
    unknown = rules.given is None
    could_be = PolicyScope(
        where=where,
        data_buckets=["{data}"] if rules.data_buckets is None else [],
        kms_key_arn=where.arn("kms", "key/{key}") if unknown else None,
        notify_topic_arn=f"arn:{where.partition}:sns:*:*:{{topic}}" if unknown else None,
    )
    found = _statements(
        policy_text([*access_statements(could_be), *scheduler_access_statements(could_be)])
    )
    if rules.container_repositories is not None:
        return found
    pull = Statement("Allow", "", PULL_ACTIONS, (_ANY_REPOSITORY,))
    return *found, pull, Statement("Allow", "", (LOGIN_ACTION,), ("*",))


def _statements(*policies: str) -> tuple[Statement, ...]:
    found = (entry for policy in policies for entry in read_policy(policy))
    return tuple(entry for entry in found if isinstance(entry, Statement))


@dataclass(frozen=True)
class Within:
    """Match texts against patterns in one workspace."""

    scope: Scope

    def holds(self, pattern: str, text: str) -> bool:
        """Return whether everything that a text stands for, wildcards included, is within a
        pattern.

        The pattern's ``*`` covers any wildcard of the text; all other characters must be equal, so
        that a wildcard of the text is never wider.
        """
        return _compiled(self.scope, pattern, ".*").fullmatch(text) is not None

    def is_same(self, pattern: str, text: str) -> bool:
        """Return whether a text equals a pattern except for placeholders."""
        return _compiled(self.scope, pattern, r"\*").fullmatch(text) is not None

    def grants(self, granted: Statement, statement: Statement, action: str, resource: str) -> bool:
        """Return whether a statement's action on a resource lies within a granted statement."""
        return (
            action in granted.actions
            and any(self.holds(pattern, resource) for pattern in granted.resources)
            and all(
                self._demanded(statement.condition(operator).get(key), allowed)
                for operator in granted.conditions or {}
                for key, allowed in granted.condition(operator).items()
            )
        )

    def _demanded(self, values: list[str] | None, allowed: list[str]) -> bool:
        return bool(values) and all(
            any(self.holds(pattern, value) for pattern in allowed) for value in values or ()
        )


@functools.lru_cache(maxsize=1024)
def _compiled(scope: Scope, pattern: str, star: str) -> re.Pattern[str]:
    words = {**scope.patterns, **_GIVEN}
    parts = re.split(r"(\{[a-z]+\}|\*)", pattern)
    return re.compile(
        "".join(
            star if part == "*" else f"(?:{words.get(part[1:-1], re.escape(part))})"
            for part in parts
        ),
        re.DOTALL,
    )
