"""Every region has AWS's Deep Learning Base AMI for Amazon Linux 2023, with NVIDIA's drivers, for
both architectures, and the public parameters that name the newest.

moto has neither. Names of parameters, owner and size of the snapshot are those that others found:
https://docs.aws.amazon.com/dlami/latest/devguide/aws-deep-learning-ami-gpubaseoss-al2023-2026-05-20.html
"""

from __future__ import annotations

import hashlib
from typing import Any

__all__ = ["NAME_BEGINS", "SIZE_GIB", "install"]

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

#: What the names of these images begin with.
NAME_BEGINS = "Deep Learning"

#: The size of the root volume's snapshot.
SIZE_GIB = 75


def install() -> None:
    """Add the images and the parameters to moto's."""
    from moto.ec2.models.amis import Ami, AmiBackend
    from moto.ssm.models import ParameterDict

    load_images, load_parameters = AmiBackend._load_amis, ParameterDict._check_loading_status

    if load_images.__module__ == __name__:
        return

    def with_images(backend: Any) -> None:
        load_images(backend)
        if not backend.amis:
            return
        for architecture, name in _NAMES.items():
            image_id = _image_id(backend.region_name, architecture)
            image = Ami(
                backend,
                image_id,
                name=f"{name} {_VERSION}",
                architecture=architecture,
                owner_id=_OWNER,
                owner_alias="amazon",
                virtualization_type="hvm",
                public=True,
                root_device_type="ebs",
            )
            image._embedded_size_gib = SIZE_GIB
            backend.amis[image_id] = image

    def with_parameters(parameters: Any, key: str) -> None:
        load_parameters(parameters, key)
        for architecture in _NAMES:
            name = _PARAMETER.format(architecture=architecture)
            if key == name and not dict.__contains__(parameters, name):
                dict.__setitem__(parameters, name, [_parameter(parameters, name, architecture)])

    AmiBackend._load_amis = with_images
    ParameterDict._check_loading_status = with_parameters


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
