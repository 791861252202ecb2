"""An instance type and an image of different architectures don't launch. moto looks at neither."""

from __future__ import annotations

from typing import Any

__all__ = ["check_architecture"]


def check_architecture(backend: Any, image_id: str, instance_type: str) -> None:
    """Refuse a launch of a type that can't run the image, in EC2's words."""
    from moto.ec2.exceptions import EC2ClientError
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    image = backend.amis.get(image_id)
    supported = (
        INSTANCE_TYPES.get(instance_type, {})
        .get("ProcessorInfo", {})
        .get("SupportedArchitectures", [])
    )
    if image is None or not image.architecture or not supported or image.architecture in supported:
        return
    # As RunInstances says it: https://github.com/skypilot-org/skypilot/issues/6315
    raise EC2ClientError(
        "InvalidParameterValue",
        f"The architecture '{','.join(supported)}' of the specified instance type does not match "
        "the architecture "
        f"'{image.architecture}' of the specified AMI. Specify an instance type and an AMI that "
        "have matching architectures, and try "
        "again. You can use 'describe-instance-types' or 'describe-images' to discover the "
        "architecture of the instance type or AMI.",
    )
