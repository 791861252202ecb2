"""What bounds the roles that the network makes, where the company prescribes no boundary: a caller
who makes roles, and gives them rights, could otherwise give itself every right.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.errors import InvalidInput
from terradask_modules.iam import (
    MAX_POLICY_CHARACTERS,
    characters,
    policy_document,
    statements_of,
)
from terradask_modules.names import resource_name
from terradask_modules.policies import scheduler_policy


def boundary_policy(scope: CallerScope) -> tuple[str, dict[str, Any]]:
    """Return the name and the document of the policy that bounds them: what any host of the
    workspace may do, and what writes its logs. A scheduler's rights include a worker's.

    Raises `InvalidInput` if it is longer than AWS takes.
    """
    texts = [scheduler_policy(scope.hosts)]
    texts += [writer.policy(scope.where) for writer in scope.writers.values()]
    document = policy_document([one for text in texts for one in statements_of(json.loads(text))])
    length = characters(document)
    if length > MAX_POLICY_CHARACTERS:
        raise InvalidInput(
            "the policy that bounds the roles of hosts is longer than AWS takes",
            given=f"{length} characters",
            allowed=f"{MAX_POLICY_CHARACTERS} characters",
            advice="name fewer network.data_buckets or network.container_repositories, or a "
            "network.permissions_boundary of your own",
        )
    return resource_name(scope.workspace, "boundary"), document


def bounded(scope: CallerScope) -> CallerScope:
    """Return the scope of callers who make roles within that boundary alone."""
    name, _ = boundary_policy(scope)
    return replace(scope, permissions_boundary=scope.where.iam_arn(f"policy/{name}"))
