"""What people and pipelines may do in the account, as IAM policy documents. Pure: plain
dictionaries, no construct.

Four kinds of callers, each with the least that its work takes:

``setup``
    makes, changes and destroys the network. Detachable after the first apply. It makes the hosts'
    roles and gives them rights: without a permissions boundary it could give itself every right of
    the account, so it gets one that an administrator makes (`boundary_policy`).
``ongoing``
    deploys, starts, stops and destroys clusters, and plans the network without changing it. Reads
    no keys.
``ci``
    plans everything and changes nothing but the locks of states.
``user``
    makes clusters on the standing network, and attaches to them.

Everything that changes something names this workspace's resources, by name and, where names could
overlap with another workspace's, by tag. Where each cluster has roles and a firewall of its own,
a caller who makes clusters makes those too, within a permissions boundary that ``setup`` alone may
change. What hosts may do is in :mod:`terradask_modules.policies`.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from terradask_modules.caller_policies._about import about
from terradask_modules.caller_policies._boundary import boundary_policy, bounded
from terradask_modules.caller_policies._by_kind import see_of_each
from terradask_modules.caller_policies._clusters import (
    change_clusters,
    keep_reports,
    lock_states,
    make_private,
    read_keys,
    read_logs,
    read_no_keys,
    see_clusters,
    sweep_strays,
    use_key,
)
from terradask_modules.caller_policies._network_changes import change_network
from terradask_modules.caller_policies._network_reading import (
    read_network,
    see_prices,
    see_service_roles,
    see_zones,
)
from terradask_modules.caller_policies._own_things import see_roles_of_gone_clusters
from terradask_modules.caller_policies._quotas import see_quotas, see_vcpu_quotas
from terradask_modules.caller_policies._scope import SERVICE_ROLES, CallerScope
from terradask_modules.caller_policies._sessions import open_sessions
from terradask_modules.caller_policies._state import keep_network_state, read_network_state
from terradask_modules.caller_policies._trust import GitHubActions, parse_trust
from terradask_modules.iam import (
    MAX_POLICY_CHARACTERS,
    Statement,
    characters,
    only_in_account,
)
from terradask_modules.names import resource_name

__all__ = [
    "CALLERS",
    "MAX_POLICY_CHARACTERS",
    "SERVICE_ROLES",
    "Caller",
    "CallerScope",
    "GitHubActions",
    "Statement",
    "about",
    "boundary_policy",
    "bounded",
    "caller_policies",
    "caller_statements",
    "characters",
    "parse_trust",
]
from collections.abc import Sequence

from terradask_modules.iam import policy_document

Caller = Literal["setup", "ongoing", "ci", "user"]
CALLERS: tuple[Caller, ...] = get_args(Caller)


def caller_policies(scope: CallerScope, caller: Caller) -> dict[str, dict[str, Any]]:
    """Return a caller's managed policies: name -> document, several where AWS's limit on a policy's
    size makes it necessary.
    """
    return documents(resource_name(scope.workspace, caller), caller_statements(scope, caller))


def caller_statements(scope: CallerScope, caller: Caller) -> list[Statement]:
    """Return everything that a caller may do."""
    own = only_in_account(_statements(scope, caller), scope.bucket, scope.where.account)
    return only_in_account(
        own, scope.state_bucket, scope.network_state_owner or scope.where.account
    )


def _statements(scope: CallerScope, caller: Caller) -> list[Statement]:
    if caller == "setup":
        return [
            *read_network(scope),
            see_prices(),
            *change_network(scope),
            *use_key(scope),
            *keep_network_state(scope),
            # Clusters stand in the way of the network's end: also what is left of them.
            *see_of_each(scope),
            *see_quotas(scope, request=True),
        ]
    if caller == "ongoing":
        return [
            *read_network(scope),
            *read_network_state(scope),
            *see_clusters(scope),
            *change_clusters(scope),
            *sweep_strays(scope),
            read_logs(scope),
            *keep_reports(scope),
            *see_roles_of_gone_clusters(scope),
            read_no_keys(scope),
            *make_private(scope.private_secrets),
            *use_key(scope),
            *see_quotas(scope),
        ]
    if caller == "ci":
        return [
            *read_network(scope),
            *read_network_state(scope),
            *see_clusters(scope),
            lock_states(scope),
            *use_key(scope),
            *see_vcpu_quotas(scope),
        ]
    return [
        *see_clusters(scope),
        *change_clusters(scope),
        *sweep_strays(scope),
        read_logs(scope),
        *keep_reports(scope),
        read_keys(scope),
        # Of any cluster: an argument can make one private, whatever the settings say.
        *make_private(scope.secrets),
        *open_sessions(scope),
        *use_key(scope),
        see_zones(scope),
        see_service_roles(scope),
        *see_vcpu_quotas(scope),
    ]


# ---- from statements to managed policies ---------------------------------------------------------


def documents(name: str, statements: Sequence[Statement]) -> dict[str, dict[str, Any]]:
    """Return policy documents by the name of their policy, numbered where one isn't enough. The
    order of statements is kept.
    """
    packed: list[list[Statement]] = [[]]
    for statement in statements:
        if (
            packed[-1]
            and characters(policy_document([*packed[-1], statement])) > MAX_POLICY_CHARACTERS
        ):
            packed.append([])
        packed[-1].append(statement)
    if len(packed) == 1:
        return {name: policy_document(packed[0])}
    return {f"{name}-{number}": policy_document(part) for number, part in enumerate(packed, 1)}
