"""Resolve a cluster's zone and the instance types of its groups. The answers are locked together
with the request.

Price changes then have no effect until the settings request something else, or a plan refreshes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from terradask._aws.session import Aws
from terradask._common.progress import Message, Progress, silent
from terradask._synthesis.resolve_hardware import ZONE, find_hardware, requested_hardware
from terradask.errors import BaselineError, InvalidInput
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP
from terradask_modules.secret_policy import principal_of
from terradask_stacks.lock import LOCK_NAME, ClusterLock
from terradask_stacks.settings import ClusterSettings
from terradask_stacks.settings.hardware import default_types


@dataclass(frozen=True)
class Place:
    """Where clusters can be placed."""

    account: str
    #: ``aws``, ``aws-cn`` or ``aws-us-gov``.
    partition: str
    #: The zones with subnets.
    zones: frozenset[str]
    #: The processor architectures with launch templates.
    architectures: frozenset[str]
    #: The workspace's name, for failed launches of its groups. Unset: not considered.
    workspace: str | None = None
    #: Whether the subnets are given by ``network.subnets``.
    given: bool = False


def resolve_cluster(
    cluster: ClusterSettings,
    place: Place,
    aws: Aws,
    existing_lock: ClusterLock | None = None,
    *,
    refresh: bool = False,
    progress: Progress = silent,
) -> ClusterLock:
    """Resolve the answers for a cluster's stack beyond its settings.

    Raises `InvalidInput`, `NoMatchingType` with the nearest requests, `BaselineError` for missing
    launch templates in the network.

    Permissions needed: ``ec2:DescribeInstanceTypes``, ``ec2:DescribeInstanceTypeOfferings``;
    ``pricing:GetProducts`` to sort types that aren't named. To choose among zones,
    optionally: ``autoscaling:DescribeScalingActivities``, and ``ec2:DescribeSpotPriceHistory`` for
    workers on spot.
    """
    requests = cluster.hardware_requests
    creator = _creator(cluster, existing_lock, aws, place.account)
    if existing_lock is not None and not refresh and still_holds(existing_lock, cluster, place):
        return (
            existing_lock
            if existing_lock.creator == creator
            else existing_lock.model_copy(update={"creator": creator})
        )
    zones = zones_for(cluster, place)
    preferred = existing_lock.zone if existing_lock is not None and not refresh else None
    found = find_hardware(
        cluster, zones, aws, progress=progress, preferred=preferred, workspace=place.workspace
    )
    if found.architecture not in place.architectures:
        raise _no_templates(found.architecture, found.types()[SCHEDULER_GROUP], place)
    reasons = found.reasons()
    if len(zones) > 1:
        progress(Message(f"{ZONE}: {reasons[ZONE]}"))
    for group, request in requests.items():
        if not (request.vm_types or request.is_silent):
            progress(Message(f"{group}: {reasons[group]}"))
    types = found.types()
    return ClusterLock(
        account=place.account,
        partition=place.partition,
        zone=found.zone,
        zone_is_default=_takes_default(cluster),
        worker_zones={group: list(where) for group, where in found.worker_zones.items()},
        architecture=found.architecture,
        scheduler_instance_types=types[SCHEDULER_GROUP],
        worker_instance_types=types[WORKER_GROUP],
        group_instance_types={name: types[name] for name in sorted(cluster.worker_groups)},
        gpus=found.gpus(),
        capacity_blocks=list(found.blocks),
        asked=requested_hardware(cluster),
        reasons=reasons,
        creator=creator,
    )


def _creator(
    cluster: ClusterSettings, existing_lock: ClusterLock | None, aws: Aws, account: str
) -> str | None:
    """Return the owner of a private cluster: always the first caller."""
    if not cluster.private_to_creator:
        return None
    creator = existing_lock.creator if existing_lock is not None else None
    if creator is None:
        return principal_of(aws.caller_arn)
    if f":{account}:" not in creator:
        raise InvalidInput(
            "the locked owner of a private cluster belongs to another account",
            given=creator,
            allowed=f"a principal of account {account}",
            advice=f"find out who put it there (git log {LOCK_NAME}), and remove it",
        )
    return creator


def zones_for(cluster: ClusterSettings, place: Place) -> list[str]:
    """Return the zones in which a cluster's hosts may be. Raises `InvalidInput`."""
    zones, named = sorted(place.zones), cluster.zone_name
    if named is not None and named not in place.zones:
        adds = (
            f'a table [network.subnets."{named}"] with its own subnets'
            if place.given
            else "it to network.zones"
        )
        raise InvalidInput(
            "the network has no subnets in this zone",
            given=f"cluster.zone_name = {named}",
            allowed=", ".join(zones),
            advice=f"choose one of these, or add {adds} and run: terradask apply network",
        )
    # A reservation decides.
    if cluster.allow_cross_zone or (cluster.has_reservation and named is None):
        return zones
    if named is not None:
        return [named]
    return zones if cluster.use_best_zone else zones[:1]


def _takes_default(cluster: ClusterSettings) -> bool:
    return cluster.zone_name is None and not cluster.use_best_zone


def types_in(lock: ClusterLock) -> dict[str, list[str]]:
    """Return each group's types, as locked."""
    return {
        WORKER_GROUP: lock.worker_instance_types,
        SCHEDULER_GROUP: lock.scheduler_instance_types,
        **lock.group_instance_types,
    }


def named_or_default(cluster: ClusterSettings) -> dict[str, list[str]]:
    """Return each group's types that are named or the default."""
    default = default_types(arm=cluster.expects_arm)
    return {
        group: list(request.vm_types or default)
        for group, request in cluster.hardware_requests.items()
    }


def still_holds(lock: ClusterLock, cluster: ClusterSettings, place: Place) -> bool:
    """Return whether earlier answers still match the settings' request and the network."""
    if lock.account != place.account or lock.architecture not in place.architectures:
        return False
    spread = {zone for zones in lock.worker_zones.values() for zone in zones}
    if not {lock.zone, *spread} <= place.zones or cluster.zone_name not in (None, lock.zone):
        return False
    if bool(spread) != cluster.allow_cross_zone or (
        _takes_default(cluster) and not lock.zone_is_default
    ):
        return False
    return lock.asked == requested_hardware(cluster)


def _no_templates(architecture: str, types: Sequence[str], place: Place) -> BaselineError:
    there = sorted(place.architectures)
    wanted = ", ".join(f'"{one}"' for one in sorted({architecture, *there}, reverse=True))
    return BaselineError(
        f"the network has no launch templates for {architecture}",
        given=", ".join(types[:3]) + (", …" if len(types) > 3 else ""),
        allowed=f"instance types for {' or '.join(there)}",
        advice=f"set network.architectures = [{wanted}] and run: terradask apply network (it "
        "replaces no running host); or choose "
        f"other types (cluster.arm = {'false' if architecture == 'arm64' else 'true'})",
    )
