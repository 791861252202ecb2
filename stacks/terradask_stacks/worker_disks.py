"""Which of the network's launch templates a cluster's disks take, or why none has such a disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.settings.disks import smallest_fitting

if TYPE_CHECKING:
    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import ClusterSettings, NetworkSettings, WorkspaceSettings

_PLATFORM = "to allow it for every cluster: network.cluster_launch_templates = true"


def own_templates(workspace: WorkspaceSettings, network: NetworkSettings) -> bool:
    """Return whether clusters have launch templates of their own for their disks."""
    return workspace.isolation == "cluster" or network.cluster_launch_templates


def offered_gib(workspace: WorkspaceSettings, network: NetworkSettings) -> list[int]:
    """Return the sizes of workers' disks for which the network has templates, beside its usual
    one.
    """
    return [] if own_templates(workspace, network) else network.larger_worker_disks_gib


def network_disks(
    workspace: WorkspaceSettings, network: NetworkSettings, cluster: ClusterSettings
) -> dict[str, int | None] | None:
    """Return the disks that a cluster takes from the network's menu: group of workers -> GiB.

    A group's None: the network's usual disk. Without a dictionary the cluster has launch templates
    of its own.
    """
    if own_templates(workspace, network):
        return None
    sizes = {
        name: smallest_fitting(
            disk.size_gib, [network.worker_disk_size_gib, *network.larger_worker_disks_gib]
        )
        for name, disk in cluster.own_disks.items()
        if name != "scheduler" and disk.size_gib is not None
    }
    usual = network.worker_disk_size_gib
    return {name: None if size == usual else size for name, size in sizes.items()}


def check_disks_offered(
    workspace: WorkspaceSettings,
    network: NetworkSettings,
    cluster: ClusterSettings,
    *,
    has_menu: bool = True,
) -> None:
    """Refuse disks for which the network has no launch template, if clusters may not have their
    own.

    Parameters
    ----------
    has_menu
        Whether the network was deployed by a version that makes templates for larger disks.

    Raises
    ------
    SettingsError
        Naming each setting of disks.
    """
    if own_templates(workspace, network):
        return
    findings = [
        finding
        for name, value in cluster.own_disk_settings.items()
        if (finding := _refused(name, value, network, has_menu=has_menu)) is not None
    ]
    if findings:
        raise SettingsError(findings)


def disk_conditions(
    name: str, workspace: WorkspaceSettings, cluster: ClusterSettings, lock: ClusterLock
) -> list[tuple[str, str]]:
    """Return what ``workspace.json`` must have for a cluster's disks: condition, message.

    Parameters
    ----------
    name
        The cluster's name.
    """
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
    return [
        (
            f'${{try(jsondecode(self.body).disks.worker["{size}"]["{lock.architecture}"].id, "") '
            '!= ""}',
            f"The network of workspace {workspace.name} has no launch template for workers' disks "
            f"of {size} GiB. If you plan the cluster beside its network, run: terradask apply "
            f"network; else plan it again: terradask plan {name}.",
        )
        for size in sorted({size for size in lock.network_disks_gib.values() if size is not None})
    ]


def _refused(name: str, value: int, network: NetworkSettings, *, has_menu: bool) -> Finding | None:
    if name.endswith("throughput"):
        return Finding(
            where=f"cluster.{name}",
            problem="the network's launch templates have the throughput that is free",
            given=value,
            allowed=f"no value, for 125 MiB/s; {_PLATFORM}",
            advice="leave it out; instance types with local disks have faster scratch space",
        )
    offers = _offers(network)[name == "scheduler_disk_size"]
    if smallest_fitting(value, offers) is not None:
        return None
    if name != "scheduler_disk_size" and not has_menu:
        return Finding(
            where=f"cluster.{name}",
            problem="the network was deployed by a version without larger disks",
            given=value,
            allowed=f"up to {max(offers)}",
            advice="run: terradask apply network",
        )
    return Finding(
        where=f"cluster.{name}",
        problem="no launch template of the network has a disk of this size",
        given=value,
        allowed=f"up to {max(offers)}; {_PLATFORM}",
        advice=f"set {name} = {max(offers)} or less, or leave it out",
    )


def _offers(network: NetworkSettings) -> Mapping[bool, list[int]]:
    """Return the sizes that there are: whether of schedulers -> GiB."""
    return {
        True: [network.scheduler_disk_size_gib],
        False: [network.worker_disk_size_gib, *network.larger_worker_disks_gib],
    }
