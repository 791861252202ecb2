"""Check settings together when they are used: a network alone may pass while clusters
on it don't.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask_modules.cidr import AWS_RESERVED_ADDRESSES, usable_addresses
from terradask_stacks.errors import SettingsError

if TYPE_CHECKING:
    from terradask_stacks.lock import NetworkLock
    from terradask_stacks.settings import ClusterSettings, NetworkSettings

#: The services that a host calls, except S3, which always has a gateway endpoint.
HOST_SERVICES = ("secretsmanager", "autoscaling", "ec2", "logs", "sts")
#: AWS (documented): Session Manager's agent calls ssm and ssmmessages, before 3.3.40.0 ec2messages.
#: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-privatelink.html,
#: https://docs.aws.amazon.com/systems-manager/latest/userguide/systems-manager-setting-up-messageAPIs.html
SESSION_SERVICES = ("ssm", "ssmmessages")


def services_called(network: NetworkSettings) -> tuple[str, ...]:
    """Return the services that hosts of a network call, except S3."""
    session = SESSION_SERVICES if network.session_manager else ()
    notice = ("sns",) if network.notifies else ()
    return (*HOST_SERVICES, *session, *notice)


def check_egress(network: NetworkSettings) -> None:
    """Refuse clusters on a network without access to AWS services: ``nat = "none"`` is legal for a
    network, but its clusters need interface endpoints for every service that hosts call, or hosts
    with public addresses. A given VPC's routes are checked when the network is planned.

    Raises `SettingsError`, naming the endpoints that are missing.
    """
    services = services_called(network)
    missing = [service for service in services if service not in network.interface_endpoints]
    private = [
        hosts
        for hosts, public in (
            ("workers", network.public_workers),
            ("schedulers", network.public_schedulers),
        )
        if not public
    ]
    if network.vpc_id is not None or network.nat != "none" or not private or not missing:
        return
    public_settings = " and ".join(f"network.public_{hosts}" for hosts in private)
    raise SettingsError.of(
        where="network.nat",
        problem=(
            f"{' and '.join(private)} could reach no AWS service: there is no NAT "
            "gateway and no interface endpoint for "
        )
        + ", ".join(missing),
        given=network.nat,
        allowed=(
            "'single', 'per_zone', or 'none' with all of network.interface_endpoints "
            f"or with {public_settings}"
        ),
        advice='set network.nat = "single", or network.interface_endpoints = ['
        + ", ".join(f'"{service}"' for service in services)
        + f"], or {public_settings} = true; then terradask apply network",
    )


def check_secrets_reachable(
    network: NetworkSettings, cluster: ClusterSettings, region: str
) -> None:
    """Refuse secrets that hosts without internet access can't read: interface endpoints lead to the
    services of their own region that they are made for.

    Raises `SettingsError`.
    """
    public = network.public_workers and network.public_schedulers
    if network.vpc_id is not None or network.nat != "none" or public:
        return
    for name, arn in cluster.references.items():
        _, _, service, of_region = arn.split(":")[:4]
        if of_region == region and service in network.interface_endpoints:
            continue
        here = of_region == region
        raise SettingsError.of(
            where=f"cluster.{name}",
            problem=(
                f"hosts could not read it: they have no way to {service} in {of_region}, without "
                "a NAT gateway" + (" and an interface endpoint for it" if here else "")
            ),
            given=arn,
            allowed=f"secrets of {region}, with the interface endpoints of their services",
            advice=(
                f'add "{service}" to network.interface_endpoints'
                if here
                else f"copy the secret to {region} (aws secretsmanager replicate-secret-to-regions)"
            )
            + ', or set network.nat = "single"; then terradask apply network',
        )


def check_reachable(network: NetworkSettings, cluster: ClusterSettings) -> None:
    """Refuse clusters whose clients' route to the scheduler doesn't exist in the network.

    Raises `SettingsError`.
    """
    if cluster.way == "public" and not network.public_schedulers:
        setting = "connect" if cluster.connect is not None else "use_scheduler_public_ip"
        raise SettingsError.of(
            where=f"cluster.{setting}",
            problem=(
                "schedulers of this network have only private addresses "
                "(network.public_schedulers = false)"
            ),
            given=cluster.connect or True,
            allowed='connect = "private"' + (' or "ssm"' if network.session_manager else ""),
            advice='set cluster.connect = "private" (the same as use_scheduler_public_ip = false), '
            "and run clients where they can reach the VPC: inside it, or through a VPN or peering; "
            'or "ssm", with network.session_manager = true',
        )
    if cluster.way == "ssm" and not network.session_manager:
        raise no_sessions()


def no_sessions() -> SettingsError:
    """Return the error of ``connect = "ssm"`` on a network without it."""
    return SettingsError.of(
        where="cluster.connect",
        problem=(
            "schedulers of this network can't be reached through Session Manager "
            "(network.session_manager = false)"
        ),
        given="ssm",
        allowed='"public" or "private"',
        advice="set network.session_manager = true and run: terradask apply network; then stop and "
        "start running clusters, and attach the policies of `terradask iam` again",
    )


def check_capacity(
    network: NetworkSettings, lock: NetworkLock | None, max_workers: int, *, zones: int = 1
) -> None:
    """Refuse a cluster whose zones, so many, have fewer addresses than the cluster may have workers
    in all groups together. A network whose locked answers have no zones has no room for any.

    Raises `SettingsError`.
    """
    if lock is not None and not lock.zones:
        raise SettingsError.of(
            where="network.zones",
            problem="the network has no zone for a cluster",
            allowed="one zone or more",
        )
    which = "public" if network.public_workers and network.vpc_id is None else "private"
    setting = f"{which}_subnet_prefix_length"
    length: int = getattr(network, setting)
    # In a public subnet a scheduler and a NAT gateway need addresses too; in a private one each
    # endpoint needs one.
    others = (
        2
        if which == "public"
        else len(network.interface_endpoints) + (not network.public_schedulers)
    )
    room = max(usable_addresses(length) - others, 0) * zones
    if max_workers <= room:
        return
    enough = 32 - (-(-max_workers // zones) + others + AWS_RESERVED_ADDRESSES - 1).bit_length()
    whole = "a cluster is in one zone's subnet" if zones == 1 else f"there are {zones} zones"
    if network.vpc_id is not None:
        problem = f"the given subnet for workers is a /{length} and holds {room // zones} of them"
        problem += f", and {whole}" if zones > 1 else ""
        size, remedy = "", f"give a subnet of /{enough} or larger in network.subnets"
    else:
        problem = f"a {which} subnet of /{length} holds {room // zones} workers, and {whole}"
        size = f"with network.{setting} = {length} "
        remedy = f"set network.{setting} to {enough} or less before the network is deployed"
    raise SettingsError.of(
        where="cluster.max_workers",
        problem=problem,
        given=max_workers,
        allowed=f"{room} at most {size}(AWS keeps {AWS_RESERVED_ADDRESSES} addresses)",
        advice=f"lower max_workers, or {remedy}",
    )
