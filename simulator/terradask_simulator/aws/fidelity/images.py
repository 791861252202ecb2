"""Images in every region, with AWS's disks and architectures.

- moto has AWS's public image parameters, their images and the offered instance types by region, but
  lacks the newest regions and other partitions: here they equal us-east-1.
- AWS (documented): The Deep Learning Base AMI for Amazon Linux 2023 has NVIDIA's drivers; public
  parameters name the newest.
  https://docs.aws.amazon.com/dlami/latest/devguide/aws-deep-learning-ami-gpubaseoss-al2023-2026-05-20.html
  moto has neither. Here every region has them for both architectures.
- Amazon Linux 2023, and images made from it, have a root volume of 8 GiB at /dev/xvda; a volume
  can't be smaller than its snapshot. In moto every image has 15 GiB at /dev/sda1, and volumes have
  any size.
- A launch fails if instance type and image have different architectures, which moto doesn't check.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

from terradask_simulator.aws.fidelity.descriptions import describe
from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["check_architecture", "check_root_volume", "install"]

_MODEL = "us-east-1"

_PARAMETER = (
    "/aws/service/deeplearning/ami/{architecture}/"
    "base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
)
_OWNER = "898082745236"
_VERSION = "20260925"
_NAMES = {
    "x86_64": "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023)",
    "arm64": "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023)",
}

#: Name prefixes of the images with known disks.
_AMAZON_LINUX = ("al2023-ami", "Deep Learning")
_DEVICE, _SIZE_GIB, _GPU_SIZE_GIB = "/dev/xvda", 8, 75
#: AWS (recorded): an image of Amazon Linux is deprecated 90 days after its creation.
#: tests/records/data/ec2-instances.json
_KEPT = datetime.timedelta(days=90)


def install() -> None:
    """Add images and parameters to moto, and replace its description of volumes."""
    from moto.ec2.models.amis import Ami, AmiBackend
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
    from moto.ssm.models import ParameterDict

    @around(ParameterDict, "_load_latest_amis")
    def load_latest_amis(load: Any, parameters: Any) -> None:
        load(parameters)
        if not parameters:
            own, parameters.region_name = parameters.region_name, _MODEL
            load(parameters)
            parameters.region_name = own

    @around(ParameterDict, "_check_loading_status")
    def load_parameters(load: Any, parameters: Any, key: str) -> None:
        load(parameters, key)
        for architecture in _NAMES:
            name = _PARAMETER.format(architecture=architecture)
            if key == name and not dict.__contains__(parameters, name):
                dict.__setitem__(parameters, name, [_parameter(parameters, name, architecture)])

    @around(AmiBackend, "_load_amis")
    def load_amis(load: Any, backend: Any) -> None:
        load(backend)
        # Without any, moto is configured to have none.
        if not backend.amis:
            return
        if _newest_images(backend.region_name) is None:
            for image in _newest_images(_MODEL) or []:
                backend.amis[image["ami_id"]] = Ami(backend, **{**image, "owner_alias": "amazon"})
        for architecture in _NAMES:
            image = _gpu_image(backend, architecture)
            backend.amis[image.id] = image

    def set_root_device_name(image: Any, name: str) -> None:
        image.__dict__["root_device_name"] = name

    Ami.root_device_name = property(
        lambda image: _DEVICE if _is_ours(image) else image.__dict__["root_device_name"],
        set_root_device_name,
    )
    Ami.block_device_mappings = property(_mappings)
    describe(
        Ami,
        BootMode=lambda image: "uefi" if image.architecture == "arm64" else "uefi-preferred",
        DeprecationTime=lambda image: (
            (image.creation_date + _KEPT).strftime("%Y-%m-%dT%H:%M:00.000Z")
            if _is_ours(image)
            else None
        ),
        ImageLocation=lambda image: (
            image.image_location or f"{image.owner_alias or image.owner_id}/{image.name}"
        ),
        ImdsSupport=lambda image: "v2.0" if _is_ours(image) else None,
    )
    for by in ("region", "availability-zone"):
        INSTANCE_TYPE_OFFERINGS[by] = _Offerings(INSTANCE_TYPE_OFFERINGS[by])


class _Offerings(dict[str, Any]):
    """Region -> its offerings, in the form that moto reads."""

    def get(self, region: str, default: Any = None) -> Any:
        if region not in self:
            self[region] = [
                {**one, "Location": one["Location"].replace(_MODEL, region)} for one in self[_MODEL]
            ]
        return self[region]


def _newest_images(region: str) -> list[dict[str, Any]] | None:
    """Return a region's newest images of Amazon Linux; None if moto has no list of it."""
    from moto.utilities.utils import load_resource

    try:
        images: list[dict[str, Any]] = load_resource(f"ec2/resources/latest_amis/{region}.json")
    except FileNotFoundError:
        return None
    return images


