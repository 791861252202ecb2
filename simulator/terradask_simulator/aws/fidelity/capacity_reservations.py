"""Capacity reservations: made, described and cancelled, and used by the launches that match.

moto has none, and its resource groups have no members.

AWS (documented, cr-open): EC2 runs instances of a matching type, platform, zone and tenancy in an
open capacity reservation by themselves, and in a targeted one only those that name it. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-using.html

AWS (documented): EC2 answers ReservationCapacityExceeded where a targeted reservation lacks
capacity, and InvalidCapacityReservationState.PendingActivation for a capacity block that isn't
active yet. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html

AWS (reported): The text of ReservationCapacityExceeded is the same for another type and for a
reservation that is used up.
https://github.com/hashicorp/terraform-provider-aws/pull/35745,
https://github.com/scylladb/scylla-cluster-tests/issues/8839
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from terradask_simulator.aws.fidelity.clock import now, parse_time
from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.lookups import index_of
from terradask_simulator.aws.fidelity.pages import filtered, page
from terradask_simulator.aws.fidelity.patching import add, around

__all__ = [
    "ReservedCapacity",
    "free_in",
    "install",
    "reserve",
    "targeting",
]

_EXCEEDED = (
    "The requested reservation does not have sufficient compatible and available capacity for this "
    "request."
)
_PLATFORM, _TENANCY = "Linux/UNIX", "default"
_KIND = "AWS::EC2::CapacityReservation"
_POOL = "AWS::EC2::CapacityReservationPool"
_ONLY, _NONE = "capacity-reservations-only", "none"
_LARGEST_PAGE = 1000

#: The specification of the current request, or of its Auto Scaling group.
_SPECIFICATION: ContextVar[Mapping[str, Any] | None] = ContextVar("specification", default=None)


@contextmanager
def targeting(specification: Mapping[str, Any] | None) -> Iterator[None]:
    """Launch with a request's or a group's specification, before the template's."""
    token = _SPECIFICATION.set(specification)
    try:
        yield
    finally:
        _SPECIFICATION.reset(token)


class ReservedCapacity:
    """One capacity reservation, whose state follows from the time."""

    def __init__(
        self,
        backend: Any,
        *,
        instance_type: str,
        zone: str,
        count: int,
        platform: str = _PLATFORM,
        tenancy: str = _TENANCY,
        criteria: str = "open",
        begins: datetime.datetime | None = None,
        ends: datetime.datetime | None = None,
        kind: str = "default",
    ) -> None:
        self.id = f"cr-{uuid.uuid4().hex[:17]}"
        self._backend = backend
        self.instance_type, self.zone, self.count = instance_type, zone, count
        self.platform, self.tenancy, self.criteria, self.kind = platform, tenancy, criteria, kind
        self.begins, self.ends = begins or now(), ends
        self.is_cancelled = False

    @property
    def arn(self) -> str:
        """Its ARN."""
        backend = self._backend
        return (
            f"arn:{backend.partition}:ec2:{backend.region_name}:{backend.account_id}:"
            f"capacity-reservation/{self.id}"
        )

    @property
    def state(self) -> str:
        """Its state now."""
        if self.is_cancelled:
            return "cancelled"
        if self.ends is not None and now() >= self.ends:
            return "expired"
        return "active" if now() >= self.begins else "scheduled"

    @property
    def free(self) -> int:
        """How many instances it has capacity for."""
        used = sum(
            getattr(one, "_embedded_reservation", None) == self.id
            for one in index_of(self._backend).values()
            if one.state != "terminated"
        )
        return max(self.count - used, 0) if self.state == "active" else 0

    def fits(self, instance_type: str, zone: str) -> bool:
        """Return whether an instance of Linux may run in it."""
        return (self.instance_type, self.zone, self.platform, self.tenancy) == (
            instance_type,
            zone,
            _PLATFORM,
            _TENANCY,
        )

    def shown(self) -> dict[str, Any]:
        """Return it as EC2 describes it."""
        backend = self._backend
        zones = {one.name: one.zone_id for one in backend.describe_availability_zones()}
        return {
            "CapacityReservationId": self.id,
            "OwnerId": backend.account_id,
            "CapacityReservationArn": self.arn,
            "AvailabilityZoneId": zones.get(self.zone),
            "AvailabilityZone": self.zone,
            "InstanceType": self.instance_type,
            "InstancePlatform": self.platform,
            "Tenancy": self.tenancy,
            "TotalInstanceCount": self.count,
            "AvailableInstanceCount": self.free,
            "EbsOptimized": False,
            "EphemeralStorage": False,
            "State": self.state,
            "StartDate": self.begins,
            "CreateDate": self.begins,
            **({"EndDate": self.ends} if self.ends else {}),
            "EndDateType": "limited" if self.ends else "unlimited",
            "InstanceMatchCriteria": self.criteria,
            "ReservationType": self.kind,
            "Tags": [
                {"Key": key, "Value": value} for key, value in backend.tags.get(self.id, {}).items()
            ],
        }


