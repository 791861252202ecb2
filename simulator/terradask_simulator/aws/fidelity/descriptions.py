"""Members of EC2's descriptions that moto leaves out, or that AWS has otherwise.

moto looks for an answer's member under the API's own name before its own: what is set here under
the API's name is only seen in answers.

AWS (recorded): a new VPC is pending. tests/records/data/ec2-networks.json
AWS (documented): a new NAT gateway is pending.
https://github.com/boto/botocore/blob/1.43.117/botocore/data/ec2/2016-11-15/examples-1.json
AWS (recorded): an instance that was terminated has no network, groups, addresses or volumes.
tests/records/data/ec2-instances.json
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["describe", "install"]

_UNMANAGED = {"Managed": False}

#: Constants of moto's classes, by module.
_CONSTANTS: dict[tuple[str, str], dict[str, Any]] = {
    ("subnets", "Subnet"): {
        "EnableDns64": False,
        "MapCustomerOwnedIpOnLaunch": False,
        "BlockPublicAccessStates": {"InternetGatewayBlockMode": "off"},
    },
    ("route_tables", "RouteTable"): {"PropagatingVgws": []},
    ("elastic_ip_addresses", "ElasticAddress"): {"PublicIpv4Pool": "amazon"},
    ("availability_zones_and_regions", "Zone"): {"OptInStatus": "opt-in-not-required"},
    ("elastic_block_store", "Volume"): {"Operator": _UNMANAGED},
    ("instances", "Instance"): {
        "EnaSupport": True,
        "CapacityReservationSpecification": {"CapacityReservationPreference": "open"},
        "HibernationOptions": {"Configured": False},
        "EnclaveOptions": {"Enabled": False},
        "MaintenanceOptions": {"AutoRecovery": "default", "RebootMigration": "default"},
        "NetworkPerformanceOptions": {"BandwidthWeighting": "default"},
        "Operator": _UNMANAGED,
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "SriovNetSupport": None,
    },
    ("elastic_network_interfaces", "NetworkInterface"): {"Operator": _UNMANAGED},
    ("amis", "Ami"): {
        "EnaSupport": True,
        "SriovNetSupport": "simple",
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
    },
}

#: Lists that are left out if they are empty.
_LEFT_OUT = (
    "DescribeAddressesResult.Addresses.ElasticAddress.Tags",
    "DescribeImagesResult.Images.Image.Tags",
    "DescribeLaunchTemplatesResult.LaunchTemplates.LaunchTemplate.Tags",
    "DescribeSecurityGroupsResult.SecurityGroups.SecurityGroup.Tags",
    "DescribeSubnetsResult.Subnets.Subnet.Tags",
    "DescribeVpcsResult.Vpcs.Vpc.Ipv6CidrBlockAssociationSet",
    "DescribeVpcsResult.Vpcs.Vpc.Tags",
    "CreateSubnetResult.Subnet.Tags",
)


def install() -> None:
    """Add what moto's answers lack."""
    from importlib import import_module

    from moto.core.serialize import return_if_not_empty
    from moto.ec2.responses._base_response import EC2BaseResponse

    for (module, name), constants in _CONSTANTS.items():
        describe(getattr(import_module(f"moto.ec2.models.{module}"), name), **constants)
    EC2BaseResponse.RESPONSE_KEY_PATH_TO_TRANSFORMER.update(
        {
            **dict.fromkeys(_LEFT_OUT, return_if_not_empty),
            "CreateVpcResult.Vpc.State": lambda _: "pending",
            "CreateNatGatewayResult.NatGateway.State": lambda _: "pending",
            "CreateSubnetResult.Subnet.BlockPublicAccessStates": lambda _: None,
            "NatGateway.ConnectivityType": lambda kind: kind or "public",
            "RunInstances.Reservation.Instances.Instance.StateReason": lambda _: {
                "Code": "pending",
                "Message": "pending",
            },
            "RunInstances.Reservation.Instances.Instance.BlockDeviceMappings": lambda _: [],
        }
    )
    _describe_networks()
    _describe_endpoints()
    _describe_services()
    _describe_instances()
    _describe_gateways()


