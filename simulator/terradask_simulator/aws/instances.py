"""Snapshots of instances in moto's backend, for the other parts of the daemon."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from terradask_simulator.aws.backend import STATE_LOCK, account_in, ec2_backends
from terradask_simulator.aws.fidelity.lookups import index_of
from terradask_simulator.aws.fidelity.slow_instances import booted
from terradask_simulator.aws.security_groups.on_hosts.terradask_security_groups import is_covered
from terradask_simulator.aws.security_groups.table import rules_of

__all__ = [
    "InstanceView",
    "admits",
    "booted_instances",
    "end_instance",
    "find_instance",
    "loopback_of",
    "role_of",
    "running_ids",
    "view_of",
]

#: Hosts share this machine's 127.0.0.1: each host's own loopback address is this many /16 networks
#: above its private address.
LOOPBACK_OFFSET = 128

#: Maximum number of ports that a public address forwards; the listeners can't cover a rule for all
#: ports.
MAX_PORTS = 64


@dataclass(frozen=True)
class InstanceView:
    """A snapshot of an instance, with its decoded user data and the TCP ports of its security
    groups.
    """

    instance_id: str
    region: str
    state: str
    instance_type: str
    private_address: str
    public_address: str | None
    user_data: bytes = field(repr=False)
    ports: tuple[int, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)
    volume_ids: tuple[str, ...] = ()


def view_of(instance: Any) -> InstanceView:
    """Return the view of one of moto's instances."""
    backend = instance.ec2_backend
    return InstanceView(
        instance_id=instance.id,
        region=backend.region_name,
        state=instance.state,
        instance_type=instance.instance_type,
        private_address=instance.private_ip_address or "",
        public_address=instance.public_ip_address,
        user_data=_user_data(instance),
        ports=_ports(instance),
        tags=dict(backend.tags.get(instance.id, {})),
        volume_ids=tuple(each.volume_id for each in instance.block_device_mapping.values()),
    )


def loopback_of(private_address: str) -> str:
    """Return the address that represents a host's loopback, by its private address."""
    first, second, rest = private_address.split(".", 2)
    return f"{first}.{int(second) + LOOPBACK_OFFSET}.{rest}"


def booted_instances() -> list[InstanceView]:
    """Return the running instances whose boot time has passed."""
    with STATE_LOCK:
        return [
            view_of(instance)
            for backend in ec2_backends()
            for instance in backend.all_running_instances()
            if booted(instance)
        ]


def running_ids() -> list[str]:
    """Return the ids of every running instance."""
    with STATE_LOCK:
        return [
            instance.id
            for backend in ec2_backends()
            for instance in backend.all_running_instances()
        ]


def find_instance(instance_id: str) -> Any | None:
    """Return moto's instance with an id, or None; call it with the lock held."""
    for backend in ec2_backends():
        instance = index_of(backend).get(instance_id)
        if instance is not None:
            return instance
    return None


def end_instance(instance_id: str, *, vanished: bool = False) -> None:
    """End an instance as powering off does; `vanished`: its machine failed, so it is terminated
    regardless of its shutdown behaviour.
    """
    from moto.ec2.models.instances import StateReason

    with STATE_LOCK:
        instance = find_instance(instance_id)
        if instance is None or not instance.is_running():
            return
        if vanished or instance.instance_initiated_shutdown_behavior == "terminate":
            instance.ec2_backend.terminate_instances([instance_id])
        else:
            instance.ec2_backend.stop_instances([instance_id])
        code = "Server.InternalError" if vanished else "Client.InstanceInitiatedShutdown"
        text = "The machine failed" if vanished else "Instance initiated shutdown"
        instance.state_reason = StateReason(f"{code}: {text}", code)


def admits(instance_id: str, port: int, peer: str) -> bool:
    """Return whether an instance's security groups let a peer reach a TCP port."""
    with STATE_LOCK:
        instance = find_instance(instance_id)
        if instance is None or not instance.is_running():
            return False
        return is_covered(rules_of(_ingress_rules(instance)), "tcp", port, address=peer)


def role_of(instance: Any) -> Any | None:
    """Return moto's role behind an instance's profile, or None; call it with the lock held."""
    from moto.iam.models import iam_backends

    profile = instance.iam_instance_profile
    if not profile:
        return None
    found = iam_backends[account_in(profile["Arn"])]["aws"].get_instance_profile_by_arn(
        profile["Arn"]
    )
    return found.roles[0] if found is not None and found.roles else None


def _user_data(instance: Any) -> bytes:
    # A thousand instances may share the text: decode it once.
    cached: bytes | None = instance.__dict__.get("_embedded_user_data")
    if cached is None:
        cached = base64.b64decode(str(instance.user_data)) if instance.user_data else b""
        instance._embedded_user_data = cached
    return cached


def _ingress_rules(instance: Any) -> list[Any]:
    groups = {group.id: group for group in instance.security_groups}
    for interface in instance.nics.values():
        groups.update({group.id: group for group in interface.group_set})
    return [rule for group in groups.values() for rule in group.ingress_rules]


def _ports(instance: Any) -> tuple[int, ...]:
    if not instance.public_ip_address:
        return ()
    ports: set[int] = set()
    for rule in _ingress_rules(instance):
        if rule.ip_protocol == "tcp" and rule.to_port - rule.from_port < MAX_PORTS:
            ports.update(range(rule.from_port, rule.to_port + 1))
    return tuple(sorted(port for port in ports if port > 0)[:MAX_PORTS])