def reservations_of(backend: Any) -> dict[str, ReservedCapacity]:
    """Return a region's reservations by id."""
    return backend.__dict__.setdefault("embedded_reservations", {})


# ---- launches ------------------------------------------------------------------------------------


def reserve(
    backend: Any, data: Mapping[str, Any], pool: tuple[str, str, str], count: int
) -> list[str]:
    """Return the reservations of the first instances of a launch; the others run on demand. Raises
    EC2's error if the launch needs one and can't have it.

    A pool is a type, a zone and a market.
    """
    instance_type, zone, market = pool
    preference, targets = _wanted(backend, data)
    if market == "spot" or preference == _NONE:
        return []
    fitting = [one for one in targets if one.fits(instance_type, zone)]
    if preference != _ONLY:
        # A preference for open ones, or the first choice.
        return _slots(fitting)[:count]
    is_block = market == "capacity-block"
    if is_block and any(one.state == "scheduled" for one in targets):
        raise ec2_error(
            "InvalidCapacityReservationState.PendingActivation",
            "Your Capacity Block is not active yet.",
        )
    slots = _slots([one for one in fitting if (one.kind == "capacity-block") == is_block])
    if len(slots) < count:
        raise ec2_error("ReservationCapacityExceeded", _EXCEEDED)
    return slots[:count]


def free_in(backend: Any, specification: Mapping[str, Any], instance_type: str, zone: str) -> int:
    """Return the capacity of reservations that a group would use."""
    with targeting(specification):
        _, targets = _wanted(backend, {})
    return len(_slots([one for one in targets if one.fits(instance_type, zone)]))


def _slots(reservations: list[ReservedCapacity]) -> list[str]:
    return [one.id for one in reservations for _ in range(one.free)]


def _wanted(backend: Any, data: Mapping[str, Any]) -> tuple[str, list[ReservedCapacity]]:
    """Return how a launch wants reservations, and those that it may use."""
    given = _SPECIFICATION.get() or {}
    if given.get("CapacityReservationPreference", "default") == "default" and not given.get(
        "CapacityReservationTarget"
    ):
        given = data.get("CapacityReservationSpecification") or {}
    target = given.get("CapacityReservationTarget") or {}
    preference = given.get("CapacityReservationPreference") or (_ONLY if target else "open")
    if not target:
        ready = reservations_of(backend).values()
        return preference, [one for one in ready if one.criteria == "open"]
    ids = [*target.get("CapacityReservationIds", [])]
    groups = [*target.get("CapacityReservationResourceGroupArns", [])]
    ids += [target[key] for key in ("CapacityReservationId",) if target.get(key)]
    groups += [target[key] for key in ("CapacityReservationResourceGroupArn",) if target.get(key)]
    return preference, [
        *(_existing(backend, one) for one in ids),
        *(one for group in groups for one in _members(backend, group)),
    ]


def _members(backend: Any, group: str) -> list[ReservedCapacity]:
    from moto.resourcegroups.models import resourcegroups_backends

    found = resourcegroups_backends[backend.account_id][backend.region_name].get_group(group)
    arns = getattr(found, "_embedded_members", [])
    return [one for one in reservations_of(backend).values() if one.arn in arns]


def _existing(backend: Any, identity: str) -> ReservedCapacity:
    found = reservations_of(backend).get(identity)
    if found is None:
        raise ec2_error(
            "InvalidCapacityReservationId.NotFound",
            f"The capacity reservation ID '{identity}' does not exist",
        )
    return found


# ---- calls ---------------------------------------------------------------------------------------


def install() -> None:
    """Add reservations to moto's EC2, and members to its resource groups."""
    from moto.ec2.responses import EC2Response
    from moto.ec2.responses.instances import InstanceResponse
    from moto.resourcegroups import urls
    from moto.resourcegroups.responses import ResourceGroupsResponse

    add(
        EC2Response,
        create_capacity_reservation,
        describe_capacity_reservations,
        cancel_capacity_reservation,
        describe_capacity_block_offerings,
        purchase_capacity_block,
    )
    add(ResourceGroupsResponse, group_resources, list_group_resources)
    for path in ("group-resources", "list-group-resources"):
        urls.url_paths[f"{{0}}/{path}$"] = ResourceGroupsResponse.dispatch

    @around(InstanceResponse, "run_instances")
    def run_instances(run: Any, response: Any) -> Any:
        with targeting(response._get_param("CapacityReservationSpecification", {})):
            return run(response)


