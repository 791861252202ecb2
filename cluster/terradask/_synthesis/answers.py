"""Provide a stack's locked answers: from the lock file, else the deployed stack, else new ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from terradask._catalog.quotas.check import GroupTypes
from terradask._common.progress import Progress, silent
from terradask._synthesis.container import check_container, check_no_gpus, lock_container
from terradask._synthesis.images import check_gpu_disks, check_own_disks
from terradask._synthesis.resolve_cluster import (
    Place,
    named_or_default,
    resolve_cluster,
    still_holds,
    types_in,
    zones_for,
)
from terradask._synthesis.resolve_hardware import (
    ZONE,
    ClusterHardware,
    find_hardware,
    requested_hardware,
)
from terradask._synthesis.resolve_network import resolve_network
from terradask_stacks.checks import (
    check_capacity,
    check_egress,
    check_reachable,
    check_secrets_reachable,
)
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.ingress import check_dashboard_https, check_ingress, check_ports
from terradask_stacks.loading import LoadedSettings
from terradask_stacks.lock import ClusterLock, NetworkLock, read_lock, write_lock
from terradask_stacks.settings import ClusterSettings, IngressRule, NetworkSettings, Settings
from terradask_stacks.worker_disks import (
    check_blocks,
    check_disks_offered,
    locked_disks,
    network_disks,
)

if TYPE_CHECKING:
    from collections.abc import Container

    from terradask._aws.session import Aws
    from terradask._network.baseline import Baseline


@dataclass(frozen=True)
class ClusterAnswers:
    """The input of a cluster's stack."""

    #: All settings; the cluster's in its section.
    settings: Settings
    lock: ClusterLock


@dataclass(frozen=True)
class HardwareExplanation:
    """The requested hardware, today's choice for it, and the locked types."""

    cluster: str
    #: The choice with today's types and prices.
    chosen: ClusterHardware
    #: Group -> its locked types; empty if nothing is locked for this request.
    locked: Mapping[str, Sequence[str]]

    @property
    def changed(self) -> dict[str, Sequence[str]]:
        """The groups whose locked types differ from today's choice."""
        return {
            group: types
            for group, types in self.locked.items()
            if list(types) != self.chosen.types().get(group)
        }

    def explain(self) -> str:
        """Return it as several lines of plain text."""
        lines = [
            (
                f"{group}: locked since its first plan: {', '.join(types)}; `terradask "
                f"plan --refresh {self.cluster}` chooses again"
            )
            for group, types in self.changed.items()
        ]
        return "\n\n".join([self.chosen.explain(), *lines])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {
            "cluster": self.cluster,
            **self.chosen.as_dict(),
            "locked": {group: list(types) for group, types in self.locked.items()},
        }


def check_network(loaded: LoadedSettings, aws: Aws) -> list[Finding]:
    """Check the network's given resources, and the names that clusters keep. Raises
    `SettingsError`.
    """
    from terradask._network.given import check_change, check_given

    check_change(loaded.settings, aws)
    return [*check_given(loaded.settings, aws), *_open_to_anywhere(loaded.settings.network)]


def _open_to_anywhere(network: NetworkSettings) -> list[Finding]:
    return [
        Finding(
            where="network.ingress",
            problem="schedulers are open to the whole internet: only mutual TLS protects them",
            given=rule.cidr,
            allowed="the addresses that your clients come from, such as 203.0.113.7/32",
            advice='name them, or use cluster.connect = "ssm", which needs no rule',
        )
        for rule in network.ingress
        if rule.is_anywhere
    ]


def network_lock(loaded: LoadedSettings, aws: Aws, *, refresh: bool, check: bool) -> NetworkLock:
    """Return the network's locked answers; new ones are written to the lock file."""
    lock_file = read_lock(loaded.lock_path)
    lock = resolve_network(loaded.settings, aws, lock_file.network, refresh=refresh, check=check)
    if lock != lock_file.network:
        write_lock(loaded.lock_path, lock_file.with_network(lock))
    return lock


