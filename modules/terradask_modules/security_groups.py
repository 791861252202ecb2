"""Security groups and their rules as resources, one for each rule, with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from terradask_modules.aws import (
    Construct,
    SecurityGroup,
    VpcSecurityGroupEgressRule,
    VpcSecurityGroupIngressRule,
    at,
    literal,
)
from terradask_modules.egress import VPC_IPV6, Egress
from terradask_modules.ingress import Ingress, Ports, ports_text
from terradask_modules.names import UNPRIVILEGED

_RULES: Mapping[str, Any] = {
    "in": VpcSecurityGroupIngressRule,
    "out": VpcSecurityGroupEgressRule,
}


class SecurityGroups(Construct):
    """Groups in one VPC; subclasses define their rules."""

    def __init__(self, scope: Construct, *, vpc_id: str, tags: Mapping[str, str]) -> None:
        super().__init__(scope, "firewall")
        self._vpc_id = vpc_id
        self._tags = dict(tags)

    def _group(self, address: str, name: str, description: str) -> str:
        group = SecurityGroup(
            self,
            address,
            name=name,
            description=description,
            vpc_id=self._vpc_id,
            tags={**self._tags, "Name": name},
        )
        at(address, group)
        group_id: str = group.id
        return group_id

    def _admit_dask(
        self, scheduler_id: str, worker_id: str, scheduler_ports: Sequence[Ports]
    ) -> None:
        """Let Dask's schedulers and workers in to each other."""
        for number, ports in enumerate(scheduler_ports):
            self._rule(
                "in",
                f"scheduler-{ports_text(ports)}-from-worker" if number else "scheduler-from-worker",
                scheduler_id,
                ports,
                "Workers join and report to the scheduler",
                group=worker_id,
            )
        # Dask's workers and nannies choose their ports.
        for source, group_id, why in (
            ("scheduler", scheduler_id, "The scheduler gives work to workers"),
            ("worker", worker_id, "Workers fetch results from each other"),
        ):
            self._rule("in", f"worker-from-{source}", worker_id, UNPRIVILEGED, why, group=group_id)

    def _admit_clients(self, name: str, group_id: str, ingress: Sequence[Ingress]) -> None:
        for rule in ingress:
            first, last = rule.ports
            self._rule(
                "in",
                _address(f"{name}-from", rule.cidr, f"{first}-{last}"),
                group_id,
                rule.ports,
                literal(rule.description),
                **({"cidr_ipv6": rule.cidr} if ":" in rule.cidr else {"cidr_ipv4": rule.cidr}),
            )

    def _let_out_to_peers(
        self, scheduler_id: str, worker_id: str, owner: str, scheduler_ports: Sequence[Ports]
    ) -> None:
        """Let Dask's schedulers and workers out to each other, and nowhere else."""
        ids = {"scheduler": scheduler_id, "worker": worker_id}
        for role, peer in (("scheduler", "worker"), ("worker", "scheduler"), ("worker", "worker")):
            why = f"Dask {peer} hosts of the {owner}"
            self._rule("out", f"{role}-to-{peer}", ids[role], UNPRIVILEGED, why, group=ids[peer])
        below = UNPRIVILEGED[0] - 1
        for first, last in scheduler_ports:
            if first <= below:
                ports = (first, min(last, below))
                name = f"worker-{ports_text(ports)}-to-scheduler"
                why = f"Dask scheduler hosts of the {owner}"
                self._rule("out", name, worker_id, ports, why, group=scheduler_id)

    def _let_out(
        self, name: str, group_id: str, rules: Sequence[Egress], blocks: Mapping[str, str]
    ) -> None:
        """Let hosts out by the settings' rules. `blocks` are those that only AWS knows."""
        for rule in rules:
            protocol = "" if rule.protocol == "tcp" else f"{rule.protocol}-"
            first, last = rule.ports
            self._rule(
                "out",
                _address(f"{name}-to", rule.destination, f"{protocol}{first}-{last}"),
                group_id,
                rule.ports,
                literal(rule.reason),
                protocol=rule.protocol,
                **_peer(rule, blocks),
            )

    def _rule(
        self,
        direction: Literal["in", "out"],
        name: str,
        group_id: str,
        ports: Ports | None,
        description: str,
        *,
        protocol: str = "tcp",
        group: str | None = None,
        **peer: str,
    ) -> None:
        """Let connections to or from a `group`, or a peer that is an attribute of rules; without
        `ports`, all.
        """
        span: dict[str, Any] = {"ip_protocol": "-1"}
        if ports is not None:
            span = {"ip_protocol": protocol, "from_port": ports[0], "to_port": ports[1]}
        if group is not None:
            peer["referenced_security_group_id"] = group
        rule = _RULES[direction](
            self,
            f"{direction}-{name}",
            security_group_id=group_id,
            description=description,
            tags=self._tags,
            **span,
            **peer,
        )
        at(name, rule)


def _peer(rule: Egress, blocks: Mapping[str, str]) -> dict[str, str]:
    """Return a destination as the attribute of a rule."""
    if rule.is_group:
        return {"referenced_security_group_id": rule.destination}
    if rule.is_prefix_list:
        return {"prefix_list_id": rule.destination}
    if rule.destination == VPC_IPV6 or rule.is_ipv6:
        return {"cidr_ipv6": blocks.get(rule.destination, rule.destination)}
    return {"cidr_ipv4": rule.destination}


def _address(prefix: str, peer: str, ports: str) -> str:
    """Return an address made from the rule, independent of the order of rules in the settings."""
    plain = "".join(character if character.isalnum() else "_" for character in peer)
    return f"{prefix}-{plain}-{ports}"
