"""Which hosts have GPUs, and their launch templates: the network's, or a cluster's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from terradask_modules.names import WORKER_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from terradask_stacks.groups import ClusterGroup
    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import WorkspaceSettings

#: What distinguishes their launch templates' names.
GPU = "gpu"


def gpu_size(size_gib: int | None) -> str:
    """Return what a template is called beside its role: ``gpu``, ``gpu-250``."""
    return GPU if size_gib is None else f"{GPU}-{size_gib}"


def has_gpu_image(group: ClusterGroup, lock: ClusterLock) -> bool:
    """Return whether a group's hosts have the image with drivers."""
    return lock.gpu_image and any(name in lock.gpus for name in group.instance_types)


def templates_of_gpu_hosts(
    templates: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return those of the network's templates that are for hosts with GPUs: by role, and of
    workers by size in GiB.
    """
    names = {"scheduler": f"scheduler-{GPU}", "worker": GPU}
    roles = {role: templates[name] for role, name in names.items() if name in templates}
    sizes = {
        name.removeprefix(f"{GPU}-"): found
        for name, found in templates.items()
        if name.startswith(f"{GPU}-")
    }
    return roles, sizes


def gpu_conditions(
    workspace: WorkspaceSettings, groups: Iterable[ClusterGroup], lock: ClusterLock
) -> list[tuple[str, str]]:
    """Return what ``workspace.json`` must have for hosts with GPUs: condition, message."""
    with_gpus = [group for group in groups if has_gpu_image(group, lock)]
    if not with_gpus:
        return []
    where, sizes = f'"{lock.architecture}"', lock.network_disks_gib or {}
    larger = {sizes.get(name_of(group), sizes.get("worker")) for group in with_gpus}
    return [
        (
            f'${{try(jsondecode(self.body).launch.gpu_image_ids[{where}], "") != ""}}',
            f"The network of workspace {workspace.name} has no image with drivers for hosts with "
            f"GPUs on {lock.architecture}. Set network.gpu_images = true and run: terradask apply "
            "network.",
        ),
        *(
            (
                f'${{try(jsondecode(self.body).gpu.disks.worker["{size}"][{where}].id, "") != ""}}',
                f"The network of workspace {workspace.name} has no launch template for hosts with "
                f"GPUs and disks of {size} GiB. Run: terradask apply network; or ask for another "
                "size, on which their image fits.",
            )
            for size in sorted(size for size in larger if size is not None)
        ),
    ]


def name_of(group: ClusterGroup) -> str:
    """Return by which name a group's disk and its template are found: its role, or its own."""
    named = group.worker_group not in (None, WORKER_GROUP)
    return str(group.worker_group) if named else group.role
