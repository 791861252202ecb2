"""The addresses of NAT gateways. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import Charge, Deletion, Listed, ResourceKind, Rights

ELASTIC_IP = ResourceKind(
    "aws_eip",
    after=("aws_internet_gateway",),
    find=Listed("describe_addresses", "Addresses", "AllocationId", "eipalloc"),
    # AWS (documented): EC2 refuses with InvalidIPAddress.InUse to release an associated address.
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html
    # AWS (reported): EC2 refuses with AuthFailure to release an address whose NAT gateway is still
    # being deleted. https://github.com/eformat/sno-for-100/issues/5
    delete=Deletion(
        "release_address", "AllocationId", in_use=("InvalidIPAddress.InUse", "AuthFailure")
    ),
    adopt="tagged",
    rights=Rights(
        "elastic-ip", "AllocateAddress", "nothing", ("DisassociateAddress", "ReleaseAddress")
    ),
    price=Charge("public IPv4 address", product="public-ipv4"),
)
