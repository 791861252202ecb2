"""What something else still uses can't be deleted, and a NAT gateway that is deleted lets its
address go.

moto deletes a subnet or a security group under a running instance, a VPC with groups or gateways
in it, and keeps the address of a deleted NAT gateway taken for ever. AWS's answers:
https://github.com/terraform-aws-modules/terraform-aws-vpc/issues/1081 (subnet),
https://github.com/aws/aws-cdk/issues/14456 (security group),
https://github.com/gruntwork-io/cloud-nuke/pull/591 (a gateway with mapped addresses),
https://github.com/gruntwork-io/cloud-nuke/issues/345 (VPC);
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteNatGateway.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["install"]


def install() -> None:
    """Refuse as AWS does."""
    from moto.ec2.exceptions import DependencyViolationError, EC2ClientError
    from moto.ec2.models.elastic_ip_addresses import ElasticAddressBackend
    from moto.ec2.models.internet_gateways import InternetGatewayBackend
    from moto.ec2.models.nat_gateways import NatGatewayBackend
    from moto.ec2.models.security_groups import SecurityGroupBackend
    from moto.ec2.models.subnets import SubnetBackend
    from moto.ec2.models.vpcs import VPCBackend

    delete_subnet = SubnetBackend.delete_subnet
    delete_group = SecurityGroupBackend._delete_security_group
    delete_vpc = VPCBackend.delete_vpc
    delete_nat_gateway = NatGatewayBackend.delete_nat_gateway
    detach_gateway = InternetGatewayBackend.detach_internet_gateway
    release_address = ElasticAddressBackend.release_address

    def delete_unused_subnet(backend: Any, subnet_id: str) -> Any:
        if any(one.subnet.id == subnet_id for one in backend.enis.values()):
            raise DependencyViolationError(
                f"The subnet '{subnet_id}' has dependencies and cannot be deleted."
            )
        return delete_subnet(backend, subnet_id)

    def delete_unused_group(backend: Any, vpc_id: str | None, group_id: str) -> Any:
        if group_id in _groups_in_use(backend, beside=group_id):
            raise DependencyViolationError(f"resource {group_id} has a dependent object")
        return delete_group(backend, vpc_id, group_id)

    def delete_empty_vpc(backend: Any, vpc_id: str) -> Any:
        if _has_dependencies(backend, vpc_id):
            raise DependencyViolationError(
                f"The vpc '{vpc_id}' has dependencies and cannot be deleted."
            )
        return delete_vpc(backend, vpc_id)

    def delete_nat_gateway_and_interface(backend: Any, nat_gateway_id: str) -> Any:
        gateway = delete_nat_gateway(backend, nat_gateway_id)
        backend.enis.pop(gateway._eni.id, None)
        for address in [one for one in backend.addresses if one.eni is gateway._eni]:
            backend.disassociate_address(address=address.public_ip)
        return gateway

    def detach_unmapped_gateway(backend: Any, internet_gateway_id: str, vpc_id: str) -> Any:
        gateway = backend.get_internet_gateway(internet_gateway_id)
        if gateway.vpc is not None and gateway.vpc.id == vpc_id and _is_mapped(backend, vpc_id):
            raise DependencyViolationError(
                f"Network {vpc_id} has some mapped public address(es). Please unmap those public "
                "address(es) before detaching the gateway."
            )
        return detach_gateway(backend, internet_gateway_id, vpc_id)

    def release_unused_address(
        backend: Any, address: str | None = None, allocation_id: str | None = None
    ) -> Any:
        for one in backend.addresses:
            is_meant = one.allocation_id == allocation_id if allocation_id else False
            if is_meant and one.association_id is not None:
                raise EC2ClientError(
                    "InvalidIPAddress.InUse",
                    f"The address with allocation id [{allocation_id}] cannot be released because "
                    "it is in use.",
                )
        return release_address(backend, address, allocation_id)

    SubnetBackend.delete_subnet = delete_unused_subnet
    SecurityGroupBackend._delete_security_group = delete_unused_group
    VPCBackend.delete_vpc = delete_empty_vpc
    NatGatewayBackend.delete_nat_gateway = delete_nat_gateway_and_interface
    InternetGatewayBackend.detach_internet_gateway = detach_unmapped_gateway
    ElasticAddressBackend.release_address = release_unused_address


def _groups_in_use(backend: Any, *, beside: str) -> Iterator[str]:
    """Yield the security groups that interfaces, endpoints, or other groups' rules have."""
    for interface in backend.enis.values():
        yield from (group.id for group in interface.group_set)
    for endpoint in backend.vpc_end_points.values():
        if endpoint.state != "deleted":
            yield from endpoint.security_group_ids
    for groups in backend.groups.values():
        for group in groups.values():
            if group.id != beside:
                for rule in (*group.ingress_rules, *group.egress_rules):
                    yield rule.source_group.get("GroupId", "")


def _has_dependencies(backend: Any, vpc_id: str) -> bool:
    groups = backend.groups.get(vpc_id, {}).values()
    gateways = backend.internet_gateways.values()
    only_outwards = backend.egress_only_internet_gateways.values()
    return (
        any(group.name != "default" for group in groups)
        or any(one.vpc is not None and one.vpc.id == vpc_id for one in gateways)
        or any(one.vpc_id == vpc_id for one in only_outwards)
        or any(
            one.vpc_id == vpc_id and one.state != "deleted"
            for one in backend.vpc_end_points.values()
        )
    )


def _is_mapped(backend: Any, vpc_id: str) -> bool:
    return any(one.subnet.vpc_id == vpc_id and one.public_ip for one in backend.enis.values())
