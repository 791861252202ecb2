"""AWS's side of interface endpoints: what a service is called there, and which zones have it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from terradask._aws.listing import listed
from terradask.errors import AccessDenied, InvalidInput
from terradask_stacks.errors import LockError
from terradask_stacks.lock import LOCK_NAME, EndpointService

if TYPE_CHECKING:
    from terradask._aws.session import Aws


def find_endpoint_services(aws: Aws, services: Collection[str]) -> dict[str, EndpointService]:
    """Look services up, such as ``logs``; what the caller may not see is left out.

    Raises `InvalidInput`.

    Permission needed: ``ec2:DescribeVpcEndpointServices``.
    """
    client, interface = aws.client("ec2"), [{"Name": "service-type", "Values": ["Interface"]}]
    method, key = "describe_vpc_endpoint_services", "ServiceDetails"
    try:
        details = list(listed(client, method, key, Filters=interface))
    except AccessDenied:
        return {}
    found: dict[str, EndpointService] = {}
    for detail in details:
        service = _aws_service(detail["ServiceName"], aws.region)
        if service is not None and service in services:
            zones = sorted(detail["AvailabilityZones"])
            found[service] = EndpointService(name=detail["ServiceName"], zones=zones)
    missing = sorted(set(services) - found.keys())
    if missing:
        raise InvalidInput(
            f"{aws.region} has no interface endpoint for some services",
            given=", ".join(missing),
            advice="leave them out of network.interface_endpoints, and give hosts a way out by "
            "network.nat",
        )
    return found


def _aws_service(name: str, region: str) -> str | None:
    """Return which of AWS's services an endpoint's name is of; None for others' services."""
    before, _, service = name.rpartition(f".{region}.")
    # In China many begin with cn.com.amazonaws, and some of others' end alike.
    return service if before.endswith("amazonaws") else None


def check_names(services: Mapping[str, EndpointService], region: str) -> None:
    """Refuse locked services that aren't AWS's own of their names: hosts would send theirs what is
    for AWS. Raises `LockError`.
    """
    for service, known in services.items():
        if _aws_service(known.name, region) != service:
            raise LockError(
                f"{LOCK_NAME} has an endpoint service for {service} that isn't AWS's",
                given=known.name,
                allowed=f"com.amazonaws.{region}.{service}",
                advice=f"find out who put it there (git log {LOCK_NAME}); terradask plan network "
                "--refresh looks it up again",
            )


def check_zones(services: Mapping[str, EndpointService], zones: Collection[str]) -> None:
    """Refuse a network in none of whose zones a service is. Raises `InvalidInput`."""
    for service, known in services.items():
        if not set(known.zones) & set(zones):
            raise InvalidInput(
                f"no zone of the network can have an endpoint for {service}",
                given=f"network.zones: {', '.join(sorted(zones))}",
                allowed=", ".join(known.zones),
                advice="add one of these to network.zones, or leave the service out of "
                "network.interface_endpoints",
            )
