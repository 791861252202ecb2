"""An account's network as one document for hosts: interfaces, security groups, names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from terradask_simulator.aws.backend import STATE_LOCK, ec2_backends, every_account

__all__ = ["network_table", "rules_of"]


def network_table() -> dict[str, Any]:
    """Return the account's network, as `terradask_security_groups.Network` reads it.

    Returns
    -------
    dict
        ``interfaces``: VPC and groups of each private address. ``public``: public addresses.
        ``blocks``: those of VPCs. ``groups``: rules by group, ``in`` and ``out``.
        ``prefix_lists``: blocks by list. ``peerings``: pairs of VPCs. ``endpoints``: addresses of
        interface endpoints. ``gateways``: prefix lists of a VPC's gateway endpoints. ``names``:
        addresses by name in a VPC's private hosted zones.
    """
    with STATE_LOCK:
        backends = list(ec2_backends())
        interfaces = [one for backend in backends for one in backend.enis.values()]
        endpoints = {
            backend.enis[interface].private_ip_address: [one.vpc_id, one.security_group_ids]
            for backend in backends
            for one in backend.vpc_end_points.values()
            for interface in one.network_interface_ids
            if one.state != "deleted"
        }
        return {
            "interfaces": {
                address: [one.subnet.vpc_id, [group.id for group in one.group_set]]
                for one in interfaces
                for address in (one.private_ip_address, *one.ipv6_addresses)
            }
            | endpoints,
            "public": [one.public_ip for one in interfaces if one.public_ip],
            "blocks": [
                each["cidr_block"]
                for backend in backends
                for vpc in backend.vpcs.values()
                for each in vpc.get_cidr_block_association_set()
            ],
            "groups": {
                group.id: {
                    "in": rules_of(group.ingress_rules),
                    "out": rules_of(group.egress_rules),
                }
                for backend in backends
                for groups in backend.groups.values()
                for group in groups.values()
            },
            "prefix_lists": {
                one.id: [entry["Cidr"] for entry in one.entries.get(one.version) or ()]
                for backend in backends
                for one in backend.managed_prefix_lists.values()
            },
            "peerings": [
                sorted((one.vpc.id, one.peer_vpc.id))
                for backend in backends
                for one in backend.vpc_pcxs.values()
                if one._status.code == "active"
            ],
            "endpoints": list(endpoints),
            "gateways": _gateways(backends),
            "names": _names(),
        }


def rules_of(rules: list[Any]) -> list[list[Any]]:
    """Return moto's rules of a group, as `terradask_security_groups.is_covered` reads them."""
    return [
        [
            rule.ip_protocol,
            rule.from_port,
            rule.to_port,
            rule.cidr_ipv4
            or rule.cidr_ipv6
            or rule.source_group.get("GroupId")
            or rule.prefix_list_id,
        ]
        for rule in rules
    ]


def _gateways(backends: list[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for backend in backends:
        for one in backend.vpc_end_points.values():
            if one.state != "deleted" and one.destination_prefix_list_id:
                found.setdefault(one.vpc_id, []).append(one.destination_prefix_list_id)
    return found


def _names() -> dict[str, dict[str, str]]:
    from moto.route53.models import route53_backends

    found: dict[str, dict[str, str]] = {}
    zones = (zone for one in every_account(route53_backends) for zone in one.zones.values())
    for zone in zones:
        if zone.private_zone:
            for vpc in zone.vpcs:
                found.setdefault(vpc["vpc_id"], {}).update(_records(zone))
    return found


def _records(zone: Any) -> Iterator[tuple[str, str]]:
    for one in zone.rrsets:
        if one.type == "A" and one.records:
            yield one.name.rstrip(".").lower(), one.records[0]