def _gpu_image(backend: Any, architecture: str) -> Any:
    from moto.ec2.models.amis import Ami

    image = Ami(
        backend,
        _image_id(backend.region_name, architecture),
        name=f"{_NAMES[architecture]} {_VERSION}",
        architecture=architecture,
        owner_id=_OWNER,
        owner_alias="amazon",
        virtualization_type="hvm",
        public=True,
        root_device_type="ebs",
    )
    image._embedded_size_gib = _GPU_SIZE_GIB
    return image


def _parameter(parameters: Any, name: str, architecture: str) -> Any:
    from moto.core.utils import unix_time
    from moto.ssm.models import Parameter

    return Parameter(
        account_id=parameters.account_id,
        name=name,
        value=_image_id(parameters.region_name, architecture),
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=unix_time(),
        version=1,
        data_type="aws:ec2:image",
    )


def _image_id(region: str, architecture: str) -> str:
    return f"ami-{hashlib.sha256(f'{region}/{architecture}'.encode()).hexdigest()[:17]}"


def _is_ours(image: Any) -> bool:
    source = getattr(image, "instance", None)
    if source is not None and source.image_id in image.ec2_backend.amis:
        return bool(image.ec2_backend.amis[source.image_id].root_device_name == _DEVICE)
    return str(image.name).startswith(_AMAZON_LINUX)


def _mappings(image: Any) -> list[dict[str, Any]]:
    return [
        {
            "DeviceName": image.root_device_name,
            "Ebs": {
                "SnapshotId": image.ebs_snapshot.id,
                "VolumeSize": getattr(image, "_embedded_size_gib", _SIZE_GIB),
                "DeleteOnTermination": True,
                "Encrypted": bool(image.ebs_snapshot.encrypted),
                "Iops": 3000,
                "Throughput": 125,
                "VolumeType": "gp3",
            },
        }
    ]


def check_root_volume(backend: Any, image_id: str, devices: list[dict[str, Any]]) -> None:
    """Refuse a root volume smaller than the image's, with EC2's message."""
    image = backend.amis.get(image_id)
    if image is None:
        return
    (root,) = image.block_device_mappings
    snapshot = root["Ebs"]
    for device in devices:
        size = int((device.get("Ebs") or {}).get("VolumeSize") or snapshot["VolumeSize"])
        if device.get("DeviceName") == root["DeviceName"] and size < snapshot["VolumeSize"]:
            raise ec2_error(
                "InvalidBlockDeviceMapping",
                f"Volume of size {size}GB is smaller than snapshot '{snapshot['SnapshotId']}', "
                f"expect size >= {snapshot['VolumeSize']}GB",
            )


def check_architecture(backend: Any, image_id: str, instance_type: str) -> None:
    """Refuse a launch of a type that can't run the image, with EC2's message."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    image = backend.amis.get(image_id)
    processor = INSTANCE_TYPES.get(instance_type, {}).get("ProcessorInfo", {})
    supported = processor.get("SupportedArchitectures", [])
    if image is None or not image.architecture or not supported or image.architecture in supported:
        return
    # RunInstances' message: https://github.com/skypilot-org/skypilot/issues/6315
    raise ec2_error(
        "InvalidParameterValue",
        f"The architecture '{','.join(supported)}' of the specified instance type does not match "
        f"the architecture '{image.architecture}' of the specified AMI. Specify an instance type "
        "and an AMI that have matching architectures, and try again. You can use "
        "'describe-instance-types' or 'describe-images' to discover the architecture of the "
        "instance type or AMI.",
    )
