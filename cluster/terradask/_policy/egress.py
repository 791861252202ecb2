"""P2, the other way: hosts reach HTTPS anywhere, the network itself, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from terradask._policy.document import PlanDocument, Resource
from terradask._policy.findings import PolicyFinding
from terradask._policy.openings import Opening, network_of, read_rule
from terradask_modules.iam import listed
from terradask_modules.ingress import Network, is_within

_HTTPS = (443, 443)
_RULES = ("aws_vpc_security_group_egress_rule", "aws_security_group_rule")
_GROUPS = ("aws_security_group", "aws_default_security_group")


def egress_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield rules that let hosts out further (P2)."""
    inside = [
        network
        for vpc in document.of("aws_vpc")
        if (network := network_of(vpc.values.get("cidr_block"))) is not None
    ]
    for resource in document.of(*_RULES, *_GROUPS):
        for rule in _egress_of(resource):
            to_https = rule.span == _HTTPS and str(rule.protocol) in ("tcp", "6")
            if to_https:
                continue
            for network in rule.networks:
                if not _is_inside(network, inside):
                    yield PolicyFinding(
                        "P2",
                        "error",
                        rule.address,
                        f"lets hosts out to {network} at {rule.ports}",
                        "let them out to port 443, and to addresses of the network",
                    )


def _egress_of(resource: Resource) -> list[Opening]:
    values = resource.values
    if resource.type in _GROUPS:
        rules = [each for each in listed(values.get("egress")) if isinstance(each, Mapping)]
    elif resource.type == "aws_security_group_rule" and values.get("type") != "egress":
        rules = []
    else:
        rules = [values]
    return [read_rule(resource.address, None, each) for each in rules]


def _is_inside(network: Network, vpcs: list[Network]) -> bool:
    """Return whether a block lies in the plan's network; in another plan's, if it has none."""
    if not vpcs:
        return network.is_private
    return any(is_within(network, vpc) for vpc in vpcs)