def describe(owner: Any, **answers: Any) -> None:
    """Give one of moto's classes members of answers: values, or functions of an object."""
    for name, answer in answers.items():
        setattr(owner, name, property(answer) if callable(answer) else answer)


def _describe_networks() -> None:
    from moto.ec2.models.amis import Ami
    from moto.ec2.models.availability_zones_and_regions import Zone
    from moto.ec2.models.elastic_block_store import Volume, VolumeAttachment
    from moto.ec2.models.elastic_ip_addresses import ElasticAddress
    from moto.ec2.models.elastic_network_interfaces import NetworkInterface
    from moto.ec2.models.managed_prefixes import ManagedPrefixList
    from moto.ec2.models.vpcs import VPC

    describe(VPC, DhcpOptionsId=_dhcp_options)
    describe(
        ElasticAddress,
        NetworkBorderGroup=lambda address: address.ec2_backend.region_name,
        InstanceId=lambda address: address.instance_id or None,
    )
    describe(
        Zone,
        GroupName=lambda zone: f"{zone.region_name}-zg-1",
        GroupLongName=lambda zone: f"{_region_name(zone.region_name)} 1",
        NetworkBorderGroup=lambda zone: zone.region_name,
    )
    describe(
        Volume,
        AvailabilityZoneId=lambda volume: _zone_id(volume.zone.name),
        MultiAttachEnabled=lambda volume: bool(volume.multi_attach_enabled),
        SnapshotId=lambda volume: volume.snapshot_id or "",
        Iops=lambda volume: volume.iops or (3000 if volume.volume_type == "gp3" else None),
        Throughput=lambda volume: (
            volume.throughput or (125 if volume.volume_type == "gp3" else None)
        ),
    )
    describe(
        VolumeAttachment,
        DeleteOnTermination=lambda attachment: (
            attachment.instance.block_device_mapping[attachment.device].delete_on_termination
        ),
    )
    NetworkInterface.association = property(_association)
    # moto names these two after the shapes of DescribeInstances and of DescribeNetworkInterfaces.
    NetworkInterface.instance_private_ip_address_list = property(_private_addresses)
    NetworkInterface.network_interface_private_ip_address_list = property(_private_addresses)
    describe(
        NetworkInterface,
        Description=lambda one: one.description.replace("Primary network interface", ""),
        RequesterId=lambda one: None if one.instance else one.requester_id,
    )
    describe(ManagedPrefixList, Cidrs=_ranges)
    describe(Ami, ProductCodes=lambda image: sorted(image.product_codes) or None)


def _dhcp_options(vpc: Any) -> str:
    if vpc.dhcp_options:
        return str(vpc.dhcp_options.id)
    return f"dopt-{hashlib.sha256(vpc.ec2_backend.region_name.encode()).hexdigest()[:17]}"


def _ranges(prefix_list: Any) -> list[str] | None:
    newest = list(prefix_list.entries.values())[-1:]
    return [entry["Cidr"] for entries in newest for entry in entries or ()] or None


@functools.cache
def _region_name(region: str) -> str:
    # moto reads the parameters of all regions for it, which takes a second.
    from moto.ssm.models import ParameterDict

    names = ParameterDict("", region)
    path = f"/aws/service/global-infrastructure/regions/{region}/longName"
    return str(names[path][0].value) if path in names else region


def _zone_id(zone_name: str | None) -> str | None:
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    zones = RegionsAndZonesBackend.zones.get((zone_name or "")[:-1], [])
    return next((zone.zone_id for zone in zones if zone.name == zone_name), None)


