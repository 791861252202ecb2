"""Problems of clusters that the workspace shows: limits, locks of states, settings of the network
that aren't applied, another version; and what a run has cost.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from packaging.version import InvalidVersion, Version

from terradask._clusters.limit_notes import with_limit_notes
from terradask._common.naming import some
from terradask._common.side_by_side import side_by_side
from terradask._common.text_table import shortened
from terradask._observe.run_costs.book import find_accounts
from terradask._observe.run_costs.totals import costs_of
from terradask._observe.verdict import Problem, clock
from terradask._workspace.states import StackStates
from terradask.errors import TerradaskError
from terradask_stacks.version import terradask_version

if TYPE_CHECKING:
    from decimal import Decimal

    from terradask._clusters.overview import ClusterOverview
    from terradask._network.baseline import Baseline
    from terradask._terraform.state.lock import LockInfo
    from terradask._workspace.context import WorkspaceContext
    from terradask_stacks.settings import Settings

logger = logging.getLogger("terradask")

_PARALLEL = 16
_NAMED = 2

#: Settings that ``workspace.json`` has as they are.
_SAME = (
    *("public_workers", "public_schedulers", "session_manager", "allow_ingress_from_anywhere"),
    *("kms_key_arn", "container_repositories", "cluster_launch_templates"),
)


def with_surroundings(
    context: WorkspaceContext, found: Sequence[ClusterOverview], *, costs: bool
) -> list[ClusterOverview]:
    """Return overviews with limits and problems of the workspace that the caller may read; with
    `costs`, also with the costs of active runs, which takes more calls.
    """
    limited = with_limit_notes(context.aws, context.bucket, context.network.baseline, found)
    own = [one for one in limited if one.workspace == context.name and one.status is not None]
    if not own:
        return limited
    shared = _network_problems(context)
    locks = side_by_side([partial(_lock, context, one.name) for one in own], _PARALLEL)
    locked = {one.name: lock for one, lock in zip(own, locks, strict=True)}
    changed = []
    for one in limited:
        if one.name in locked and one.workspace == context.name:
            problems = (*locked[one.name], *map(_limit, one.limits), *shared)
            usd = _run_usd(context, one) if costs else None
            changed.append(replace(one, surroundings=problems, run_usd=usd))
        else:
            changed.append(one)
    return changed


def _limit(sentence: str) -> Problem:
    return Problem("limit", shortened(sentence, 100), command="terradask limits")


def _lock(context: WorkspaceContext, cluster: str) -> tuple[Problem, ...]:
    try:
        lock = StackStates(context).find_lock(cluster)
    except (TerradaskError, BotoCoreError, ClientError) as error:
        logger.debug("the lock of %s can't be read: %s", cluster, error)
        return ()
    if lock is None:
        return ()
    command = f"terradask unlock {cluster}"
    text = (
        f"its state is {lock.describe()}: an apply or destroy waits for that command; if it was "
        f"killed: {command}"
    )
    return (Problem("lock", f"state {_brief(lock)}", text, command),)


def _brief(lock: LockInfo) -> str:
    """Return the lock in the words of a verdict, whose times are short."""
    if lock.seconds is None:
        return lock.describe()
    at = datetime.datetime.fromtimestamp(lock.seconds, datetime.UTC)
    return lock.describe(clock(at, datetime.datetime.now(datetime.UTC)))


def _network_problems(context: WorkspaceContext) -> tuple[Problem, ...]:
    try:
        deployed = context.network.baseline()
    except TerradaskError as error:
        logger.debug("the network can't be compared: %s", error)
        return ()
    found = []
    if (gap := version_gap(deployed, terradask_version())) is not None:
        version, command = gap
        text = (
            f"terradask {version} deployed the network, and this is {terradask_version()}: hosts "
            f"run the network's. {command}"
        )
        brief = f"network by terradask {version}, here {terradask_version()}"
        found.append(Problem("versions", brief, text, command))
    if changed := unapplied_settings(context.settings, deployed):
        named = ", ".join(changed)
        text = f"settings that aren't applied to the network: {named}. terradask plan network"
        brief = f"network without {some(changed, _NAMED)} of the settings"
        found.append(Problem("network", brief, text, "terradask plan network"))
    return tuple(found)


def unapplied_settings(settings: Settings, deployed: Baseline) -> list[str]:
    """Return the settings whose value isn't the deployed one, of those that clusters depend on."""
    network = settings.network
    found = [
        f"network.{name}" for name in _SAME if getattr(network, name) != getattr(deployed, name)
    ]
    pairs = {
        "network.nat": (network.nat, network.nat if deployed.nat == "given" else deployed.nat),
        "network.interface_endpoints": (
            sorted(network.interface_endpoints),
            sorted(deployed.interface_endpoints),
        ),
        "network.ingress": (
            *(
                [([*map(str, each.ports)], each.cidr, each.description) for each in rules]
                for rules in (network.ingress, deployed.ingress)
            ),
        ),
        "workspace.isolation": (settings.workspace.isolation, deployed.isolation),
    }
    return [*found, *(name for name, (wanted, is_now) in pairs.items() if wanted != is_now)]


def version_gap(deployed: Baseline, own: str) -> tuple[str, str] | None:
    """Return the network's version and the command that makes it and this one equal; None if they
    are.
    """
    if deployed.terradask_version == own:
        return None
    try:
        is_newer = Version(deployed.terradask_version) > Version(own)
    except InvalidVersion:
        is_newer = False
    command = "pip install --upgrade terradask" if is_newer else "terradask plan network"
    return deployed.terradask_version, command


def _run_usd(context: WorkspaceContext, one: ClusterOverview) -> Decimal | None:
    """Return the known cost of an active run so far."""
    if one.status is None or one.status.run_id is None:
        return None
    key = f"{one.status.run_id}/{one.name}.json"
    accounts = find_accounts(context.aws, context.bucket, key=key)
    return costs_of(accounts).usd if accounts else None
