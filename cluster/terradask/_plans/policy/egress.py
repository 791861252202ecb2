"""P2: egress from hosts: to port 443, to their network, and to what the settings name."""

from __future__ import annotations

from collections.abc import Iterator

from terradask._plans.policy.document import PlanDocument
from terradask._plans.policy.findings import PolicyFinding, error, warning
from terradask._plans.policy.openings import Opening, network_of, openings
from terradask_modules.egress import Egress, outside_group
from terradask_modules.ingress import EVERYWHERE, Network, is_within, ports_text

_HTTPS = (443, 443)


def egress_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield rules that allow further egress from hosts."""
    inside = [
        network
        for vpc in document.of("aws_vpc")
        for name in ("cidr_block", "ipv6_cidr_block")
        if (network := network_of(vpc.values.get(name))) is not None
    ]
    for rule in openings(document, "egress"):
        if rule.span == _HTTPS and str(rule.protocol) in ("tcp", "6"):
            continue
        for network in rule.networks:
            if not _is_inside(network, inside, document):
                yield from _judged(document, rule, str(network))
        for value in rule.blocks:
            if network_of(value) is None and document.find(value, "aws_vpc") is None:
                yield _unproven(rule, "a destination that is known only after the apply")
        for value in (*rule.groups, *rule.prefix_lists):
            if isinstance(value, str) and document.find(value, "aws_security_group") is None:
                yield from _judged(document, rule, value)


def _judged(document: PlanDocument, rule: Opening, destination: str) -> Iterator[PolicyFinding]:
    """Yield what is wrong with a rule for a destination that isn't the network's own."""
    asked = document.rules.egress
    is_block = network_of(destination) is not None
    if asked is None and not is_block:
        yield _unproven(rule, f"{destination}, which the settings may name")
    elif not any(_is_asked_for(document, rule, destination, one) for one in asked or ()):
        first, last = rule.span
        ports = str(first) if first == last else f'"{ports_text(rule.span)}"'
        yield error(
            rule.address,
            f"allows egress to {destination} at {rule.ports}, which the settings don't name",
            f"if tasks need it, add to terradask.toml: [[network.egress]], destination = "
            f'"{destination}", ports = [{ports}], and the reason; otherwise remove the rule',
        )
    elif is_block and destination in EVERYWHERE:
        yield warning(
            rule.address,
            f"allows egress to {destination} at {rule.ports}: the whole internet",
            "network.egress asks for it; better: name the addresses that tasks need",
        )


def _is_asked_for(document: PlanDocument, rule: Opening, destination: str, asked: Egress) -> bool:
    """Return whether the settings have this rule, for the hosts that get it."""
    group = document.find(rule.group, "aws_security_group")
    names = {outside_group(cluster) for cluster in asked.clusters}
    return (
        (str(rule.protocol), rule.span) == (asked.protocol, asked.ports)
        and destination == asked.destination
        and document.scope.cluster is None
        and (not names or (group is not None and group.name in names))
    )


def _unproven(rule: Opening, destination: str) -> PolicyFinding:
    return warning(
        rule.address,
        f"allows egress at {rule.ports} to {destination}",
        "check it by hand: it may be more than network.egress names",
    )


def _is_inside(network: Network, vpcs: list[Network], document: PlanDocument) -> bool:
    """Return whether a block lies in the plan's network, or may: no setting is known."""
    if not vpcs:
        return network.is_private and document.rules.egress is None
    return any(is_within(network, vpc) for vpc in vpcs)
