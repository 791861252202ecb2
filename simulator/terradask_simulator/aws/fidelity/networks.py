"""Networks: keep resources that are in use, and describe IPv6 blocks as AWS does.

- Resources in use can't be deleted. moto deletes a subnet or a security group of a running
  instance, a VPC with groups or gateways, and an instance's interface (and then fails to terminate
  the instance), and never frees the address of a deleted NAT gateway.
- AWS (reported): A subnet, a security group, an interface, an internet gateway with mapped
  addresses or a VPC that is in use can't be deleted.
  https://github.com/terraform-aws-modules/terraform-aws-vpc/issues/1081,
  https://github.com/aws/aws-cdk/issues/14456,
  https://github.com/gruntwork-io/cloud-nuke/issues/431,
  https://github.com/gruntwork-io/cloud-nuke/pull/591,
  https://github.com/gruntwork-io/cloud-nuke/issues/345
- AWS (documented): A deleted NAT gateway's Elastic IP address isn't released with it.
  https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteNatGateway.html,
  https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html
- A gateway endpoint can be deleted after its route tables have changed. moto adds the endpoint's
  route only to its first tables, but at its deletion removes the route from later tables as well,
  which lack it.
- moto nests the state of a subnet's IPv6 block twice, and has no filter by the association, so that
  the Terraform provider waits forever for a subnet of a dual-stack network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

_BLOCK_FILTER = "ipv6-cidr-block-association.association-id"


def install() -> None:
    """Replace moto's deletions and descriptions of network resources."""
    _keep_what_is_used()
    _keep_addresses_that_are_used()
    _know_blocks()


def _keep_what_is_used() -> None:
    from moto.ec2.exceptions import DependencyViolationError
    from moto.ec2.models import EC2Backend
    from moto.ec2.models.security_groups import SecurityGroupBackend
    from moto.ec2.models.subnets import SubnetBackend
    from moto.ec2.models.vpcs import VPCBackend
    from moto.ec2.responses.elastic_network_interfaces import ElasticNetworkInterfaces
    from moto.ec2.responses.vpcs import VPCs
    from moto.ec2.utils import generate_route_id

    # Terminating an instance deletes its interfaces in another way.
    # As a patch: simulator/upstream/release/ec2-attached-interfaces.patch
    @around(ElasticNetworkInterfaces, "delete_network_interface")
    def delete_unused_interface(delete: Any, response: Any) -> Any:
        name = response._get_param("NetworkInterfaceId")
        interface = response.ec2_backend.enis.get(name)
        if interface is not None and interface.instance is not None:
            raise ec2_error(
                "InvalidParameterValue", f"Network interface '{name}' is currently in use."
            )
        return delete(response)

    # As a patch: simulator/upstream/release/ec2-used-subnets.patch
    @around(SubnetBackend, "delete_subnet")
    def delete_unused_subnet(delete: Any, backend: Any, subnet_id: str) -> Any:
        if any(one.subnet.id == subnet_id for one in backend.enis.values()):
            raise DependencyViolationError(
                f"The subnet '{subnet_id}' has dependencies and cannot be deleted."
            )
        return delete(backend, subnet_id)

    @around(SecurityGroupBackend, "_delete_security_group")
    def delete_unused_group(delete: Any, backend: Any, vpc_id: str | None, group_id: str) -> Any:
        if group_id in _groups_in_use(backend, beside=group_id):
            raise DependencyViolationError(f"resource {group_id} has a dependent object")
        return delete(backend, vpc_id, group_id)

    @around(VPCBackend, "delete_vpc")
    def delete_empty_vpc(delete: Any, backend: Any, vpc_id: str) -> Any:
        if _has_dependencies(backend, vpc_id):
            raise DependencyViolationError(
                f"The vpc '{vpc_id}' has dependencies and cannot be deleted."
            )
        return delete(backend, vpc_id)

    # As a patch: simulator/upstream/release/ec2-endpoint-routes.patch
    @around(EC2Backend, "delete_vpc_endpoints")
    def delete_endpoints(delete: Any, backend: Any, vpce_ids: list[str] | None = None) -> Any:
        points = backend.vpc_end_points
        for endpoint in (points[each] for each in vpce_ids or () if each in points):
            endpoint.route_table_ids = [
                table
                for table in endpoint.route_table_ids or ()
                if generate_route_id(table, endpoint.destination_prefix_list_id)
                in backend.route_tables[table]._routes
            ]
        return delete(backend, vpce_ids)

    # AWS (documented): DeleteVpcEndpoints lists what it didn't delete, in a successful answer.
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteVpcEndpoints.html
    @around(VPCs, "delete_vpc_endpoints")
    def delete_known_endpoints(delete: Any, response: Any) -> Any:
        points = response.ec2_backend.vpc_end_points
        missing = [
            one
            for one in response._get_param("VpcEndpointIds", [])
            if one not in points or points[one].state == "deleted"
        ]
        answer = delete(response)
        code = "InvalidVpcEndpointId.NotFound"
        answer.result["Unsuccessful"] = [
            {
                "ResourceId": one,
                "Error": {"Code": code, "Message": f"The Vpc Endpoint Id '{one}' does not exist"},
            }
            for one in missing
        ]
        return answer


