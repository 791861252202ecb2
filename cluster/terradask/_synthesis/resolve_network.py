"""Resolve the network's zones, and an image for each architecture. The answers are locked and
reused.

Without a lock, a laptop and a CI job would each plan to replace the other's resources, and a new
zone would change a network.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from terradask._aws.endpoints import ENDPOINT_VARIABLE, is_loopback_endpoint
from terradask._aws.listing import listed, listed_zones
from terradask._common.clock import utc_text
from terradask._network.baseline import read_baseline
from terradask._network.task_policies import read_task_policies
from terradask._synthesis.images import check_disks, find_gpu_images, find_image
from terradask.errors import AccessDenied, BaselineError, InvalidInput, StateConflict
from terradask_modules.cidr import slot_count
from terradask_modules.egress import VPC
from terradask_stacks.lock import LOCK_NAME, EndpointService, LimitsLock, NetworkLock, assign_slots

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_modules.iam import Statement
    from terradask_stacks.hardware.architecture import Architecture
    from terradask_stacks.settings import NetworkSettings, Settings


_LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


def resolve_network(
    settings: Settings,
    aws: Aws,
    existing_lock: NetworkLock | None = None,
    *,
    refresh: bool = False,
    check: bool = True,
) -> NetworkLock:
    """Resolve the answers for the network's stack beyond its settings.

    Raises `InvalidInput`, `StateConflict`.

    Permissions needed: ``ec2:DescribeAvailabilityZones``, ``DescribeImages``; ``ssm:GetParameter``
    on AWS's public parameters for images that aren't given; ``ec2:DescribeVpcEndpointServices``
    with interface endpoints; ``ec2:DescribeVpcs`` with a rule to a given VPC's addresses;
    ``iam:GetPolicy``, ``GetPolicyVersion`` on managed policies of tasks. Earlier answers are not
    looked up again, except for images'
    owners, unless `check` is false: a removal needs no images.
    """
    if settings.network.vpc_id is None:
        _check_block(settings.network.cidr)
    with ThreadPoolExecutor(4) as pool:
        caller = pool.submit(lambda: (aws.account_id, aws.partition))
        zones = pool.submit(_network_zones, settings.network, aws, existing_lock, refresh)
        images = {
            architecture: pool.submit(
                find_image,
                architecture,
                settings.network,
                aws,
                existing_lock,
                refresh=refresh,
                check=check,
            )
            for architecture in _architectures(settings.network, existing_lock, refresh)
        }
        blocks = pool.submit(_vpc_blocks, settings.network, aws, existing_lock, check)
        policies = pool.submit(_task_policies, settings, aws, existing_lock, check)
        limits = pool.submit(_limits, settings, aws, existing_lock)
        services = pool.submit(_endpoint_services, settings.network, aws, existing_lock, refresh)
        account, partition = caller.result()
        check_account(account, existing_lock, aws)
        slots = assign_slots(existing_lock.zones if existing_lock else {}, zones.result())
        check_names(services.result(), aws.region)
        check_zones(services.result(), slots)
        found = {architecture: image.result() for architecture, image in images.items()}
        sizes = {name: size for name, (_, size) in found.items() if size is not None}
        check_disks(settings.network, sizes)
        gpu_images = (
            find_gpu_images(
                list(found), settings.network, aws, existing_lock, refresh=refresh, check=check
            )
            if settings.network.gpu_images
            else {}
        )
        return NetworkLock(
            account=account,
            partition=partition,
            zones=slots,
            endpoint_services=services.result(),
            vpc_blocks=blocks.result(),
            task_policies=policies.result(),
            limits=limits.result(),
            image_ids={architecture: image for architecture, (image, _) in found.items()},
            image_sizes_gib=sizes,
            gpu_image_ids={name: image for name, (image, _) in gpu_images.items()},
            gpu_image_sizes_gib={
                name: size for name, (_, size) in gpu_images.items() if size is not None
            },
        )


def _task_policies(
    settings: Settings, aws: Aws, existing: NetworkLock | None, check: bool
) -> dict[str, list[Statement]]:
    """Read what managed policies allow at each plan: their owners change them."""
    if check:
        return read_task_policies(settings, aws)
    return {} if existing is None else existing.task_policies


def _limits(settings: Settings, aws: Aws, existing: NetworkLock | None) -> LimitsLock | None:
    """Return the limits, with who has set them: locked, else deployed, else this caller now."""
    limits = settings.limits.document
    if not limits:
        return None
    locked = None if existing is None else existing.limits
    if locked is not None and locked.limits == limits:
        return locked
    with contextlib.suppress(BaselineError):
        deployed = dict(read_baseline(aws, settings.workspace.where(aws.account_id).bucket).limits)
        by, at = deployed.pop("set_by", None), deployed.pop("set_at", None)
        if deployed == limits and by is not None and at is not None:
            return LimitsLock(limits=limits, set_by=by, set_at=at)
    return LimitsLock(limits=limits, set_by=aws.caller_arn, set_at=utc_text())


def _check_block(cidr: str) -> None:
    block = ipaddress.ip_network(cidr)
    if not (
        isinstance(block, ipaddress.IPv4Network) and block.overlaps(_LOOPBACK)
    ) or is_loopback_endpoint(os.environ):
        return
    raise InvalidInput(
        "network.cidr is in 127.0.0.0/8: such addresses never leave a machine, and no VPC can "
        "have them",
        given=cidr,
        allowed=(
            "a private block such as 10.64.0.0/16; 127.0.0.0/8 only with the embedded AWS "
            f"({ENDPOINT_VARIABLE} on this machine)"
        ),
        advice="run this inside `terradask sim run`, or set network.cidr",
    )


def check_account(account: str, existing: NetworkLock | None, aws: Aws) -> None:
    """Refuse another account than that of the locked answers. Raises `StateConflict`."""
    if existing is None or existing.account == account:
        return
    raise StateConflict(
        "these credentials belong to another AWS account than this workspace",
        given=f"{account} ({aws.caller_arn})",
        allowed=f"{existing.account}, as in terradask.lock.json",
        advice="use the other account's profile (AWS_PROFILE, workspace.profile) or role "
        "(workspace.role_arn); for a workspace in this account, "
        "use a folder of its own (or TERRADASK_STATE_DIR)",
    )


def _network_zones(
    network: NetworkSettings, aws: Aws, existing: NetworkLock | None, refresh: bool
) -> list[str]:
    wanted = network.zone_names
    if existing is not None and existing.zones and not refresh:
        if wanted is None:
            return list(existing.zones)
        if set(wanted) <= set(existing.zones):
            return list(wanted)
    found = listed_zones(aws.client("ec2"))
    if wanted is not None:
        unknown = [zone for zone in wanted if zone not in found]
        if unknown:
            raise InvalidInput(
                f"{aws.region} has no such zone for this account",
                given=", ".join(unknown),
                allowed=", ".join(found),
                advice="correct network.subnets" if network.subnets else "correct network.zones",
            )
        return list(wanted)
    if not found:
        raise InvalidInput(
            f"{aws.region} has no zone for this account",
            given=aws.region,
            advice="choose another region",
        )
    slots = slot_count(
        network.cidr,
        public_prefix_length=network.public_subnet_prefix_length,
        private_prefix_length=network.private_subnet_prefix_length,
    )
    locked = [zone for zone in found if existing is not None and zone in existing.zones]
    preferred_zones = [*locked, *(zone for zone in found if zone not in locked)]
    most = network.most_default_zones or len(preferred_zones)
    return preferred_zones[: min(slots, max(len(locked), most))]


def _endpoint_services(
    network: NetworkSettings, aws: Aws, existing: NetworkLock | None, refresh: bool
) -> dict[str, EndpointService]:
    wanted = network.interface_endpoints if network.vpc_id is None else []
    known = {} if existing is None or refresh else existing.endpoint_services
    if set(wanted) <= known.keys():
        return {service: known[service] for service in wanted}
    return find_endpoint_services(aws, wanted)


def _vpc_blocks(
    network: NetworkSettings, aws: Aws, existing: NetworkLock | None, check: bool
) -> list[str]:
    """Return a given VPC's blocks, if a rule needs them. A VPC may get more at any time, so each
    plan reads them.
    """
    if network.vpc_id is None or all(rule.destination != VPC for rule in network.all_egress):
        return []
    if not check and existing is not None:
        return existing.vpc_blocks
    filters = [{"Name": "vpc-id", "Values": [network.vpc_id]}]
    found = list(listed(aws.client("ec2"), "describe_vpcs", "Vpcs", Filters=filters))
    return sorted(
        block[key]
        for vpc in found
        for listing, key, state in (
            ("CidrBlockAssociationSet", "CidrBlock", "CidrBlockState"),
            ("Ipv6CidrBlockAssociationSet", "Ipv6CidrBlock", "Ipv6CidrBlockState"),
        )
        for block in vpc.get(listing, ())
        if block[state]["State"] == "associated"
    )


def _architectures(
    network: NetworkSettings, existing: NetworkLock | None, refresh: bool
) -> list[Architecture]:
    """Return the hosts' possible architectures: named or locked ones."""
    if network.architectures is not None or existing is None:
        return network.wanted_architectures
    return list(
        dict.fromkeys(
            [*existing.image_ids, *(network.wanted_architectures if refresh else network.images)]
        )
    )


