"""What AWS makes for an instance: volumes and network interfaces. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import in_ec2

VOLUME = in_ec2(
    "aws_ebs_volume",
    "volume",
    prefix="vol",
    in_use=("VolumeInUse",),
    is_optional=True,
    orphan="volume",
    born="CreateTime",
    is_of_host=True,
)
NETWORK_INTERFACE = in_ec2(
    "aws_network_interface",
    after=(
        "aws_subnet",
        "aws_security_group",
    ),
    prefix="eni",
    is_optional=True,
    orphan="network-interface",
    is_of_host=True,
)
