"""Capacity reservations that settings name: read from EC2, compared with the hosts that are to run
in them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from terradask._aws.listing import listed
from terradask._aws.session import Aws
from terradask._common.clock import utc_text
from terradask.errors import InvalidInput, NoCapacity
from terradask_modules.names import WORKER_GROUP
from terradask_modules.reservations import BLOCK, OPEN, is_group, is_targeted
from terradask_stacks.groups import ClusterGroup, WorkerGroup

#: The platform and the tenancy of hosts: those of Amazon Linux on shared hardware.
_PLATFORM, _TENANCY = "Linux/UNIX", "default"
_MEMBER = "AWS::EC2::CapacityReservation"
_GONE = ("InvalidCapacityReservationId.NotFound", "NotFoundException")
#: AWS (documented, cr-block-end): EC2 ends the instances of a capacity block 30 minutes before the
#: block's end. https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html
BLOCK_ENDS_EARLY = datetime.timedelta(minutes=30)


@dataclass(frozen=True)
class Reservation:
    """A capacity reservation, or a capacity block."""

    id: str
    instance_type: str
    zone: str
    platform: str
    tenancy: str
    state: str
    total: int
    free: int
    is_block: bool = False
    begins: datetime.datetime | None = None
    ends: datetime.datetime | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Reservation:
        """Read EC2's description."""
        return cls(
            found["CapacityReservationId"],
            found["InstanceType"],
            found["AvailabilityZone"],
            found["InstancePlatform"],
            found.get("Tenancy", _TENANCY),
            found["State"],
            found["TotalInstanceCount"],
            found["AvailableInstanceCount"],
            found.get("ReservationType") == BLOCK,
            found.get("StartDate"),
            found.get("EndDate"),
        )

    @property
    def is_for_hosts(self) -> bool:
        """Whether hosts, which run Linux on shared hardware, can be in it."""
        return (self.platform, self.tenancy) == (_PLATFORM, _TENANCY)

    @property
    def hosts_end(self) -> datetime.datetime | None:
        """When EC2 ends its instances, or lets them go; None: never."""
        return self.ends and self.ends - (
            BLOCK_ENDS_EARLY if self.is_block else datetime.timedelta()
        )

    @property
    def times(self) -> str:
        """Its window in words; empty without one."""
        ends = f"until {utc_text(self.ends)}" if self.ends else ""
        if not self.is_block:
            return ends
        begins = f"from {utc_text(self.begins)} " if self.begins else ""
        return f"{begins}{ends}, and AWS ends its hosts at {utc_text(self.hosts_end)}"

    def __str__(self) -> str:
        kind = "capacity block " if self.is_block else ""
        other = "" if self.is_for_hosts else f" for {self.platform}, {self.tenancy} tenancy"
        state = "" if self.state == "active" else f", {self.state}"
        times = f", {self.times}" if self.times else ""
        return (
            f"{kind}{self.id}: {self.free} of {self.total} {self.instance_type} free in "
            f"{self.zone}{other}{state}{times}"
        )


@dataclass(frozen=True)
class Reserved:
    """The machines that are reserved for one group of workers."""

    setting: str
    target: str
    reservations: tuple[Reservation, ...]

    def types_in(self, zone: str) -> frozenset[str]:
        """Return the reserved types of a zone."""
        return frozenset(one.instance_type for one in self.reservations if one.zone == zone)

    @property
    def zones(self) -> frozenset[str]:
        """The zones of the reservations."""
        return frozenset(one.zone for one in self.reservations)

    @property
    def types(self) -> tuple[str, ...]:
        """The reserved types, sorted."""
        return tuple(sorted({one.instance_type for one in self.reservations}))

    @property
    def is_firm(self) -> bool:
        """Whether hosts run nowhere else."""
        return is_targeted(self.target)

    @property
    def is_block(self) -> bool:
        """Whether it is a capacity block."""
        return any(one.is_block for one in self.reservations)

    @property
    def rule(self) -> str:
        """Why its types were chosen."""
        if not self.is_firm:
            return "the types of open capacity reservations with free capacity"
        times = [one.times for one in self.reservations if one.times]
        return f"the types of capacity reservation {self.target}" + (
            f", {'; '.join(times)}" if times else ""
        )

    @property
    def given(self) -> str:
        """The setting and its reservations, for an error."""
        return _given(self.setting, self.target, self.reservations)


def describe(reservations: Iterable[Reservation]) -> str:
    """Return reservations as text."""
    return "; ".join(map(str, reservations)) or "no reservation"