def on_deployed_network(loaded: LoadedSettings, baseline: Baseline) -> LoadedSettings:
    """Return settings with isolation and encryption as deployed. Raises `SettingsError`."""
    loaded = encrypting(loaded, baseline.kms_key_arn)
    workspace, deployed = loaded.settings.workspace, baseline.isolation
    if workspace.isolation == deployed:
        return loaded
    origin = loaded.origins.get("workspace.isolation")
    if origin is not None:
        raise SettingsError.of(
            where="workspace.isolation",
            problem="the network was deployed with another value",
            given=workspace.isolation,
            allowed=f'"{deployed}", the deployed value',
            advice="leave it out, or run: terradask apply network",
        )
    settings = loaded.settings.model_copy(
        update={"workspace": workspace.model_copy(update={"isolation": deployed})}
    )
    return replace(loaded, settings=settings)


def encrypting(loaded: LoadedSettings, kms_key_arn: str | None) -> LoadedSettings:
    """Return settings with the key of the workspace's bucket."""
    if loaded.settings.network.kms_key_arn == kms_key_arn:
        return loaded
    network = loaded.settings.network.model_copy(update={"kms_key_arn": kms_key_arn})
    return replace(loaded, settings=loaded.settings.model_copy(update={"network": network}))


@dataclass(frozen=True)
class ClusterResolver:
    """Check clusters' settings against their network, and resolve open answers."""

    loaded: LoadedSettings
    aws: Aws
    progress: Progress

    def deployed(
        self, name: str, baseline: Baseline, lock: Mapping[str, Any] | None, *, refresh: bool
    ) -> ClusterAnswers:
        """Return a cluster's answers on the deployed network; `lock` has its deployed answers."""
        settings = self.loaded.settings.for_cluster(name)
        network = _as_deployed(settings.network, baseline, settings.cluster.zone_name)
        _check(settings, network, None, baseline.zones, given="security_groups" in baseline.given)
        given_profiles = "instance_profiles" in baseline.given
        check_container(network, settings.cluster, given_profiles=given_profiles)
        check_disks_offered(
            settings.workspace,
            network,
            settings.cluster,
            unknown={name for name, menu in baseline.offered_disks.items() if menu is None},
        )
        check_own_disks(settings.cluster, read_lock(self.loaded.lock_path).network)
        place, earlier = self._place(baseline), self._earlier(name, lock)
        found = resolve_cluster(
            settings.cluster, place, self.aws, earlier, refresh=refresh, progress=self.progress
        )
        resolved = self._locked(name, found, None if refresh else earlier)
        policies = baseline.task_policies(name)
        return self._with_networks(ClusterAnswers(settings, resolved), network, policies)

    def declared(self, name: str, network: NetworkLock) -> ClusterAnswers:
        """Return a declared cluster's answers on the network of the same file, deployed or not."""
        settings = self.loaded.settings.for_cluster(name)
        given = settings.network.security_groups is not None
        _check(settings, settings.network, network, network.zones, given=given)
        given_profiles = settings.network.instance_profiles is not None
        check_container(settings.network, settings.cluster, given_profiles=given_profiles)
        check_disks_offered(settings.workspace, settings.network, settings.cluster)
        check_own_disks(settings.cluster, network)
        place = Place(
            network.account,
            network.partition,
            frozenset(network.zones),
            frozenset(network.image_ids),
            workspace=settings.workspace.name,
            given=settings.network.vpc_id is not None,
        )
        earlier = self._earlier(name, None)
        found = resolve_cluster(settings.cluster, place, self.aws, earlier, progress=self.progress)
        lock = self._locked(name, found, earlier)
        isolated = settings.workspace.isolation == "cluster"
        policies = settings.network.policies_of(name) if isolated else []
        return self._with_networks(ClusterAnswers(settings, lock), settings.network, policies)

    def explain(
        self, name: str, baseline: Baseline, lock: Mapping[str, Any] | None
    ) -> HardwareExplanation:
        """Return a cluster's instance types on the deployed network, with reasons."""
        cluster = self.loaded.settings.cluster_named(name)
        place, earlier = self._place(baseline), self._earlier(name, lock)
        held = earlier if earlier is not None and still_holds(earlier, cluster, place) else None
        chosen = find_hardware(
            cluster,
            zones_for(cluster, place),
            self.aws,
            progress=self.progress,
            preferred=None if earlier is None else earlier.zone,
            workspace=place.workspace,
            with_catalog=True,
        )
        if held is not None and held.zone == chosen.zone and ZONE in held.reasons:
            chosen = replace(chosen, why_zone=held.reasons[ZONE].removeprefix(f"{held.zone}: "))
        return HardwareExplanation(name, chosen, {} if held is None else types_in(held))

    def _place(self, baseline: Baseline) -> Place:
        return Place(
            baseline.account,
            self.aws.partition,
            frozenset(baseline.zones),
            baseline.architectures,
            workspace=self.loaded.settings.workspace.name,
            given="vpc" in baseline.given,
        )

    def _earlier(self, name: str, deployed: Mapping[str, Any] | None) -> ClusterLock | None:
        """Return earlier answers: those in the lock file, else the deployed ones."""
        written = read_lock(self.loaded.lock_path).clusters.get(name)
        if written is None and deployed is not None:
            return ClusterLock.model_validate(deployed)
        return written

    def _with_networks(
        self, answers: ClusterAnswers, network: NetworkSettings, policies: list[str]
    ) -> ClusterAnswers:
        """Add the network's templates and managed policies, which each plan looks up again."""
        settings, lock = answers.settings, answers.lock
        disks = network_disks(settings.workspace, network, settings.cluster)
        if not settings.cluster.own_disk_settings:
            disks = None
        found = {
            **locked_disks(disks),
            "gpu_image": bool(lock.gpus) and network.gpu_images,
            "task_policies": policies,
        }
        check_gpu_drivers(settings.cluster, lock, network)
        check_blocks(settings.workspace, network, lock)
        answers = replace(answers, lock=lock.model_copy(update=found))
        check_gpu_disks(settings, answers.lock, read_lock(self.loaded.lock_path).network)
        return answers

    def _locked(self, name: str, lock: ClusterLock, known: ClusterLock | None) -> ClusterLock:
        """Add the container, and lock a declared cluster's answers, so that all machines plan the
        same.
        """
        settings, path = self.loaded.settings, self.loaded.lock_path
        cluster = settings.cluster_named(name)
        check_no_gpus(cluster, lock)
        container = lock_container(cluster, lock.architecture, known, self.aws, self.progress)
        lock = lock.model_copy(update={"container": container})
        if name in settings.clusters:
            lock_file = read_lock(path)
            if lock != lock_file.clusters.get(name):
                write_lock(path, lock_file.with_cluster(name, lock))
        return lock


