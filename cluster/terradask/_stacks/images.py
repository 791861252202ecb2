"""Resolve the network's images: those that are given, or the newest Amazon Linux 2023."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import unless
from terradask.errors import UnknownImage
from terradask_modules.names import ROLES, ROOT_DEVICE
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.settings.network import IMAGE_SETTINGS

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.hardware.architecture import Architecture
    from terradask_stacks.lock import NetworkLock
    from terradask_stacks.settings import ClusterSettings, NetworkSettings

#: AWS's public parameters for the newest Amazon Linux 2023:
#: https://gist.github.com/guitarrapc/7dab82a3dcffc2921f9f756e7a7f549a
IMAGE_PARAMETER = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}"


def find_image(
    architecture: Architecture,
    network: NetworkSettings,
    aws: Aws,
    existing: NetworkLock | None,
    *,
    refresh: bool,
) -> tuple[str, int | None]:
    """Return an architecture's image, and how large its root volume is in GiB, if that is known.

    Raises `UnknownImage`.
    """
    locked = existing.image_ids.get(architecture) if existing is not None else None
    given = network.images.get(architecture)
    stays = locked == given if given is not None else not refresh
    if existing is not None and locked is not None and stays:
        return locked, existing.image_sizes_gib.get(architecture)
    if given is not None:
        return given, _check_image(architecture, given, network.image_owners, aws)
    newest = _newest_image(architecture, aws)
    found = _described(aws, newest)
    return newest, _root_size(found[0]) if found else None


def check_disks(network: NetworkSettings, sizes_gib: Mapping[Architecture, int]) -> None:
    """Refuse a network's disks that have no room for an image. Raises `SettingsError`."""
    disks = {
        f"network.{role}_disk_size_gib": getattr(network, f"{role}_disk_size_gib") for role in ROLES
    }
    _refuse_smaller(disks, max(sizes_gib.values(), default=0))


def check_own_disks(cluster: ClusterSettings, network: NetworkLock | None) -> None:
    """Refuse a cluster's own disks that have no room for its image, as far as that is known.

    Raises `SettingsError`.
    """
    disks = {
        f"cluster.{setting}": value
        for setting, value in cluster.own_disk_settings.items()
        if setting.endswith("disk_size")
    }
    sizes = {} if network is None else network.image_sizes_gib
    _refuse_smaller(disks, sizes.get("arm64" if cluster.expects_arm else "x86_64", 0))


def _refuse_smaller(disks_gib: Mapping[str, int], image_gib: int) -> None:
    """Refuse disks, setting -> size, on which an image has no room: AWS launches no such host."""
    findings = [
        Finding(
            where=setting,
            problem="the image's own root volume is larger",
            given=size,
            allowed=f"{image_gib} GiB and more",
            advice=f"set {setting} = {image_gib} or more, or choose a smaller image",
        )
        for setting, size in disks_gib.items()
        if size < image_gib
    ]
    if findings:
        raise SettingsError(findings)


def _newest_image(architecture: Architecture, aws: Aws) -> str:
    client = aws.client("ssm")
    return str(
        client.get_parameter(Name=IMAGE_PARAMETER.format(architecture=architecture))["Parameter"][
            "Value"
        ]
    )


def _described(aws: Aws, image: str) -> list[dict[str, Any]]:
    """Return AWS's description of an image; nothing if there is no such image."""
    with unless("InvalidAMI*"):
        return list(aws.client("ec2").describe_images(ImageIds=[image])["Images"])
    return []


def _root_size(image: Mapping[str, Any]) -> int | None:
    root = image.get("RootDeviceName")
    sizes = {
        one.get("DeviceName"): one.get("Ebs", {}).get("VolumeSize")
        for one in image.get("BlockDeviceMappings", ())
    }
    return sizes.get(root)


def _check_image(architecture: Architecture, image: str, owners: list[str], aws: Aws) -> int | None:
    setting = IMAGE_SETTINGS[architecture]
    found = _described(aws, image)
    if not found:
        raise UnknownImage(
            f"there is no such image in {aws.region}",
            given=image,
            allowed="an image of this region that the account may launch",
            advice=f"correct network.{setting}, or leave it out for the newest Amazon Linux 2023",
        )
    owner = found[0]["OwnerId"]
    known_as = {owner, found[0].get("ImageOwnerAlias"), "self" if owner == aws.account_id else None}
    if not known_as & set(owners):
        raise UnknownImage(
            "the image belongs to another owner: its software runs as root on every host",
            given=f"{image}, of account {owner}",
            allowed=f"images of {', '.join(owners)}",
            advice=(
                f'if you trust them, network.image_owners = ["{owner}"]; else another '
                f"network.{setting}"
            ),
        )
    actual = found[0].get("Architecture", architecture)
    if actual != architecture:
        raise UnknownImage(
            f"the image is for {actual}",
            given=image,
            allowed=f"an image for {architecture}",
            advice=f"choose another network.{setting}",
        )
    root = found[0].get("RootDeviceName", ROOT_DEVICE)
    if root != ROOT_DEVICE:
        raise UnknownImage(
            "the image's root volume is at another device than hosts' disks",
            given=f"{image}: {root}",
            allowed=f"an image with its root at {ROOT_DEVICE}, as Amazon Linux 2023 has it",
            advice=f"choose another network.{setting}",
        )
    return _root_size(found[0])
