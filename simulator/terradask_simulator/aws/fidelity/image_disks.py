"""Amazon Linux 2023 has its root at /dev/xvda, of 8 GiB, as images made of it have; no volume is
smaller than its snapshot.

In moto every image has 15 GiB at /dev/sda1, and volumes have any size.
"""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.fidelity.gpu_images import NAME_BEGINS

__all__ = ["check_root_volume", "install"]

_DEVICE, _SIZE_GIB = "/dev/xvda", 8


def install() -> None:
    """Replace moto's description of images' volumes."""
    from moto.ec2.models.amis import Ami

    def set_root_device_name(image: Any, name: str) -> None:
        image.__dict__["root_device_name"] = name

    Ami.root_device_name = property(
        lambda image: _DEVICE if _is_ours(image) else image.__dict__["root_device_name"],
        set_root_device_name,
    )
    Ami.block_device_mappings = property(_mappings)


def check_root_volume(backend: Any, image_id: str, devices: list[dict[str, Any]]) -> None:
    """Refuse a root volume that is smaller than the image's, in EC2's words."""
    from moto.ec2.exceptions import EC2ClientError

    image = backend.amis.get(image_id)
    if image is None:
        return
    (root,) = image.block_device_mappings
    snapshot = root["Ebs"]
    for device in devices:
        size = int((device.get("Ebs") or {}).get("VolumeSize") or snapshot["VolumeSize"])
        if device.get("DeviceName") == root["DeviceName"] and size < snapshot["VolumeSize"]:
            raise EC2ClientError(
                "InvalidBlockDeviceMapping",
                f"Volume of size {size}GB is smaller than snapshot '{snapshot['SnapshotId']}', "
                f"expect size >= {snapshot['VolumeSize']}GB",
            )


def _is_ours(image: Any) -> bool:
    source = getattr(image, "instance", None)
    if source is not None and source.image_id in image.ec2_backend.amis:
        return bool(image.ec2_backend.amis[source.image_id].root_device_name == _DEVICE)
    return str(image.name).startswith(("al2023-ami", NAME_BEGINS))


def _mappings(image: Any) -> list[dict[str, Any]]:
    return [
        {
            "DeviceName": image.root_device_name,
            "Ebs": {
                "SnapshotId": image.ebs_snapshot.id,
                "VolumeSize": getattr(image, "_embedded_size_gib", _SIZE_GIB),
                "DeleteOnTermination": True,
                "VolumeType": "gp3",
            },
        }
    ]
