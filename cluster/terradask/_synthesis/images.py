"""Resolve the network's images: given ones, or the newest Amazon Linux 2023."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import unless
from terradask.errors import InvalidInput
from terradask_modules.names import ROLES, ROOT_DEVICE
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.groups import groups_of
from terradask_stacks.lock import LOCK_NAME
from terradask_stacks.settings.network import IMAGE_SETTINGS
from terradask_stacks.worker_disks import has_gpu_image, name_of

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.hardware.architecture import Architecture
    from terradask_stacks.lock import ClusterLock, NetworkLock
    from terradask_stacks.settings import ClusterSettings, NetworkSettings, Settings

#: AWS (documented): Parameter Store has the newest Amazon Linux 2023 at this public parameter.
#: https://docs.aws.amazon.com/linux/al2023/ug/ec2.html
IMAGE_PARAMETER = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}"

#: Size of its snapshot: 75 GiB in September 2026.
#: AWS (documented): Parameter Store has the newest Deep Learning Base AMI, with NVIDIA's open
#: drivers, at this public parameter.
#: https://docs.aws.amazon.com/dlami/latest/devguide/aws-deep-learning-ami-gpubaseoss-al2023-2026-05-20.html
GPU_IMAGE_PARAMETER = (
    "/aws/service/deeplearning/ami/{architecture}/"
    "base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
)


def find_gpu_images(
    architectures: Sequence[Architecture],
    network: NetworkSettings,
    aws: Aws,
    existing: NetworkLock | None,
    *,
    refresh: bool,
    check: bool = True,
) -> dict[Architecture, tuple[str, int | None]]:
    """Return the images for hosts with GPUs, with the sizes of their root volumes in GiB, for the
    architectures that have one.

    Raises `InvalidInput` if none has.
    """
    found: dict[Architecture, tuple[str, int | None]] = {}
    for architecture in architectures:
        locked = None if existing is None else existing.gpu_image_ids.get(architecture)
        if existing is not None and locked is not None and not refresh:
            if check:
                _check_locked(locked, network, aws)
            found[architecture] = locked, existing.gpu_image_sizes_gib.get(architecture)
            continue
        with unless("ParameterNotFound"):
            image = _parameter(aws, GPU_IMAGE_PARAMETER.format(architecture=architecture))
            described = _described(aws, image)
            size = _check_root(image, "gpu_images", described[0]) if described else None
            found[architecture] = image, size
    if not found:
        raise InvalidInput(
            f"AWS publishes no Deep Learning Base AMI in {aws.region}",
            given=f"network.gpu_images, for {' and '.join(architectures)}",
            allowed="a region and architectures that have it",
            advice="leave out gpu_images, and name an image with drivers as network.image",
        )
    return found


def find_image(
    architecture: Architecture,
    network: NetworkSettings,
    aws: Aws,
    existing: NetworkLock | None,
    *,
    refresh: bool,
    check: bool = True,
) -> tuple[str, int | None]:
    """Return an architecture's image, and the size of its root volume in GiB, if known.

    A locked one is checked like a new one, since a change of the file chooses root's software.

    Raises `InvalidInput`.
    """
    locked = existing.image_ids.get(architecture) if existing is not None else None
    given = network.images.get(architecture)
    stays = locked == given if given is not None else not refresh
    if existing is not None and locked is not None and stays:
        if check and given is not None:
            _check_image(architecture, given, network.image_owners, aws)
        elif check:
            _check_locked(locked, network, aws)
        return locked, existing.image_sizes_gib.get(architecture)
    if given is not None:
        return given, _check_image(architecture, given, network.image_owners, aws)
    newest = _parameter(aws, IMAGE_PARAMETER.format(architecture=architecture))
    found = _described(aws, newest)
    return newest, _root_size(found[0]) if found else None


def check_disks(network: NetworkSettings, sizes_gib: Mapping[Architecture, int]) -> None:
    """Refuse network disks that are too small for an image. Raises `SettingsError`."""
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


def check_gpu_disks(settings: Settings, lock: ClusterLock, network: NetworkLock | None) -> None:
    """Refuse a cluster's own disks on hosts with GPUs that are too small for their image, if its
    size is known.

    Raises `SettingsError`.
    """
    if network is None or lock.network_disks_gib is not None:
        return
    image_gib = network.gpu_image_sizes_gib.get(lock.architecture, 0)
    with_gpus = {
        name_of(each) for each in groups_of(settings.cluster, lock) if has_gpu_image(each, lock)
    }
    disks = {
        f"cluster.{setting}": value
        for setting, value in settings.cluster.own_disk_settings.items()
        if setting.endswith("disk_size") and _disk_of(setting) in with_gpus
    }
    _refuse_smaller(disks, image_gib)


def _disk_of(setting: str) -> str:
    """Return the owner of a disk setting: a role, or a group of workers."""
    named = setting.removeprefix("worker_groups.")
    return named.removesuffix(".disk_size" if named != setting else "_disk_size")


def _refuse_smaller(disks_gib: Mapping[str, int], image_gib: int) -> None:
    """Refuse disks (setting -> size) that are smaller than the image: no host would launch."""
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


def _parameter(aws: Aws, name: str) -> str:
    return str(aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])


def _described(aws: Aws, image: str) -> list[dict[str, Any]]:
    """Return AWS's description of an image; empty if there is none."""
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


