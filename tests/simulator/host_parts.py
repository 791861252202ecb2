"""What hosts consist of beside the instance: volumes and network interfaces, with their tags."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from terradask_simulator import Simulator

from ..waiting import eventually


@dataclass(frozen=True)
class Parts:
    """An instance's tags that are not AWS's, and those of its volumes and interfaces by id."""

    instance_id: str
    tags: dict[str, str]
    parts: dict[str, dict[str, str]]

    def as_the_instance(self) -> bool:
        """Return whether each part has the instance's tags, and there are both kinds."""
        kinds = {part.partition("-")[0] for part in self.parts}
        return kinds == {"vol", "eni"} and all(tags == self.tags for tags in self.parts.values())


def parts_of(ec2: Any, workspace: str, cluster: str) -> list[Parts]:
    """Return a cluster's instances with their parts."""
    owner = {"workspace": workspace, "cluster": cluster}
    found = ec2.describe_instances(
        Filters=[
            *({"Name": f"tag:terradask:{k}", "Values": [v]} for k, v in owner.items()),
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
    )
    instances = [one for row in found["Reservations"] for one in row["Instances"]]
    return [Parts(one["InstanceId"], _tags(one["Tags"]), _parts(ec2, one)) for one in instances]


def wait_for_tags(ec2: Any, workspace: str, cluster: str, number: int) -> list[Parts]:
    """Return a cluster's parts once so many hosts have tagged them all."""

    def tagged() -> list[Parts] | None:
        hosts = parts_of(ec2, workspace, cluster)
        return hosts if len(hosts) == number and all(h.as_the_instance() for h in hosts) else None

    return eventually(tagged, explain=lambda: repr(parts_of(ec2, workspace, cluster)))  # type: ignore[no-any-return]


def whose(workspace: str, cluster: str) -> list[dict[str, str]]:
    """Return the tags that say whose a part is."""
    tags = {"workspace": workspace, "cluster": cluster, "group": "workers"}
    return [{"Key": f"terradask:{key}", "Value": value} for key, value in tags.items()]


def make_interface(
    sim: Simulator, ec2: Any, shared: dict[str, Any], stack: contextlib.ExitStack, name: str
) -> tuple[str, str]:
    """Make a database's security group, and an interface with it beside workers of the shared
    network; return the group and the address. The stack deletes them.
    """
    group = ec2.create_security_group(
        GroupName="orders", Description="orders database", VpcId=shared["vpc_id"]
    )["GroupId"]
    stack.callback(ec2.delete_security_group, GroupId=group)
    subnet = shared["zones"]["us-east-1a"]["private_subnet_id"]
    address = sim.add_interface(subnet, [group], name=name)
    filters = [{"Name": "group-id", "Values": [group]}]
    (made,) = ec2.describe_network_interfaces(Filters=filters)["NetworkInterfaces"]
    stack.callback(ec2.delete_network_interface, NetworkInterfaceId=made["NetworkInterfaceId"])
    return group, address


def make_volume(ec2: Any, stack: contextlib.ExitStack, tags: list[dict[str, str]]) -> str:
    """Make a volume with tags, as a launch would; the stack deletes it."""
    wanted = [{"ResourceType": "volume", "Tags": tags}] if tags else []
    made = ec2.create_volume(AvailabilityZone="us-east-1a", Size=8, TagSpecifications=wanted)
    stack.callback(ec2.delete_volume, VolumeId=made["VolumeId"])
    return str(made["VolumeId"])


def _parts(ec2: Any, instance: dict[str, Any]) -> dict[str, dict[str, str]]:
    volumes = [device["Ebs"]["VolumeId"] for device in instance["BlockDeviceMappings"]]
    interfaces = [one["NetworkInterfaceId"] for one in instance["NetworkInterfaces"]]
    seen = {
        **{
            one["VolumeId"]: one.get("Tags", [])
            for one in ec2.describe_volumes(VolumeIds=volumes)["Volumes"]
        },
        **{
            one["NetworkInterfaceId"]: one.get("TagSet", [])
            for one in ec2.describe_network_interfaces(NetworkInterfaceIds=interfaces)[
                "NetworkInterfaces"
            ]
        },
    }
    return {name: _tags(tags) for name, tags in seen.items()}


def _tags(rows: list[dict[str, str]]) -> dict[str, str]:
    return {row["Key"]: row["Value"] for row in rows if not row["Key"].startswith("aws:")}