def _check(
    settings: Settings,
    network: NetworkSettings,
    lock: NetworkLock | None,
    zones: Collection[str],
    *,
    given: bool,
) -> None:
    """Refuse cluster settings that don't fit a network, deployed or of the same file."""
    cluster = settings.cluster
    check_egress(network)
    check_reachable(network, cluster)
    check_secrets_reachable(network, cluster, settings.workspace.region)
    check_ports(settings.workspace, network, cluster)
    check_ingress(settings.workspace, network, cluster)
    check_dashboard_https(settings.workspace, network.ingress, cluster, given=given)
    # A lock has no given subnets.
    if lock is None or network.vpc_id is None:
        spread = len(zones) if cluster.allow_cross_zone else 1
        check_capacity(network, lock, cluster.most_hosts, zones=spread)


def _as_deployed(network: NetworkSettings, baseline: Baseline, zone: str | None) -> NetworkSettings:
    """Return the network's settings, with the deployed values of those that affect clusters."""
    # Given subnets differ in size: the cluster's zone counts, or the largest one.
    largest = min(baseline.zones.values(), key=lambda each: ip_network(each.private_cidr).prefixlen)
    subnets = baseline.zones.get(zone or "", largest)
    deployed = {
        "nat": baseline.nat,
        "interface_endpoints": list(baseline.interface_endpoints),
        "container_repositories": list(baseline.container_repositories),
        "public_workers": baseline.public_workers,
        "public_schedulers": baseline.public_schedulers,
        "session_manager": baseline.session_manager,
        # Including one that the network creates for addresses.
        "notify_topic_arn": baseline.notify_topic_arn,
        "notify_emails": [],
        "allow_ingress_from_anywhere": baseline.allow_ingress_from_anywhere,
        "ingress": [IngressRule(ports=rule.ports, cidr=rule.cidr) for rule in baseline.ingress],
        "cluster_launch_templates": baseline.cluster_launch_templates,
        "gpu_images": baseline.gpu is not None,
        **{name: menu or [] for name, menu in baseline.offered_disks.items()},
        **{f"{role}_disk_size_gib": size for role, size in baseline.launch.disk_size_gib.items()},
        "vpc_id": baseline.vpc_id if "vpc" in baseline.given else None,
        "public_subnet_prefix_length": ip_network(subnets.public_cidr).prefixlen,
        "private_subnet_prefix_length": ip_network(subnets.private_cidr).prefixlen,
    }
    return network.model_copy(update=deployed)


