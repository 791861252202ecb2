"""Which of the network's launch templates a cluster's hosts take, by their disks and GPUs, or why
none has such a disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from terradask_modules.names import WORKER_GROUP
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.settings.disks import FREE_MIBPS, Disk, smallest_fitting

if TYPE_CHECKING:
    from terradask_stacks.groups import ClusterGroup
    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import ClusterSettings, NetworkSettings, WorkspaceSettings

_PLATFORM = "to allow it for every cluster: network.cluster_launch_templates = true"


def own_templates(workspace: WorkspaceSettings, network: NetworkSettings) -> bool:
    """Return whether clusters have launch templates of their own for their disks."""
    return workspace.isolation == "cluster" or network.cluster_launch_templates


def offered_disks(workspace: WorkspaceSettings, network: NetworkSettings) -> list[tuple[str, Disk]]:
    """Return the disks for which the network has templates, beside each role's usual one: role,
    disk.
    """
    if own_templates(workspace, network):
        return []
    # The usual ones come first.
    of_schedulers, sizes, throughputs = (each[1:] for each in _offered(network).values())
    return [
        *(("scheduler", Disk(size)) for size in of_schedulers),
        *(("worker", Disk(size)) for size in sizes),
        *(("worker", Disk(size, mibps)) for mibps in throughputs for size in (None, *sizes)),
    ]


def disk_group(disk: Disk) -> str | None:
    """Return what a disk's template is called beside its role: ``250``, ``250-500mibps``."""
    size = "" if disk.size_gib is None else str(disk.size_gib)
    throughput = "" if disk.throughput_mibps is None else f"{disk.throughput_mibps}mibps"
    return "-".join(filter(None, [size, throughput])) or None


def disk_path(role: str, disk: Disk) -> list[str]:
    """Return where ``workspace.json`` has the templates of a disk, by architecture."""
    size = disk.size_gib
    if disk.throughput_mibps is not None:
        named = "usual" if size is None else str(size)
        return ["disks", f"{role}_throughputs", str(disk.throughput_mibps), named]
    return ["templates", role] if size is None else ["disks", role, str(size)]


def network_disks(
    workspace: WorkspaceSettings, network: NetworkSettings, cluster: ClusterSettings
) -> dict[str, Disk] | None:
    """Return the disks that a cluster takes of those that the network offers, by role and by names
    of groups of workers: the smallest that are enough.

    Without a size it is the network's usual disk, without a throughput what is free. Without a
    dictionary the cluster has launch templates of its own.
    """
    if own_templates(workspace, network):
        return None
    return {name: _smallest(_role(name), disk, network) for name, disk in cluster.own_disks.items()}


def locked_disks(disks: Mapping[str, Disk] | None) -> dict[str, Any]:
    """Return how a lock keeps the disks that a cluster takes of the network's."""
    mibps = {name: disk.throughput_mibps for name, disk in (disks or {}).items()}
    return {
        "network_disks_gib": None
        if disks is None
        else {name: disk.size_gib for name, disk in disks.items()},
        # Versions that don't know it can read the others.
        "network_disks_mibps": mibps if any(mibps.values()) else {},
    }


def locked_disk(lock: ClusterLock, role: str, name: str) -> Disk:
    """Return which of the network's disks a group has: its own, or its role's."""
    sizes, mibps = lock.network_disks_gib or {}, lock.network_disks_mibps
    return Disk(sizes.get(name, sizes.get(role)), mibps.get(name, mibps.get(role)))


def check_disks_offered(
    workspace: WorkspaceSettings,
    network: NetworkSettings,
    cluster: ClusterSettings,
    *,
    unknown: Collection[str] = (),
) -> None:
    """Refuse disks for which the network has no launch template, if clusters may not have their
    own. `unknown` are those of the network's settings of larger and faster disks that the version
    by which it was deployed doesn't know.

    Raises `SettingsError`, naming each setting of disks.
    """
    if own_templates(workspace, network):
        return
    findings = [
        finding
        for name, value in cluster.own_disk_settings.items()
        if (finding := _refused(name, value, network, unknown)) is not None
    ]
    if findings:
        raise SettingsError(findings)