def _given(setting: str, target: str, reservations: Iterable[Reservation]) -> str:
    """Return a setting with its reservations, of which a single one names itself."""
    named = f"{target}: " if is_group(target) or target == OPEN else ""
    return f"{setting} = {named}{describe(reservations)}"


def setting_of(group: str) -> str:
    """Return the setting that names a group's reservation."""
    table = "" if group == WORKER_GROUP else f"worker_groups.{group}."
    return f"cluster.{table}capacity_reservation"


def reserved_for(aws: Aws, groups: Iterable[WorkerGroup]) -> dict[str, Reserved]:
    """Return the machines reserved for groups of workers; without those whose settings name none,
    or for which no open reservation has capacity.

    Permissions needed: ``ec2:DescribeCapacityReservations``, and for a resource group
    ``resource-groups:ListGroupResources``. Raises `InvalidInput`.
    """
    found = {}
    for group in groups:
        if group.reservation == OPEN:
            ready = tuple(one for one in _open(aws) if one.free and one.is_for_hosts)
            if ready:
                found[group.name] = Reserved(setting_of(group.name), OPEN, ready)
        elif group.reservation is not None and is_targeted(group.reservation):
            setting = setting_of(group.name)
            reservations = read_reservations(aws, group.reservation, setting)
            found[group.name] = Reserved(
                setting, group.reservation, _fitting_hosts(reservations, group.reservation, setting)
            )
    return found


def read_reservations(aws: Aws, target: str, setting: str) -> tuple[Reservation, ...]:
    """Return a reservation, or those of a resource group. Raises `InvalidInput`."""
    ids: list[str] = []
    try:
        ids = _members(aws, target) if is_group(target) else [target]
        if not ids:
            raise _refused(
                "the resource group has no capacity reservation",
                f"{setting} = {target}",
                "a group with members of the type AWS::EC2::CapacityReservation",
                "add one: aws resource-groups group-resources",
            )
        found = listed(
            aws.client("ec2"),
            "describe_capacity_reservations",
            "CapacityReservations",
            CapacityReservationIds=ids,
        )
        return tuple(map(Reservation.of, found))
    except ClientError as error:
        if error.response["Error"]["Code"] not in _GONE:
            raise
        given = f"{setting} = {target}"
        if is_group(target) and not ids:
            raise _refused(
                f"this account has no such resource group in {aws.region}",
                given,
                "a group of capacity reservations in this account and region",
                "aws resource-groups list-groups lists them",
            ) from error
        raise _refused(
            f"this account has no such capacity reservation in {aws.region}",
            given,
            "a reservation of this account, or one that is shared with it",
            "aws ec2 describe-capacity-reservations lists them",
        ) from error


def _members(aws: Aws, group: str) -> list[str]:
    members = listed(
        aws.client("resource-groups"), "list_group_resources", "ResourceIdentifiers", Group=group
    )
    return [
        one["ResourceArn"].rpartition("/")[2] for one in members if one["ResourceType"] == _MEMBER
    ]


def _open(aws: Aws) -> list[Reservation]:
    filters = [
        {"Name": "state", "Values": ["active"]},
        {"Name": "instance-match-criteria", "Values": ["open"]},
    ]
    found = listed(
        aws.client("ec2"), "describe_capacity_reservations", "CapacityReservations", Filters=filters
    )
    return [*map(Reservation.of, found)]


def _fitting_hosts(
    reservations: Sequence[Reservation], target: str, setting: str
) -> tuple[Reservation, ...]:
    # AWS (documented): Auto Scaling launches into capacity blocks of a resource group only by
    # distribution segments, which Terraform's provider doesn't know.
    # https://docs.aws.amazon.com/autoscaling/ec2/userguide/use-distribution-segments.html
    fitting = tuple(
        one for one in reservations if one.is_for_hosts and not (one.is_block and is_group(target))
    )
    if not fitting:
        raise _refused(
            "hosts can't run in this capacity reservation",
            _given(setting, target, reservations),
            f"a reservation for {_PLATFORM} with {_TENANCY} tenancy; a capacity block by its id",
            "name another reservation: EC2 changes neither of an existing one",
        )
    return fitting


def _refused(problem: str, given: str, allowed: str, advice: str) -> InvalidInput:
    return InvalidInput(problem, given=given, allowed=allowed, advice=advice)


# ---- before a launch -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ReservedHosts:
    """The hosts of one group that are to run in its reservation."""

    group: str
    target: str
    instance_types: tuple[str, ...]
    zones: tuple[str, ...]
    #: How many start.
    number: int
    #: How many there may be: ``max_workers``.
    most: int
    #: How many AWS prepares beside them.
    standby: int = 0


