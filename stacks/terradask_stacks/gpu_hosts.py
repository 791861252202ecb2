"""Which hosts have GPUs, and their launch templates: the network's, or a cluster's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask_modules.names import WORKER_GROUP
from terradask_stacks.worker_disks import disk_group, locked_disk, template_exists

if TYPE_CHECKING:
    from collections.abc import Iterable

    from terradask_stacks.groups import ClusterGroup
    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import WorkspaceSettings
    from terradask_stacks.settings.disks import Disk

#: What distinguishes their launch templates' names.
GPU = "gpu"


def gpu_group(disk: Disk) -> str:
    """Return what a template is called beside its role: ``gpu``, ``gpu-250``."""
    return "-".join(filter(None, [GPU, disk_group(disk)]))


def has_gpu_image(group: ClusterGroup, lock: ClusterLock) -> bool:
    """Return whether a group's hosts have the image with drivers."""
    return lock.gpu_image and any(name in lock.gpus for name in group.instance_types)


def gpu_conditions(
    workspace: WorkspaceSettings, groups: Iterable[ClusterGroup], lock: ClusterLock
) -> list[tuple[str, str]]:
    """Return what ``workspace.json`` must have for hosts with GPUs: condition, message."""
    with_gpus = [group for group in groups if has_gpu_image(group, lock)]
    if not with_gpus:
        return []
    where = f'"{lock.architecture}"'
    disks = {
        (group.role, disk)
        for group in with_gpus
        if (disk := locked_disk(lock, group.role, name_of(group)))
    }
    return [
        (
            f'${{try(jsondecode(self.body).launch.gpu_image_ids[{where}], "") != ""}}',
            f"The network of workspace {workspace.name} has no image with drivers for hosts with "
            f"GPUs on {lock.architecture}. Set network.gpu_images = true and run: terradask apply "
            "network.",
        ),
        *(
            (
                template_exists(role, disk, lock.architecture, within="gpu."),
                f"The network of workspace {workspace.name} has no launch template for hosts with "
                f"GPUs and disks of {disk}. Run: terradask apply network; or ask for another "
                "size, on which their image fits.",
            )
            for role, disk in sorted(disks, key=str)
        ),
    ]


def name_of(group: ClusterGroup) -> str:
    """Return by which name a group's disk and its template are found: its role, or its own."""
    named = group.worker_group not in (None, WORKER_GROUP)
    return str(group.worker_group) if named else group.role