def _association(interface: Any) -> dict[str, Any] | None:
    if not interface.public_ip:
        return None
    backend = interface.ec2_backend
    found = backend.address_by_ip([interface.public_ip], fail_if_not_found=False)
    owned = (
        {"AllocationId": found[0].allocation_id, "AssociationId": found[0].association_id}
        if found
        else {}
    )
    named = str(backend.get_vpc(interface.vpc_id).enable_dns_hostnames).lower() == "true"
    name = _public_name(interface.public_ip, backend.region_name) if named else ""
    return {
        **owned,
        "IpOwnerId": backend.account_id if found else "amazon",
        "PublicDnsName": name,
        "PublicIp": interface.public_ip,
    }


def _private_addresses(interface: Any) -> list[dict[str, Any]]:
    name = getattr(interface, "private_dns_name", None)
    public = {"Association": interface.association} if interface.public_ip else {}
    return [
        {
            "Primary": one.get("Primary", False) or address == interface.private_ip_address,
            "PrivateIpAddress": address,
            **({"PrivateDnsName": name} if name else {}),
            **(public if address == interface.private_ip_address else {}),
        }
        for one in interface.private_ip_addresses
        for address in (one.get("PrivateIpAddress"),)
    ]


def _public_name(address: str, region: str) -> str:
    place = "compute-1" if region == "us-east-1" else f"{region}.compute"
    return f"ec2-{address.replace('.', '-')}.{place}.amazonaws.com"


def _describe_endpoints() -> None:
    from moto.ec2.models.vpcs import VPCEndPoint

    everything = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}
    default = json.dumps(VPCEndPoint.DEFAULT_POLICY)

    def is_gateway(endpoint: Any) -> bool:
        return (endpoint.vpc_endpoint_type or "Gateway").lower() == "gateway"

    def policy(endpoint: Any) -> str:
        text = endpoint.policy_document
        if text == default and not is_gateway(endpoint):
            return json.dumps({"Statement": [everything]})
        return str(text)

    def names(endpoint: Any) -> list[dict[str, str]]:
        first, _, service = endpoint.service_name.partition("amazonaws.")
        region, _, service = service.partition(".")
        return [
            {
                "DnsName": (
                    f"{entry['dns_name'].partition('.')[0]}.{service}.{region}.vpce."
                    f"amazonaws.com{'.cn' if first.startswith('cn.') else ''}"
                ),
                "HostedZoneId": entry["hosted_zone_id"],
            }
            for entry in endpoint.dns_entries or ()
        ]

    def groups(endpoint: Any) -> list[dict[str, str]]:
        backend = endpoint.ec2_backend
        if not is_gateway(endpoint) and not endpoint.security_group_ids:
            default_group = backend.get_default_security_group(endpoint.vpc_id)
            return [{"GroupId": default_group.id, "GroupName": default_group.name}]
        return endpoint.groups

    describe(
        VPCEndPoint,
        DnsEntries=names,
        DnsOptions=lambda one: {
            "DnsRecordIpType": "service-defined" if is_gateway(one) else "ipv4"
        },
        Groups=groups,
        IpAddressType="ipv4",
        PolicyDocument=policy,
        PrivateDnsEnabled=lambda one: not is_gateway(one) and bool(one.private_dns_enabled),
        RequesterManaged=False,
        ServiceRegion=lambda one: one.ec2_backend.region_name,
        VpcEndpointType=lambda one: one.vpc_endpoint_type or "Gateway",
    )


def _describe_services() -> None:
    from moto.ec2.models.vpcs import VPCBackend

    @around(VPCBackend, "describe_vpc_endpoint_services")
    def describe(describe: Any, backend: Any, **asked: Any) -> Any:
        # moto looks for a filter's values under a name that requests no longer have.
        filters = [{**one, "Value": one.get("Values") or []} for one in asked["filters"] or ()]
        found = describe(backend, **{**asked, "filters": filters})
        found["servicesDetails"] = [
            _service(one, asked["region"]) for one in found["servicesDetails"]
        ]
        return found