def group_types(
    loaded: LoadedSettings, aws: Aws, clusters: Mapping[str, ClusterSettings], zones: Sequence[str]
) -> GroupTypes:
    """Return the instance types of clusters' groups, locked or not: cluster -> group -> types."""
    locked = read_lock(loaded.lock_path).clusters
    found: dict[str, Mapping[str, Sequence[str]]] = {}
    for name, cluster in clusters.items():
        lock = locked.get(name)
        if lock is not None and lock.asked == requested_hardware(cluster):
            found[name] = types_in(lock)
        elif not cluster.has_reservation and all(
            request.is_by_name for request in cluster.hardware_requests.values()
        ):
            found[name] = named_or_default(cluster)
        else:
            wanted = (
                zones
                if cluster.zone_name is None or cluster.allow_cross_zone
                else [cluster.zone_name]
            )
            found[name] = find_hardware(cluster, wanted, aws, progress=silent).types()
    return found


# ---- drivers for GPUs ----------------------------------------------------------------------------


#: AWS (documented): NVIDIA's open driver, as in AWS's Deep Learning AMI, supports g4dn, g5 and
#: newer GPU families only.
#: https://docs.aws.amazon.com/dlami/latest/devguide/aws-deep-learning-ami-gpubaseoss-al2023-2026-05-20.html
_WITHOUT_OPEN_DRIVER = frozenset({"p2", "p3", "p3dn", "g2", "g3", "g3s", "g4ad"})

#: Settings that give a group GPUs, by precedence.
_ASKS_FOR_GPUS = ("gpu_type", "gpu", "vm_types")


def check_gpu_drivers(
    cluster: ClusterSettings, lock: ClusterLock, network: NetworkSettings
) -> None:
    """Refuse hosts with GPUs that would start without a driver. Raises `SettingsError`.

    AWS doesn't show whether a given image has one.
    """
    if not lock.gpus or (network.images and not network.gpu_images):
        return
    if not network.gpu_images:
        raise SettingsError.of(
            where=_where(cluster, lock, lock.gpus),
            problem="hosts with GPUs would start without a driver",
            given=", ".join(sorted(lock.gpus)),
            allowed="a network with gpu_images = true, or with an image of yours",
            advice="set network.gpu_images = true and run: terradask apply network",
        )
    old = sorted(name for name in lock.gpus if name.partition(".")[0] in _WITHOUT_OPEN_DRIVER)
    if old:
        raise SettingsError.of(
            where=_where(cluster, lock, old),
            problem="the network's image for hosts with GPUs has no driver for these",
            given=", ".join(old),
            allowed="G4dn, G5, G6, P4 and newer, or G5g, which NVIDIA's open driver supports",
            advice="request another GPU; or leave out network.gpu_images, and set network.image to "
            "an image with drivers",
        )


def _where(cluster: ClusterSettings, lock: ClusterLock, types: Container[str]) -> str:
    """Return the setting that gives a group one of these types, the workers' first."""
    group = next(
        group for group, names in types_in(lock).items() if any(name in types for name in names)
    )
    request = cluster.hardware_requests[group]
    asked = next((each for each in _ASKS_FOR_GPUS if getattr(request, each)), "gpu")
    return f"cluster.{request.option(asked)}"
