"""Ingress to schedulers: rules for security groups, and whether a cluster's are within its
network's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from ipaddress import ip_network
from typing import TYPE_CHECKING

from terradask_modules.ingress import (
    Ingress,
    Ports,
    first_closed,
    is_within,
    ports_text,
    shared_scheduler_ports,
)
from terradask_modules.names import LOWEST_PORT
from terradask_stacks.errors import Finding, SettingsError

if TYPE_CHECKING:
    from terradask_stacks.settings import (
        ClusterSettings,
        IngressRule,
        NetworkSettings,
        WorkspaceSettings,
    )


def openings(rules: Iterable[IngressRule]) -> list[Ingress]:
    """Return rules for security groups: one for each range of ports."""
    return [
        Ingress(ports=ports, cidr=rule.cidr, description=rule.description)
        for rule in rules
        for ports in rule.port_ranges
    ]


def ports_for_workers(workspace: WorkspaceSettings, network: NetworkSettings) -> list[Ports]:
    """Return the ports on which workers reach schedulers through the network's own groups: what it
    opens to clients too, where clusters share these groups.
    """
    shared = network.ingress if workspace.isolation == "workspace" else ()
    return shared_scheduler_ports(rule.ports for rule in openings(shared))


def check_ports(
    workspace: WorkspaceSettings, network: NetworkSettings, cluster: ClusterSettings
) -> None:
    """Refuse a scheduler's ports that hosts can't bind, or that aren't opened to workers.

    An isolated cluster's security groups open its own ports. Shared ones open to workers what
    ``network.ingress`` opens to clients, and the usual ports. Raises `SettingsError`.
    """
    shared = workspace.isolation == "workspace"
    opened = ports_for_workers(workspace, network) if shared else [(LOWEST_PORT, 65535)]
    asked = {"scheduler_port": cluster.scheduler_port, "dashboard_port": cluster.dashboard_port}
    sources = cluster.allow_ingress_from or ["YOUR.ADDRESS/32"]
    ports = ", ".join(map(str, asked.values()))
    rule = f'{{ ports = [{ports}], cidr = "{sources[0]}" }}'
    findings = [
        Finding(
            where=f"cluster.{name}",
            problem=f"hosts open no port below {LOWEST_PORT} to Dask"
            if port < LOWEST_PORT
            else "the network doesn't open this port to workers",
            given=port,
            allowed=", ".join(map(ports_text, opened)),
            advice=f"choose a port from {LOWEST_PORT} on, such as 443 where firewalls let others "
            "out to none"
            if port < LOWEST_PORT
            else f"add {rule} to network.ingress, which opens them to workers too, and run: "
            "terradask apply network",
        )
        for name, port in asked.items()
        if first_closed((port, port), opened) is not None
    ]
    if findings:
        raise SettingsError(findings)


def uncovered(wanted: Iterable[IngressRule], allowed: Sequence[IngressRule]) -> list[str]:
    """Return what rules open that others don't, as ``8786-8787 from 203.0.113.0/24``: those for the
    same block, or for blocks that contain it, are combined.
    """
    missing = []
    for opening in openings(wanted):
        block = ip_network(opening.cidr)
        around = [
            other.ports for other in openings(allowed) if is_within(block, ip_network(other.cidr))
        ]
        first = first_closed(opening.ports, around)
        if first is not None:
            missing.append(str(replace(opening, ports=(first, opening.ports[1]))))
    return missing


def check_ingress(
    workspace: WorkspaceSettings, network: NetworkSettings, cluster: ClusterSettings
) -> None:
    """Refuse a cluster's own rules that allow the whole internet, or more than a network that all
    clusters share: isolated ones have security groups, and rules, of their own.

    Raises `SettingsError`, naming what is missing.
    """
    own = "ingress" if cluster.allow_ingress_from is None else "allow_ingress_from"
    _check_rules(f"cluster.{own}", cluster.own_ingress or (), workspace, network)
    _check_rules("cluster.allow_ssh", cluster.ssh_ingress, workspace, network)


def _check_rules(
    where: str,
    rules: Sequence[IngressRule],
    workspace: WorkspaceSettings,
    network: NetworkSettings,
) -> None:
    anywhere = [rule.cidr for rule in rules if rule.is_anywhere]
    if anywhere and not network.allow_ingress_from_anywhere:
        raise SettingsError.of(
            where=where,
            problem=(
                "this is the whole internet, and the network does not allow clusters "
                "to open themselves to it"
            ),
            given=anywhere[0],
            allowed="the addresses that your clients come from, such as 203.0.113.7/32",
            advice="name the address of your office, VPN or machine: Dask runs any code that a "
            "client sends. If you really want this: network.allow_ingress_from_anywhere = true, "
            "and terradask apply network",
        )
    missing = uncovered(rules, network.ingress) if workspace.isolation == "workspace" else []
    if not missing:
        return
    raise SettingsError.of(
        where=where,
        problem=("clusters of this workspace share their security groups, which don't allow this"),
        given=", ".join(missing),
        allowed=", ".join(map(str, openings(network.ingress))) or "nothing",
        advice="add it to network.ingress, which admits it to every cluster, and run: terradask "
        "apply network; or give clusters security groups of their own: workspace.isolation = "
        '"cluster"; or reach schedulers with no inbound rule: cluster.connect = "ssm", with '
        "network.session_manager = true",
    )


def check_dashboard_https(
    workspace: WorkspaceSettings,
    allowed: Sequence[IngressRule],
    cluster: ClusterSettings,
    *,
    given: bool,
) -> None:
    """Refuse a dashboard over HTTPS that no rule admits browsers to, of the cluster or of the
    network (`allowed`); if the security groups are given, their owner's rules apply.

    Raises `SettingsError`.
    """
    if not cluster.use_dashboard_https or given:
        return
    section = (
        "network"
        if workspace.isolation == "workspace" or cluster.own_ingress is None
        else "cluster"
    )
    rules = allowed if section == "network" else cluster.own_ingress or ()
    port = cluster.dashboard_https_port
    if any(first <= port <= last for first, last in (one.ports for one in openings(rules))):
        return
    raise SettingsError.of(
        where="cluster.use_dashboard_https",
        problem=f"no rule of {section}.ingress admits the port of the dashboard over HTTPS",
        given=f"cluster.dashboard_https_port = {port}",
        allowed=", ".join(map(str, openings(rules))) or "nothing",
        advice=(f'add {{ ports = [{port}], cidr = "THEIR.ADDRESSES/24" }} to {section}.ingress')
        + (" and run: terradask apply network" if section == "network" else ""),
    )
