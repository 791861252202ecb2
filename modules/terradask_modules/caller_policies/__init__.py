"""Rights of people and pipelines in the account, as IAM policy documents. Pure: plain dictionaries,
no construct.

Four kinds of callers, each with the least rights for its work:

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
    makes clusters on the existing network, and attaches to them.

Every right to change names this workspace's resources, by name and, where names could overlap with
another workspace's, by tag. If each cluster has its own roles and firewall, callers who make
clusters make those too, within a permissions boundary that only ``setup`` may change. Hosts' rights
are in :mod:`terradask_modules.policies`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from terradask_modules.caller_policies._by_kind import see_of_each
from terradask_modules.caller_policies._clusters import (
    change_clusters,
    keep_reports,
    lock_states,
    make_private,
    open_sessions,
    read_keys,
    read_logs,
    read_no_keys,
    see_clusters,
    sweep_strays,
    use_key,
)
from terradask_modules.caller_policies._images import keep_images
from terradask_modules.caller_policies._limits import CallerLimits
from terradask_modules.caller_policies._network_changes import change_network
from terradask_modules.caller_policies._network_reading import (
    read_network,
    see_prices,
    see_quotas,
    see_service_roles,
    see_vcpu_quotas,
    see_zones,
)
from terradask_modules.caller_policies._own_things import see_roles_of_gone_clusters
from terradask_modules.caller_policies._scope import SERVICE_ROLES, CallerScope
from terradask_modules.caller_policies._state import keep_network_state, read_network_state
from terradask_modules.errors import InvalidInput
from terradask_modules.iam import (
    MAX_POLICY_CHARACTERS,
    Statement,
    characters,
    only_in_account,
    policy_document,
    statement,
    statements_of,
)
from terradask_modules.names import CLUSTER_PATTERN, resource_name
from terradask_modules.policies import bounding_statements

__all__ = [
    "CALLERS",
    "SERVICE_ROLES",
    "Caller",
    "CallerLimits",
    "CallerScope",
    "GitHubActions",
    "about",
    "boundary_policy",
    "bounded",
    "caller_policies",
    "caller_statements",
    "parse_trust",
    "policy_name",
]

Caller = Literal["setup", "ongoing", "ci", "user"]
CALLERS: tuple[Caller, ...] = get_args(Caller)


def caller_policies(
    scope: CallerScope, caller: Caller, *, name: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return a caller's managed policies, name -> document, split at AWS's limit of size.

    `name` distinguishes those of several callers of one kind. Raises `InvalidInput` if a statement
    is too long for a policy.
    """
    whole = policy_name(scope, caller, name)
    return documents(whole, caller_statements(scope, caller))


def policy_name(scope: CallerScope, caller: Caller, name: str | None = None) -> str:
    """Return the name of a caller's policies, without their numbers.

    Raises `InvalidInput` if policies can't have this name.
    """
    if name is not None and not re.fullmatch(CLUSTER_PATTERN, name):
        raise InvalidInput(
            "policies can't have this name",
            given=name,
            allowed="up to 32 small letters, digits and hyphens, a letter first",
        )
    return resource_name(scope.workspace, caller, *([] if name is None else [name]))


def caller_statements(scope: CallerScope, caller: Caller) -> list[Statement]:
    """Return all rights of a caller."""
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
            *keep_images(scope),
            *use_key(scope),
            *keep_network_state(scope),
            # Leftovers of clusters prevent the network's destruction.
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
        # For any cluster: an argument can make one private, whatever the settings.
        *make_private(scope.own_secrets),
        *open_sessions(scope),
        *use_key(scope),
        see_zones(scope),
        see_service_roles(scope),
        *see_vcpu_quotas(scope),
    ]


# ---- from statements to managed policies ---------------------------------------------------------


def documents(name: str, statements: Sequence[Statement]) -> dict[str, dict[str, Any]]:
    """Return policy documents by policy name, numbered if there are several, in order."""
    packed: list[list[Statement]] = [[]]
    for each in statements:
        if packed[-1] and characters(policy_document([*packed[-1], each])) > MAX_POLICY_CHARACTERS:
            packed.append([])
        packed[-1].append(each)
    for part in packed:
        _check_length(part)
    if len(packed) == 1:
        return {name: policy_document(packed[0])}
    return {f"{name}-{number}": policy_document(part) for number, part in enumerate(packed, 1)}


def _check_length(statements: Sequence[Statement]) -> None:
    length = characters(policy_document(list(statements)))
    if length > MAX_POLICY_CHARACTERS:
        raise InvalidInput(
            f"the statement {statements[0].get('Sid')} is longer than a policy may be",
            given=f"{length} characters",
            allowed=f"{MAX_POLICY_CHARACTERS} characters",
            advice="name fewer, or shorter, patterns",
        )


# ---- the boundary of the network's roles ---------------------------------------------------------
#
# Without a company's boundary, a caller who makes roles and gives them rights could give itself
# every right.


