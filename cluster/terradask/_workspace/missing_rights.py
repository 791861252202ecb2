"""The rights that a caller lacks, as AWS's refusals show: each with the things that aren't shown
without it, and the generated policy that has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from terradask._common.naming import some
from terradask._workspace.caller_scope import caller_scope
from terradask.errors import TerradaskError
from terradask.errors._aws import BEYOND
from terradask_modules.caller_policies import Caller, CallerScope, caller_statements
from terradask_modules.iam import covers
from terradask_modules.names import network_state_key

if TYPE_CHECKING:
    from terradask._workspace.context import WorkspaceContext

logger = logging.getLogger("terradask")

#: Action, a part of the resource -> things that aren't shown without it.
_SHOWN_BY = (
    ("ec2:DescribeInstances", "", "prices, and new costs"),
    ("ec2:DescribeVolumes", "", "prices"),
    ("ec2:DescribeInstanceTypes", "", "sizes of hosts"),
    ("pricing:GetProducts", "", "prices"),
    ("autoscaling:DescribeAutoScalingGroups", "", "groups and their numbers"),
    ("autoscaling:DescribeScalingActivities", "", "reasons of launches and ends, and new costs"),
    ("autoscaling:DescribeScheduledActions", "", "a scheduler that is silent"),
    ("s3:GetObject", "/accounts/", "costs of runs"),
    ("s3:GetObject", ".tflock", "locks of states"),
    ("s3:GetObject", "/workspace.json", "limits and changes of the network"),
)
#: Policies in which a right is looked for, those with the fewest rights first.
_POLICIES: tuple[Caller, ...] = ("user", "ongoing", "setup")
_NAMED = 2


@dataclass(frozen=True)
class MissingRight:
    """An action that AWS has refused."""

    #: `action`, `resources`: The action, and the ARNs that AWS named, if any.
    action: str
    resources: tuple[str, ...] = ()
    #: Things that aren't shown without it, if that is known.
    without: str | None = None
    #: The first of ``terradask iam``'s callers whose policies allow it; None if none does.
    policy: str | None = None
    #: The kind of policy that refuses, as in `AccessDenied`.
    by: str | None = None

    def __str__(self) -> str:
        on = f" on {some(self.resources, _NAMED)}" if self.resources else ""
        without = f": {self.without} can't be shown" if self.without else ""
        helps = BEYOND.get(self.by or "") or (
            f"`terradask iam {self.policy}` prints a policy with it" if self.policy else ""
        )
        return f"AWS refuses {self.action}{on}{without}{helps and f'; {helps}'}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {**asdict(self), "resources": list(self.resources)}


def missing_rights(context: WorkspaceContext) -> list[MissingRight]:
    """Return the actions that AWS has refused in this process, and a policy allows."""
    if not context.aws.denied:
        return []
    network_state = network_state_key(context.name)
    denied = {
        (action, resource): by
        for (action, resource), by in context.aws.denied.items()
        # For those who apply the network.
        if network_state not in (resource or "")
    }
    try:
        scope = caller_scope(context.settings, context.aws)
    except (TerradaskError, BotoCoreError, ClientError) as error:
        logger.debug("the policies of callers aren't known: %s", error)
        return rights_of(denied, lambda _action, _resource: None)
    found = rights_of(denied, lambda action, resource: policy_with(scope, action, resource))
    # Actions that no policy allows are optional, and nothing shown needs a right to write.
    return [one for one in found if one.policy is not None and one.action != "s3:PutObject"]


def rights_of(
    denied: Mapping[tuple[str, str | None], str | None],
    policy: Callable[[str, str | None], str | None],
) -> list[MissingRight]:
    """Return refusals by action, with things hidden and a policy. `denied` is `Aws.denied`."""
    found: dict[tuple[str, str | None, str | None, str | None], list[str]] = {}
    for (action, resource), by in sorted(denied.items(), key=str):
        key = action, _without(action, resource or ""), policy(action, resource), by
        found.setdefault(key, []).extend([resource] if resource else [])
    return [
        MissingRight(action, tuple(resources), *rest)
        for (action, *rest), resources in found.items()
    ]


def policy_with(scope: CallerScope, action: str, resource: str | None) -> str | None:
    """Return the caller with the fewest rights who may do it, conditions apart."""
    for caller in _POLICIES:
        if any(
            one["Effect"] == "Allow" and covers(one, action, resource)
            for one in caller_statements(scope, caller)
        ):
            return caller
    return None


def _without(action: str, resource: str) -> str | None:
    return next(
        (words for one, part, words in _SHOWN_BY if one == action and part in resource), None
    )