def _service(service: dict[str, Any], region: str) -> dict[str, Any]:
    shown = {
        **service,
        "AvailabilityZoneIds": [_zone_id(zone) for zone in service["AvailabilityZones"]],
        "ServiceRegion": region,
        "SupportedIpAddressTypes": ["ipv4", "ipv6"],
    }
    if service["ServiceType"] == [{"ServiceType": "Gateway"}]:
        name = service["ServiceName"].rpartition(".")[2]
        shown = {key: value for key, value in shown.items() if not key.startswith("PrivateDns")}
        shown["BaseEndpointDnsNames"] = [f"{name}.{region}.amazonaws.com"]
    return shown


def _describe_instances() -> None:
    from moto.ec2.models.instances import Instance, InstancePlacement

    def unless_ended(attribute: str, ended: Any) -> Any:
        return lambda one: ended if one.state == "terminated" else getattr(one, attribute)

    describe(InstancePlacement, AvailabilityZoneId=lambda placement: _zone_id(placement.zone))
    describe(
        Instance,
        CpuOptions=_processors,
        CurrentInstanceBootMode=lambda one: (
            "uefi" if one.architecture == "arm64" else "legacy-bios"
        ),
        NetworkInterfaces=unless_ended("network_interfaces", []),
        PrivateDnsName=unless_ended("private_dns_name", ""),
        PrivateDnsNameOptions=lambda one: (
            one.nics[0].subnet.private_dns_name_options_on_launch if 0 in one.nics else None
        ),
        PrivateIpAddress=unless_ended("private_ip_address", None),
        PublicDnsName=lambda one: (one.state != "terminated" and one.public_dns_name) or "",
        SecurityGroups=_groups,
        SourceDestCheck=unless_ended("source_dest_check", None),
        StateReason=lambda one: one.state_reason if one.state_reason.code else None,
        StateTransitionReason=lambda one: one._reason.replace(" UTC)", " GMT)"),
        SubnetId=unless_ended("subnet_id", None),
        UsageOperationUpdateTime=lambda one: one.launch_time,
        VpcId=unless_ended("vpc_id", None),
    )


def _groups(instance: Any) -> list[Any]:
    if instance.state == "terminated":
        return []
    groups: list[Any] = instance.security_groups
    return groups or list(instance.nics[0].group_set if 0 in instance.nics else ())


def _processors(instance: Any) -> dict[str, int] | None:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    count = INSTANCE_TYPES.get(instance.instance_type, {}).get("VCpuInfo")
    if not count:
        return None
    threads = count.get("DefaultThreadsPerCore") or 1
    return {
        "CoreCount": count.get("DefaultCores") or count["DefaultVCpus"] // threads,
        "ThreadsPerCore": threads,
    }


def _describe_gateways() -> None:
    from moto.ec2.models.elastic_network_interfaces import NetworkInterface
    from moto.ec2.models.nat_gateways import NatGatewayBackend

    moved = NetworkInterface.attachment.fget

    def attachment(interface: Any) -> Any:
        return getattr(interface, "_embedded_attachment", None) or moved(interface)

    NetworkInterface.attachment = property(attachment)

    @around(NatGatewayBackend, "create_nat_gateway")
    def create(create: Any, backend: Any, *args: Any, **asked: Any) -> Any:
        gateway = create(backend, *args, **asked)
        interface = gateway._eni
        interface.description = f"Interface for NAT Gateway {gateway.id}"
        interface.interface_type = "nat_gateway"
        interface.status = "in-use"
        interface.requester_managed, interface.source_dest_check = True, False
        interface._group_set = []
        interface._embedded_attachment = {
            "AttachmentId": f"ela-attach-{interface.id.removeprefix('eni-')}",
            "DeleteOnTermination": False,
            "DeviceIndex": 1,
            "InstanceOwnerId": "amazon-aws",
            "Status": "attached",
        }
        return gateway