# ---- AWS services of interface endpoints ---------------------------------------------------------


def find_endpoint_services(aws: Aws, services: Collection[str]) -> dict[str, EndpointService]:
    """Look up services such as ``logs``; those that the caller may not see are left out.

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
    """Return the AWS service of an endpoint's name; None for another provider's."""
    before, _, service = name.rpartition(f".{region}.")
    # In China many begin with cn.com.amazonaws, and other providers' names can end alike.
    return service if before.endswith("amazonaws") else None


def check_names(services: Mapping[str, EndpointService], region: str) -> None:
    """Refuse locked services that aren't AWS's own: hosts would send them data for AWS. Raises
    `InvalidInput`.
    """
    for service, known in services.items():
        if _aws_service(known.name, region) != service:
            raise InvalidInput(
                f"{LOCK_NAME} has an endpoint service for {service} that isn't AWS's",
                given=known.name,
                allowed=f"com.amazonaws.{region}.{service}",
                advice=f"find out who put it there (git log {LOCK_NAME}); terradask plan network "
                "--refresh looks it up again",
            )


def check_zones(services: Mapping[str, EndpointService], zones: Collection[str]) -> None:
    """Refuse a network without a zone for a service. Raises `InvalidInput`."""
    for service, known in services.items():
        if not set(known.zones) & set(zones):
            raise InvalidInput(
                f"no zone of the network can have an endpoint for {service}",
                given=f"network.zones: {', '.join(sorted(zones))}",
                allowed=", ".join(known.zones),
                advice="add one of these to network.zones, or leave the service out of "
                "network.interface_endpoints",
            )
