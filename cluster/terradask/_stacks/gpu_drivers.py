"""Whether hosts with GPUs would have drivers for them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask._stacks.resolve_cluster import types_in
from terradask_stacks.errors import Finding, SettingsError

if TYPE_CHECKING:
    from collections.abc import Container

    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import ClusterSettings, NetworkSettings

#: Families with GPUs that NVIDIA's open driver isn't for, by the image's release notes:
#: https://docs.aws.amazon.com/dlami/latest/devguide/aws-deep-learning-ami-gpubaseoss-al2023-2026-05-20.html
_WITHOUT_OPEN_DRIVER = frozenset({"p2", "p3", "p3dn", "g2", "g3", "g3s", "g4ad"})

#: By what a group of hosts comes to have GPUs; the first that is given.
_ASKS_FOR_GPUS = ("gpu_type", "gpu", "vm_types")


def check_gpu_drivers(
    cluster: ClusterSettings, lock: ClusterLock, network: NetworkSettings
) -> None:
    """Refuse hosts with GPUs that would start without a driver for them. Raises `SettingsError`.

    Whether a given image has one, nothing in AWS shows.
    """
    if not lock.gpus or (network.images and not network.gpu_images):
        return
    if not network.gpu_images:
        finding = Finding(
            where=_where(cluster, lock, lock.gpus),
            problem="hosts with GPUs would start without drivers",
            given=", ".join(sorted(lock.gpus)),
            allowed="a network with gpu_images = true, or with an image of yours",
            advice="set network.gpu_images = true and run: terradask apply network",
        )
        raise SettingsError([finding])
    old = sorted(name for name in lock.gpus if name.partition(".")[0] in _WITHOUT_OPEN_DRIVER)
    if old:
        finding = Finding(
            where=_where(cluster, lock, old),
            problem="the network's image for hosts with GPUs has no driver for these",
            given=", ".join(old),
            allowed="G4dn, G5, G6, P4 and newer, or G5g: NVIDIA's open driver is for them",
            advice="ask for another GPU; or leave out network.gpu_images, and set network.image to "
            "an image with drivers",
        )
        raise SettingsError([finding])


def _where(cluster: ClusterSettings, lock: ClusterLock, types: Container[str]) -> str:
    """Return the setting by which a group has one of these types, the workers' first."""
    group = next(
        group for group, names in types_in(lock).items() if any(name in types for name in names)
    )
    request = cluster.hardware_requests[group]
    asked = next((each for each in _ASKS_FOR_GPUS if getattr(request, each)), "gpu")
    return f"cluster.{request.option(asked)}"
