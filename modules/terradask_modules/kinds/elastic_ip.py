"""The addresses of NAT gateways. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import Charge, Deletion, Listed, ResourceKind, Rights

ELASTIC_IP = ResourceKind(
    "aws_eip",
    after=("aws_internet_gateway",),
    find=Listed("describe_addresses", "Addresses", "AllocationId", "eipalloc"),
    # AWS (documented, eip-in-use): EC2 ReleaseAddress fails with InvalidIPAddress.InUse for an
    # associated address, and AuthFailure for one that isn't released by AWS's own part yet.
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html
    delete=Deletion(
        "release_address", "AllocationId", in_use=("InvalidIPAddress.InUse", "AuthFailure")
    ),
    adopt="tagged",
    rights=Rights(
        "elastic-ip", "AllocateAddress", "nothing", ("DisassociateAddress", "ReleaseAddress")
    ),
    price=Charge("public IPv4 address", product="public-ipv4"),
)