def _keep_addresses_that_are_used() -> None:
    from moto.ec2.exceptions import DependencyViolationError
    from moto.ec2.models.elastic_ip_addresses import ElasticAddressBackend
    from moto.ec2.models.internet_gateways import InternetGatewayBackend
    from moto.ec2.models.nat_gateways import NatGatewayBackend

    # As a patch: simulator/upstream/release/ec2-nat-gateway-interface.patch
    @around(NatGatewayBackend, "delete_nat_gateway")
    def delete_with_interface(delete: Any, backend: Any, nat_gateway_id: str) -> Any:
        gateway = delete(backend, nat_gateway_id)
        if gateway._eni.id in backend.enis:
            gateway._eni.delete()
        for address in [one for one in backend.addresses if one.eni is gateway._eni]:
            backend.disassociate_address(address=address.public_ip)
        return gateway

    @around(InternetGatewayBackend, "delete_internet_gateway")
    def delete_detached(delete: Any, backend: Any, internet_gateway_id: str) -> Any:
        if backend.get_internet_gateway(internet_gateway_id).vpc:
            raise DependencyViolationError(
                f"The internetGateway '{internet_gateway_id}' has dependencies and cannot be "
                "deleted."
            )
        return delete(backend, internet_gateway_id)

    @around(InternetGatewayBackend, "detach_internet_gateway")
    def detach_unmapped(detach: Any, backend: Any, internet_gateway_id: str, vpc_id: str) -> Any:
        gateway = backend.get_internet_gateway(internet_gateway_id)
        if gateway.vpc is not None and gateway.vpc.id == vpc_id and _is_mapped(backend, vpc_id):
            raise DependencyViolationError(
                f"Network {vpc_id} has some mapped public address(es). Please unmap those public "
                "address(es) before detaching the gateway."
            )
        return detach(backend, internet_gateway_id, vpc_id)

    # As a patch: simulator/upstream/release/ec2-used-addresses.patch
    @around(ElasticAddressBackend, "release_address")
    def release_unused(
        release: Any, backend: Any, address: str | None = None, allocation_id: str | None = None
    ) -> Any:
        for one in backend.addresses:
            is_meant = one.allocation_id == allocation_id if allocation_id else False
            if is_meant and one.association_id is not None:
                raise ec2_error(
                    "InvalidIPAddress.InUse",
                    f"The address with allocation id [{allocation_id}] cannot be released because "
                    "it is in use.",
                )
        return release(backend, address, allocation_id)


def _groups_in_use(backend: Any, *, beside: str) -> Iterator[str]:
    """Yield the security groups that interfaces, endpoints, or other groups' rules of the same VPC
    use.
    """
    for interface in backend.enis.values():
        yield from (group.id for group in interface.group_set)
    for endpoint in backend.vpc_end_points.values():
        if endpoint.state != "deleted":
            yield from endpoint.security_group_ids
    for groups in backend.groups.values():
        # Rules of a peered VPC become stale.
        for group in groups.values() if beside in groups else ():
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


def _know_blocks() -> None:
    from moto.ec2.models.subnets import Subnet

    def associations(subnet: Any) -> list[dict[str, Any]]:
        return [
            {
                "ipv6CidrBlock": association["ipv6CidrBlock"],
                "associationId": association["associationId"],
                "ipv6CidrBlockState": {"state": association["ipv6CidrBlockState"]["State"]},
            }
            for association in subnet.ipv6_cidr_block_associations.values()
            if association["ipv6CidrBlockState"]["State"] == "associated"
        ]

    # As a patch: simulator/upstream/release/ec2-subnet-ipv6.patch
    @around(Subnet, "get_filter_value")
    def get_value(get: Any, subnet: Any, filter_name: str, method_name: str | None = None) -> Any:
        if filter_name == _BLOCK_FILTER:
            return [association["associationId"] for association in associations(subnet)]
        return get(subnet, filter_name, method_name)

    Subnet.ipv6_cidr_block_association_set = property(associations)
