"""A subnet's IPv6 block is described as by AWS, and subnets are found by it.

moto nests the state of the association twice, and knows no filter by the association: the Terraform
provider then waits for a subnet of a dual-stack network without end.
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]

_FILTER = "ipv6-cidr-block-association.association-id"


def install() -> None:
    """Replace moto's description of subnets."""
    from moto.ec2.models.subnets import Subnet

    Subnet.ipv6_cidr_block_association_set = property(_associations)
    known = Subnet.get_filter_value

    def get_filter_value(subnet: Any, filter_name: str, method_name: str | None = None) -> Any:
        if filter_name == _FILTER:
            return [association["associationId"] for association in _associations(subnet)]
        return known(subnet, filter_name, method_name)

    Subnet.get_filter_value = get_filter_value


def _associations(subnet: Any) -> list[dict[str, Any]]:
    return [
        {
            "ipv6CidrBlock": association["ipv6CidrBlock"],
            "associationId": association["associationId"],
            "ipv6CidrBlockState": {"state": association["ipv6CidrBlockState"]["State"]},
        }
        for association in subnet.ipv6_cidr_block_associations.values()
        if association["ipv6CidrBlockState"]["State"] == "associated"
    ]