def create_capacity_reservation(response: Any) -> dict[str, Any]:
    """Answer CreateCapacityReservation."""
    from moto.ec2.utils import add_tag_specification

    backend = response.ec2_backend
    zone = response._get_param("AvailabilityZone")
    if not zone:
        raise ec2_error(
            "MissingParameter", "The request must contain the parameter availabilityZone"
        )
    made = ReservedCapacity(
        backend,
        instance_type=response._get_param("InstanceType"),
        zone=zone,
        count=int(response._get_param("InstanceCount")),
        platform=response._get_param("InstancePlatform"),
        tenancy=response._get_param("Tenancy") or _TENANCY,
        criteria=response._get_param("InstanceMatchCriteria") or "open",
        ends=parse_time(response._get_param("EndDate")),
    )
    reservations_of(backend)[made.id] = made
    backend.create_tags(
        [made.id], add_tag_specification(response._get_param("TagSpecifications", []))
    )
    return {"CapacityReservation": made.shown()}


def describe_capacity_reservations(response: Any) -> dict[str, Any]:
    """Answer DescribeCapacityReservations."""
    backend = response.ec2_backend
    ids = response._get_param("CapacityReservationIds", [])
    found = [_existing(backend, one) for one in ids] or [*reservations_of(backend).values()]
    shown = filtered([one.shown() for one in found], response)
    return page("CapacityReservations", shown, response, smallest=1, most=_LARGEST_PAGE)


def cancel_capacity_reservation(response: Any) -> dict[str, Any]:
    """Answer CancelCapacityReservation. Its instances run on, on demand."""
    backend = response.ec2_backend
    cancelled = _existing(backend, response._get_param("CapacityReservationId"))
    cancelled.is_cancelled = True
    for one in index_of(backend).values():
        if getattr(one, "_embedded_reservation", None) == cancelled.id:
            one._embedded_reservation = None
    return {"Return": True}


def describe_capacity_block_offerings(response: Any) -> dict[str, Any]:
    """Answer DescribeCapacityBlockOfferings: one, in the first zone, of the times that are asked
    for.
    """
    backend = response.ec2_backend
    begins = parse_time(response._get_param("StartDateRange")) or now()
    hours = int(response._get_param("CapacityDurationHours"))
    offering = {
        "CapacityBlockOfferingId": f"cb-{uuid.uuid4().hex[:17]}",
        "InstanceType": response._get_param("InstanceType"),
        "InstanceCount": int(response._get_param("InstanceCount") or 1),
        "AvailabilityZone": backend.describe_availability_zones()[0].name,
        "StartDate": begins,
        "EndDate": begins + datetime.timedelta(hours=hours),
        "CapacityBlockDurationHours": hours,
        "UpfrontFee": "1.0",
        "CurrencyCode": "USD",
        "Tenancy": _TENANCY,
    }
    _offered(backend)[offering["CapacityBlockOfferingId"]] = offering
    return {"CapacityBlockOfferings": [offering]}


def _offered(backend: Any) -> dict[str, dict[str, Any]]:
    return backend.__dict__.setdefault("embedded_blocks", {})


def purchase_capacity_block(response: Any) -> dict[str, Any]:
    """Answer PurchaseCapacityBlock."""
    backend = response.ec2_backend
    offering = _offered(backend).pop(response._get_param("CapacityBlockOfferingId"), None)
    if offering is None:
        raise ec2_error(
            "InvalidCapacityBlockOfferingIdNotFound",
            "The Capacity Block offering ID cannot be found for this account.",
        )
    made = ReservedCapacity(
        backend,
        instance_type=offering["InstanceType"],
        zone=offering["AvailabilityZone"],
        count=offering["InstanceCount"],
        platform=response._get_param("InstancePlatform"),
        criteria="targeted",
        begins=offering["StartDate"],
        ends=offering["EndDate"],
        kind="capacity-block",
    )
    reservations_of(backend)[made.id] = made
    return {"CapacityReservation": made.shown()}


def group_resources(response: Any) -> str:
    """Answer GroupResources, for groups of reservations."""
    from moto.resourcegroups.exceptions import BadRequestException

    group = response.resourcegroups_backend.get_group(response._get_param("Group"))
    if not any(one["Type"] == _POOL for one in group.configuration or []):
        raise BadRequestException(f"The group is not of type {_POOL}")
    members = [*getattr(group, "_embedded_members", []), *response._get_param("ResourceArns")]
    group._embedded_members = list(dict.fromkeys(members))
    return json.dumps({"Succeeded": members, "Failed": [], "Pending": []})


def list_group_resources(response: Any) -> str:
    """Answer ListGroupResources."""
    group = response.resourcegroups_backend.get_group(response._get_param("Group"))
    identifiers = [
        {"ResourceArn": arn, "ResourceType": _KIND}
        for arn in getattr(group, "_embedded_members", [])
    ]
    return json.dumps(
        {
            "Resources": [{"Identifier": one} for one in identifiers],
            "ResourceIdentifiers": identifiers,
        }
    )