def boundary_policy(scope: CallerScope) -> tuple[str, dict[str, Any]]:
    """Return name and document of their boundary: the rights of any host and of logs' writers.

    Raises `InvalidInput` if it exceeds AWS's limit.
    """
    texts = [writer.policy(scope.where) for writer in scope.writers.values()]
    document = policy_document(
        [
            *bounding_statements(scope.hosts),
            *(one for text in texts for one in statements_of(json.loads(text))),
        ]
    )
    length = characters(document)
    if length > MAX_POLICY_CHARACTERS:
        raise InvalidInput(
            "the policy that bounds the roles of hosts is longer than AWS allows",
            given=f"{length} characters",
            allowed=f"{MAX_POLICY_CHARACTERS} characters",
            advice="name fewer network.data_buckets, network.task_rights or "
            "network.container_repositories, or a network.permissions_boundary of your own",
        )
    return resource_name(scope.workspace, "boundary"), document


def bounded(scope: CallerScope) -> CallerScope:
    """Return the scope of callers who make roles only within that boundary."""
    name, _ = boundary_policy(scope)
    return replace(scope, permissions_boundary=scope.where.iam_arn(f"policy/{name}"))


# ---- summary of a caller's power, which exceeds its list of actions ------------------------------


_ABOUT = {
    "ongoing": (
        "deploys and starts clusters. It reads no keys with its own credentials, but hosts that it "
        "launches do: trust it as you trust users"
    ),
    "ci": (
        "plans, and changes nothing but the locks of states. It reads the states and documents of "
        "all clusters"
    ),
}


def about(scope: CallerScope, caller: str) -> str:
    """Return a summary of a caller's power."""
    if caller == "setup":
        what = f"makes the network, and decides what hosts run{_roles(scope)}"
    elif caller == "user":
        what = f"{_about_user(scope)}{_sessions(scope)}{_limits(scope)}"
    else:
        what = _ABOUT[caller]
    return f"{caller} {what}"


def _about_user(scope: CallerScope) -> str:
    if scope.limits.clusters:
        return (
            "runs code on its own clusters of the workspace, with the rights of their hosts; it "
            "starts, stops and destroys them, also those that others have made"
        )
    return (
        "runs code on every cluster of the workspace that isn't private, with the rights of its "
        "hosts; it starts, stops and destroys clusters of others too"
    )


def _sessions(scope: CallerScope) -> str:
    whose = "their schedulers" if scope.limits.clusters else "any scheduler"
    return f", and forwards any port of {whose} through sessions" if scope.session_manager else ""


def _limits(scope: CallerScope) -> str:
    limits = "; ".join(scope.limits.sentences())
    return f". AWS holds it to: {limits}" if limits else ""


def _roles(scope: CallerScope) -> str:
    if not scope.made_roles:
        return ""
    if scope.permissions_boundary is None:
        return (
            " and what they may do, without a permissions boundary: it can become the account's "
            "administrator, by a role that it makes"
        )
    return f" and what they may do, within the permissions boundary {scope.permissions_boundary}"


# ---- trust policies for roles of a GitHub repository's jobs, by OpenID Connect without a secret --


_ISSUER = "token.actions.githubusercontent.com"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
#: Names with a colon could match another subject, and those with * or ? many.
_ENVIRONMENT = re.compile(r"[^:*?$\s][^:*?$]{0,254}")


@dataclass(frozen=True)
class GitHubActions:
    """Jobs of a repository.

    Notes
    -----
    Subjects: https://docs.github.com/en/actions/reference/security/oidc. An environment's own
    protection rules decide who reaches it.
    """

    #: ``OWNER/REPOSITORY``.
    repository: str
    #: The deployment environment that the job must name. None: jobs of pull requests.
    environment: str | None = None

    @property
    def subject(self) -> str:
        """The claim ``sub`` of such a job's token."""
        kind = "pull_request" if self.environment is None else f"environment:{self.environment}"
        return f"repo:{self.repository}:{kind}"

    def policy(self, scope: CallerScope) -> dict[str, Any]:
        """Return the trust policy of a role for exactly these jobs."""
        return policy_document(
            [
                statement(
                    "Allow",
                    "sts:AssumeRoleWithWebIdentity",
                    sid="GitHubActions",
                    principal={"Federated": scope.where.iam_arn(f"oidc-provider/{_ISSUER}")},
                    condition={
                        "StringEquals": {
                            f"{_ISSUER}:aud": "sts.amazonaws.com",
                            f"{_ISSUER}:sub": self.subject,
                        }
                    },
                )
            ]
        )


def parse_trust(text: str, *, environment: str | None = None) -> GitHubActions:
    """Parse ``github:OWNER/REPOSITORY``.

    Raises `InvalidInput` for another form, or several possible repositories or environments.
    """
    kind, _, repository = text.partition(":")
    if kind != "github" or not _REPOSITORY.fullmatch(repository):
        raise InvalidInput(
            "this names no repository that a role can trust",
            given=text,
            allowed="github:OWNER/REPOSITORY, one repository without a pattern",
        )
    if environment is not None and not _ENVIRONMENT.fullmatch(environment):
        raise InvalidInput(
            "a GitHub environment of this name can't be in a subject",
            given=environment,
            allowed="no : * ? or $",
        )
    return GitHubActions(repository, environment)
