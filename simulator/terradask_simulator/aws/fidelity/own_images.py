"""Images that callers make of instances.

- AWS (documented): A new image is ``pending`` until its snapshots are complete, then ``available``.
  https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/creating-an-ami-ebs.html
  moto's is available at once. Here it takes `PENDING_SECONDS`.
- AWS (reported): A pending image can't be launched.
  https://github.com/hashicorp/packer/issues/12162
- AWS (reported): Two images of an account can't have one name.
  https://github.com/hashicorp/terraform-aws-consul/pull/131
- AWS (documented): CreateImage tags the snapshots too, where TagSpecifications name them, and
  DeregisterImage deletes them with DeleteAssociatedSnapshots.
  https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateImage.html,
  https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeregisterImage.html
  moto has neither.
- AWS (documented): The snapshot of an encrypted volume is encrypted, and as large as the volume.
  https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html
"""

from __future__ import annotations

import time
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["PENDING_SECONDS", "check_available", "install"]

PENDING_SECONDS = 0.5


def install() -> None:
    """Replace moto's CreateImage and DeregisterImage, and its description of an image's state."""
    from moto.ec2.models.amis import Ami, AmiBackend
    from moto.ec2.responses.amis import AmisResponse

    @around(AmiBackend, "create_image")
    def create_image(
        create: Any,
        backend: Any,
        instance_id: str,
        name: str,
        *given: Any,
        tag_specifications: list[dict[str, Any]],
    ) -> Any:
        _check_name(backend, name)
        of_snapshots = [one for one in tag_specifications if one["ResourceType"] == "snapshot"]
        others = [one for one in tag_specifications if one["ResourceType"] != "snapshot"]
        image = create(backend, instance_id, name, *given, tag_specifications=others)
        root = _root_volume(backend.get_instance(instance_id))
        image.root_device_type = "ebs"
        snapshot = image.ebs_snapshot
        if root is not None:
            image._embedded_size_gib = snapshot.volume.size = root.size
            snapshot.encrypted, snapshot.kms_key_id = root.encrypted, root.kms_key_id
        for one in of_snapshots:
            for tag in one["Tags"]:
                snapshot.add_tag(tag["Key"], tag["Value"])
        image._embedded_available_at = time.monotonic() + PENDING_SECONDS
        return image

    @around(AmisResponse, "deregister_image")
    def deregister_image(deregister: Any, response: Any) -> Any:
        backend = response.ec2_backend
        image = backend.amis.get(response._get_param("ImageId"))
        answer = deregister(response)
        if image is not None and response._get_bool_param("DeleteAssociatedSnapshots", False):
            backend.snapshots.pop(image.ebs_snapshot.id, None)
        return answer

    def set_state(image: Any, state: str) -> None:
        image.__dict__["state"] = state

    Ami.state = property(
        lambda image: image.__dict__["state"] if _is_available(image) else "pending", set_state
    )


def _is_available(image: Any) -> bool:
    return bool(getattr(image, "_embedded_available_at", 0.0) <= time.monotonic())


def _root_volume(instance: Any) -> Any:
    for device in instance.block_device_mapping.values():
        return instance.ec2_backend.volumes.get(device.volume_id)
    return None


def _check_name(backend: Any, name: str) -> None:
    for image in backend.amis.values():
        if image.name == name and image.owner_id == backend.account_id:
            raise ec2_error(
                "InvalidAMIName.Duplicate", f"AMI name {name} is already in use by AMI {image.id}"
            )


def check_available(backend: Any, image_id: str) -> None:
    """Refuse to launch a pending image, with EC2's message."""
    image = backend.amis.get(image_id)
    if image is not None and not _is_available(image):
        raise ec2_error(
            "InvalidAMIID.Unavailable", f"AMI '{image_id}' is pending, and cannot be run"
        )