def check_blocks(workspace: WorkspaceSettings, network: NetworkSettings, lock: ClusterLock) -> None:
    """Refuse capacity blocks, which a launch template must name, if clusters have none of their
    own. Raises `SettingsError`.
    """
    if lock.capacity_blocks and not own_templates(workspace, network):
        raise SettingsError.of(
            where="network.cluster_launch_templates",
            problem="a launch template names a capacity block, and clusters of this network have "
            "none of their own",
            given=False,
            allowed='true, or workspace.isolation = "cluster"',
            advice="set network.cluster_launch_templates = true and run: terradask apply network",
        )


def disk_conditions(
    name: str, workspace: WorkspaceSettings, cluster: ClusterSettings, lock: ClusterLock
) -> list[tuple[str, str]]:
    """Return what ``workspace.json`` must have for a cluster's disks: condition, message."""
    settings = cluster.own_disk_settings
    if workspace.isolation == "cluster" or not settings:
        return []
    if lock.network_disks_gib is None:
        return [
            (
                "${try(jsondecode(self.body).cluster_launch_templates, false)}",
                f"The network of workspace {workspace.name} lets clusters have no launch "
                f"templates of their own, which {', '.join(settings)} takes. Set "
                "network.cluster_launch_templates = true and run: terradask apply network.",
            )
        ]
    taken = {
        (role, disk)
        for name in {**lock.network_disks_gib, **lock.network_disks_mibps}
        if (disk := locked_disk(lock, role := _role(name), name))
    }
    return [
        (
            template_exists(role, disk, lock.architecture),
            f"The network of workspace {workspace.name} has no launch template for {role}s' disks "
            f"of {disk}. If you plan the cluster beside its network, run: terradask apply "
            f"network; else plan it again: terradask plan {name}.",
        )
        for role, disk in sorted(taken, key=str)
    ]


def template_exists(role: str, disk: Disk, architecture: str, *, within: str = "") -> str:
    """Return the condition that ``workspace.json`` has a disk's launch template."""
    menu, kind, *keys = disk_path(role, disk)
    path = f"{menu}.{kind}" + "".join(f'["{key}"]' for key in [*keys, architecture])
    return f'${{try(jsondecode(self.body).{within}{path}.id, "") != ""}}'


def _role(name: str) -> str:
    """Return the role of those whose disks are known by a name."""
    return "scheduler" if name == "scheduler" else "worker"


def _refused(
    name: str, value: int, network: NetworkSettings, unknown: Collection[str]
) -> Finding | None:
    what = "throughput" if name.endswith("throughput") else "size"
    setting = (
        "scheduler_disk_sizes_gib"
        if name == "scheduler_disk_size"
        else {"size": "worker_disk_sizes_gib", "throughput": "worker_disk_throughputs_mibps"}[what]
    )
    offered = _offered(network)[setting]
    if smallest_fitting(value, offered) is not None:
        return None
    if setting in unknown:
        return Finding(
            where=f"cluster.{name}",
            problem="the network was deployed by a version without disks of "
            f"{'other throughputs' if what == 'throughput' else 'larger sizes'}",
            given=value,
            allowed=f"up to {max(offered)}",
            advice="run: terradask apply network",
        )
    return Finding(
        where=f"cluster.{name}",
        problem=f"no launch template of the network has a disk of this {what}",
        given=value,
        allowed=f"up to {max(offered)}; {_PLATFORM}",
        advice=f"set {name} = {max(offered)} or less, or leave it out",
    )


def _smallest(role: str, disk: Disk, network: NetworkSettings) -> Disk:
    """Return the network's disk that a role's hosts take: of what is usual, nothing is said."""
    offered = _offered(network)
    size = smallest_fitting(disk.size_gib or 0, offered[f"{role}_disk_sizes_gib"])
    mibps = smallest_fitting(disk.throughput_mibps or 0, offered["worker_disk_throughputs_mibps"])
    usual: int = getattr(network, f"{role}_disk_size_gib")
    return Disk(None if size == usual else size, None if mibps == FREE_MIBPS else mibps)


def _offered(network: NetworkSettings) -> dict[str, list[int]]:
    """Return what disks may have: setting of the network -> values, what is usual and what is more
    than that.
    """
    usual = {
        "scheduler_disk_sizes_gib": network.scheduler_disk_size_gib,
        "worker_disk_sizes_gib": network.worker_disk_size_gib,
        "worker_disk_throughputs_mibps": FREE_MIBPS,
    }
    return {
        setting: [least, *sorted(each for each in getattr(network, setting) if each > least)]
        for setting, least in usual.items()
    }


# ---- which hosts have GPUs, and their templates --------------------------------------------------

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