def reserved_hosts(
    groups: Iterable[ClusterGroup], numbers: Mapping[str, int]
) -> list[ReservedHosts]:
    """Return the hosts of a cluster's groups that name a reservation."""
    return [
        ReservedHosts(
            group.worker_group,
            group.reservation,
            group.instance_types,
            group.zones,
            numbers.get(group.worker_group, 0),
            group.max_size,
            group.standby,
        )
        for group in groups
        if group.worker_group and group.reservation and is_targeted(group.reservation)
    ]


def check_reserved(
    aws: Aws,
    cluster: str,
    hosts: Iterable[ReservedHosts],
    *,
    starts: bool,
    warn: Callable[[str], None],
) -> None:
    """Refuse hosts that their reservation doesn't fit, now, or if only planned, at all; warn of
    missing machines, and of a limit above the reserved number.

    Permissions needed: as for `reserved_for`. Raises `InvalidInput`, `NoCapacity`.
    """
    for each in hosts:
        setting = setting_of(each.group)
        reservations = read_reservations(aws, each.target, setting)
        ready = _usable(cluster, each, setting, reservations, starts=starts)
        _check_numbers(cluster, each, setting, ready, starts=starts, warn=warn)


def _usable(
    cluster: str,
    hosts: ReservedHosts,
    setting: str,
    reservations: Sequence[Reservation],
    *,
    starts: bool,
) -> list[Reservation]:
    """Return the reservations for these hosts that can be used now, or later if only planned."""
    fitting = [
        one
        for one in _fitting_hosts(reservations, hosts.target, setting)
        if one.instance_type in hosts.instance_types and one.zone in hosts.zones
    ]
    if not fitting:
        raise _refused(
            f"the capacity reservation is for other machines than cluster {cluster!r} was planned "
            "with",
            _given(setting, hosts.target, reservations),
            f"{' or '.join(hosts.instance_types)} in {' or '.join(hosts.zones)}",
            f"plan the cluster anew: terradask plan --refresh {cluster}",
        )
    states = {"active"} if starts else {"active", "scheduled", "pending", "payment-pending"}
    usable = [one for one in fitting if one.state in states and _lasts(one)]
    if not usable:
        raise NoCapacity(
            f"the capacity reservation of cluster {cluster!r} can't be used"
            f"{' now' if starts else ''} ({setting})",
            cluster=cluster,
            given=describe(fitting),
            allowed="a reservation that is active, before AWS ends its hosts",
            advice="start the cluster within the reservation's times, or name another reservation "
            f"and run: terradask plan --refresh {cluster}",
            kinds={"reservation"},
        )
    return usable


def _lasts(one: Reservation) -> bool:
    return one.hosts_end is None or datetime.datetime.now(datetime.UTC) < one.hosts_end


def _check_numbers(
    cluster: str,
    hosts: ReservedHosts,
    setting: str,
    ready: Sequence[Reservation],
    *,
    starts: bool,
    warn: Callable[[str], None],
) -> None:
    total, free = (sum(counts) for counts in zip(*((r.total, r.free) for r in ready), strict=True))
    named = "workers" if hosts.group == WORKER_GROUP else f"workers of group {hosts.group}"
    reserved = free if starts else total
    if hosts.number > reserved:
        raise NoCapacity(
            f"the capacity reservation has too few machines for cluster {cluster!r} ({setting})",
            cluster=cluster,
            given=f"{hosts.number} {named} to start with; {describe(ready)}",
            allowed=f"{reserved} {named} at most",
            advice=f"request fewer workers{', wait until others leave it' if starts else ''}, or "
            "enlarge the reservation: aws ec2 modify-capacity-reservation",
            kinds={"reservation"},
        )
    begins = [one for one in ready if one.state != "active"]
    if begins:
        warn(f"{cluster}: it can't be started before its reservation begins: {describe(begins)}")
    elif hosts.number > free:
        warn(
            f"{cluster}: its capacity reservation has {free} of the {hosts.number} {named} free "
            f"now: {describe(ready)}"
        )
    if hosts.most > total:
        warn(
            f"{cluster}: max_workers is {hosts.most}, and its capacity reservation has "
            f"{total} machines, so that AWS launches {total} {named} at most"
        )
    elif hosts.number + hosts.standby > total:
        warn(
            f"{cluster}: its capacity reservation has {total} machines for {hosts.number} {named} "
            f"and {hosts.standby} prepared hosts: AWS can't prepare all of them while these run"
        )