def _check_locked(image: str, network: NetworkSettings, aws: Aws) -> None:
    """Refuse a locked image that belongs neither to AWS, like found ones, nor to a permitted owner.
    A missing one may be published later.
    """
    owners = list(dict.fromkeys([*network.image_owners, "amazon"]))
    found = _described(aws, image)
    owner = found[0]["OwnerId"] if found else None
    if owner is not None and _names(found[0], aws) & set(owners):
        return
    raise InvalidInput(
        "the locked image belongs to another owner: its software runs as root on every host"
        if owner is not None
        else f"the locked image doesn't exist: {aws.region} has none of this id for the account",
        given=f"{image} in {LOCK_NAME}" + (f", of account {owner}" if owner else ""),
        allowed=f"images of {', '.join(owners)}",
        advice=f"find out who put it there (git log {LOCK_NAME}); terradask plan network --refresh "
        "uses AWS's newest one"
        + (f', and network.image_owners = ["{owner}"] permits this one' if owner else ""),
    )


def _names(image: Mapping[str, Any], aws: Aws) -> set[str | None]:
    """Return the names of an image's owner in ``network.image_owners``."""
    owner = image["OwnerId"]
    return {owner, image.get("ImageOwnerAlias"), "self" if owner == aws.account_id else None}


def _check_image(architecture: Architecture, image: str, owners: list[str], aws: Aws) -> int | None:
    setting = IMAGE_SETTINGS[architecture]
    found = _described(aws, image)
    if not found:
        raise InvalidInput(
            f"{aws.region} has no such image",
            given=image,
            allowed="an image of this region that the account may launch",
            advice=f"correct network.{setting}, or leave it out for the newest Amazon Linux 2023",
        )
    owner = found[0]["OwnerId"]
    if not _names(found[0], aws) & set(owners):
        raise InvalidInput(
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
        raise InvalidInput(
            f"the image is for {actual}",
            given=image,
            allowed=f"an image for {architecture}",
            advice=f"choose another network.{setting}",
        )
    return _check_root(image, setting, found[0])


def _check_root(image: str, setting: str, found: Mapping[str, Any]) -> int | None:
    root = found.get("RootDeviceName", ROOT_DEVICE)
    if root != ROOT_DEVICE:
        raise InvalidInput(
            "the image's root volume has another device name than hosts' disks",
            given=f"{image}: {root}",
            allowed=f"an image with its root at {ROOT_DEVICE}, as in Amazon Linux 2023",
            advice=f"choose another network.{setting}",
        )
    return _root_size(found)
