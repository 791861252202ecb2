"""Scan all resources with a workspace's tag, and its clusters in the bucket. Read-only."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from terradask._aws.listing import listed
from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._aws.tags import tag_filters
from terradask._aws.translation import time_of
from terradask._catalog.prices.prices import gp3_volume, parts_of_host, parts_of_secret
from terradask._cleanup.orphans import Deployed, Inventory, Item, NotVisible, OldPlan, OrphanLock
from terradask._cleanup.resources import NETWORK_INTERFACE, VOLUME, Resource, outermost
from terradask._cleanup.search import (
    ClusterSearch,
    describe_secret,
    find_groups,
    find_in_ec2,
    find_secrets,
)
from terradask._network.deployed import cluster_of_key, is_cluster_name
from terradask._observe.instances import Instance, find_instances
from terradask._observe.record import ClusterRecord
from terradask._observe.store import CLOSING, DESCRIPTOR, RUN, STATE, STATE_LOCK, ClusterObjects
from terradask._plans.basis import PLAN_LIFETIME
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state.lock import proof_of_end
from terradask._terraform.state.s3 import S3Backend
from terradask.errors import AccessDenied, BackendMissing, DocumentFormat, FolderBusy
from terradask_host.documents import plain_text
from terradask_modules.kinds import KINDS
from terradask_modules.names import (
    IMAGE_REPORTS,
    IMAGE_ROLE,
    NETWORK_STACK,
    ROLES,
    TAG_CLUSTER,
    TAG_DESCRIPTOR,
    TAG_WORKSPACE,
    cluster_key,
    host_name,
)
from terradask_modules.where import Where

if TYPE_CHECKING:
    from terradask._network.deployed import DeployedNetwork


Found = TypeVar("Found")

_PARALLEL = 16
#: State of a volume or an interface without an attachment.
_AVAILABLE = {"Name": "status", "Values": ["available"]}


@dataclass(eq=False, repr=False)
class Scan:
    """One scan of a workspace.

    Resources that the caller may not read are left out and listed. The bucket is required: only
    it shows what is live.

    Permissions needed: ``s3:ListBucket`` and ``s3:GetObject`` on ``clusters/*``;
    ``autoscaling:DescribeAutoScalingGroups``; ``ec2:DescribeInstances``, ``DescribeVolumes``,
    ``DescribeNetworkInterfaces``; ``secretsmanager:ListSecrets``, ``DescribeSecret``; those of
    `ClusterSearch`.
    """

    aws: Aws
    network: DeployedNetwork
    #: The folder that contains each stack's folder.
    stacks: Path
    #: The folder of saved plans.
    plans: Path
    network_state: S3Backend
    _unseen: list[NotVisible] = field(default_factory=list, init=False)
    #: Locks whose owners are provably gone.
    _dead: list[OrphanLock] = field(default_factory=list, init=False)
    #: Keys that no cluster can have.
    _strange_keys: list[str] = field(default_factory=list, init=False)

    @property
    def _where(self) -> Where:
        return self.network.where

    def run(self) -> Inventory:
        """Scan. Raises `AccessDenied`."""
        seen_at, listed = self._list_objects()
        with ThreadPoolExecutor(_PARALLEL) as pool:
            groups = pool.submit(self._unless_denied, "Auto Scaling groups", self._groups)
            rest = [
                pool.submit(self._unless_denied, what, find)
                for what, find in (
                    ("instances", self._instances),
                    ("volumes", self._volumes),
                    ("network interfaces", self._interfaces),
                    ("secrets", self._secrets),
                )
            ]
            deployed = {
                one.name: one
                for one in pool.map(
                    lambda name: self._read_deployed(name, listed[name]), sorted(listed)
                )
            }
            seen_groups = groups.result()
            items = [item for each in rest for item in each.result() or ()]
        self._scan_network_lock()
        names = None if seen_groups is None else self._existing(seen_groups, items)
        items += seen_groups or ()
        items += self._resources_of_orphans(
            {item.cluster for item in items if item.cluster} | deployed.keys(), deployed
        )
        return Inventory(
            workspace=self._where.workspace,
            seen_at=seen_at,
            items=tuple(self._unless_gone(items, deployed)),
            deployed=deployed,
            groups=names,
            orphan_locks=tuple(self._dead),
            old_plans=tuple(_old_plans(self.plans, seen_at)),
            unseen=tuple(self._unseen),
            strange_keys=tuple(self._strange_keys),
        )

    def _scan_network_lock(self) -> None:
        # Without a bucket there is no lock; without read permission none can be broken.
        with suppress(BackendMissing, AccessDenied):
            self._process_on_stack(NETWORK_STACK, self.network_state)

    # ---- the bucket ------------------------------------------------------------------------------

    def _list_objects(self) -> tuple[datetime.datetime, dict[str, dict[str, datetime.datetime]]]:
        """Return AWS's time, and the dates of each cluster's objects; empty without a bucket."""
        listed: dict[str, dict[str, datetime.datetime]] = {}
        seen_at = datetime.datetime.now(datetime.UTC)
        for page in ObjectStore(self.aws, self._where.bucket).pages("clusters/"):
            # AWS's clock dates the objects, so it also measures their age.
            seen_at = time_of(page) or seen_at
            for entry in page.get("Contents", ()):
                if entry["Key"].startswith(IMAGE_REPORTS):
                    continue
                key = entry["Key"].removeprefix("clusters/")
                cluster = cluster_of_key(key)
                if cluster is None:
                    self._strange_keys.append(plain_text(entry["Key"]))
                else:
                    listed.setdefault(cluster, {})[key.partition("/")[2]] = entry["LastModified"]
        return seen_at, listed

    def _read_deployed(self, name: str, listed: Mapping[str, datetime.datetime]) -> Deployed:
        """Return the state of one cluster by the dates of its objects."""
        is_whole, record = DESCRIPTOR in listed, ClusterRecord(self.aws, self._where.bucket, name)
        is_partial = not is_whole and STATE in listed and has_resources(record.objects)
        found = Deployed(
            name,
            max(listed.values()),
            is_whole=is_whole,
            has_resources=is_partial,
            closing_at=listed[CLOSING] if CLOSING in listed and record.marked_closing else None,
            started_at=listed.get(RUN),
        )
        place = S3Backend(self.aws, self._where.bucket, cluster_key(name, STATE))
        return replace(
            found, held=self._process_on_stack(name, place if STATE_LOCK in listed else None)
        )

    def _process_on_stack(self, stack: str, place: S3Backend | None) -> str | None:
        """Return the process that works on a stack; record a lock whose owner is provably gone."""
        folder, killed = self.stacks / stack, None
        if folder.with_name(f".{folder.name}.lock").exists():
            try:
                with FolderLock(folder, limit_seconds=0) as folder_lock:
                    killed = folder_lock.killed
            except FolderBusy as busy:
                return busy.problem
        lock = None if place is None else place.lock()
        if lock is None:
            return None
        proof = proof_of_end(lock, killed)
        if proof is None:
            return f"its state is {lock.describe()}"
        since = (
            None
            if lock.seconds is None
            else datetime.datetime.fromtimestamp(lock.seconds, datetime.UTC)
        )
        self._dead.append(OrphanLock(stack, since, proof))
        return None

    # ---- AWS -------------------------------------------------------------------------------------

    def _unless_denied(self, what: str, find: Callable[[], Found]) -> Found | None:
        try:
            return find()
        except AccessDenied as denied:
            self._unseen.append(NotVisible(what, denied.action))
            return None

    def _groups(self) -> list[Item]:
        client, filters = self.aws.client("autoscaling"), tag_filters(self._where.tags)
        return [_item(group) for group in find_groups(client, Filters=filters)]

    def _existing(self, groups: Iterable[Item], items: Iterable[Item]) -> frozenset[str]:
        """Return the existing groups, and untagged ones that instances name."""
        tagged = {group.id for group in groups}
        named = sorted({item.group for item in items if item.group is not None} - tagged)
        if not named:
            return frozenset(tagged)
        client, method = self.aws.client("autoscaling"), "describe_auto_scaling_groups"
        found = listed(client, method, "AutoScalingGroups", AutoScalingGroupNames=named)
        return frozenset(tagged | {group["AutoScalingGroupName"] for group in found})

    def _instances(self) -> list[Item]:
        try:
            found = find_instances(self.aws, workspace=self._where.workspace)
        except AccessDenied:
            # Without volume sizes, which only a price needs.
            found = find_instances(self.aws, workspace=self._where.workspace, with_volumes=False)
        return [_instance(instance, self.aws.region) for instance in found]

    def _volumes(self) -> list[Item]:
        return [
            replace(
                self._part_of_host(volume),
                parts=gp3_volume(volume.description["Size"], volume.description).parts(
                    self.aws.region
                )
                if volume.description["VolumeType"] == "gp3"
                else None,
            )
            for volume in find_in_ec2(self.aws.client("ec2"), VOLUME, self._where, _AVAILABLE)
        ]

    def _interfaces(self) -> list[Item]:
        ec2 = self.aws.client("ec2")
        found = find_in_ec2(ec2, NETWORK_INTERFACE, self._where, _AVAILABLE)
        return [self._part_of_host(interface) for interface in found]

    def _part_of_host(self, resource: Resource) -> Item:
        item = _item(resource)
        names = {
            host_name(self._where.workspace, role, cluster)
            for role in ROLES
            for cluster in (None, item.cluster)
        }
        return replace(item, is_hosts=resource.tags.get("Name") in names)

    def _secrets(self) -> list[Item]:
        client = self.aws.client("secretsmanager")
        return [
            replace(
                _item(secret),
                ends_at=secret.description.get("DeletedDate"),
                is_private=TAG_DESCRIPTOR in secret.tags,
                # AWS (documented, secret-price): Secrets Manager bills secrets by the month,
                # prorated, but none that is scheduled for deletion.
                # https://aws.amazon.com/secrets-manager/pricing/
                parts=()
                if secret.description.get("DeletedDate")
                else parts_of_secret(self.aws.region),
            )
            for secret in find_secrets(client, self._where, IncludePlannedDeletion=True)
        ]

    def _unless_gone(
        self, items: Iterable[Item], deployed: Mapping[str, Deployed]
    ) -> Iterator[Item]:
        """Leave out deleted secrets: the list of secrets is up to five minutes old."""
        client = self.aws.client("secretsmanager")
        for item in items:
            if item.kind == "secret" and not _is_live(deployed.get(item.cluster or "")):
                try:
                    if describe_secret(client, item.id) is None:
                        continue
                except AccessDenied:
                    self._unseen.append(
                        NotVisible(f"secret {item.id}", "secretsmanager:DescribeSecret")
                    )
                    continue
            yield item

    def _resources_of_orphans(
        self, known: set[str], deployed: Mapping[str, Deployed]
    ) -> list[Item]:
        """Return resources of clusters without a deployment."""
        search = ClusterSearch.on(self.aws, self.network)

        def own(cluster: str) -> list[Resource]:
            return outermost(search.find(cluster))

        what = "clusters' own resources in EC2"
        known |= self._unless_denied(what, search.clusters_in_ec2) or set()
        what = "roles of clusters without other resources"
        known |= self._unless_denied(what, partial(search.clusters_with_roles, known)) or set()
        found = [
            self._unless_denied(f"own resources of {name}", partial(own, name)) or []
            for name in sorted(known)
            if is_cluster_name(name) and not _is_live(deployed.get(name))
        ]
        return [_item(resource) for resources in found for resource in resources]


def has_resources(objects: ClusterObjects) -> bool:
    """Return whether a cluster's state has resources; True if the state can't be read."""
    try:
        state = objects.read(STATE)
    except DocumentFormat:
        # Terraform reports the problem when the cluster is destroyed.
        return True
    return bool((state or {}).get("resources"))


def _is_live(deployed: Deployed | None) -> bool:
    return deployed is not None and deployed.is_whole and not deployed.is_closing


def _owner(workspace: str | None, cluster: str | None) -> tuple[str | None, str | None]:
    """Return an item's workspace and cluster; neither for an invalid cluster name."""
    return (workspace, cluster) if cluster is None or is_cluster_name(cluster) else (None, None)


def _instance(instance: Instance, region: str) -> Item:
    return Item(
        "instance",
        instance.id,
        *_owner(instance.workspace, instance.cluster),
        instance.launched_at,
        group=instance.autoscaling_group,
        is_for_image=instance.role == IMAGE_ROLE,
        parts=parts_of_host(instance.host, region, is_on=instance.is_on),
    )


def _item(resource: Resource) -> Item:
    kind = KINDS[resource.type]
    born = None if kind.born is None else resource.description.get(kind.born)
    whose = _owner(resource.tags.get(TAG_WORKSPACE), resource.tags.get(TAG_CLUSTER))
    return Item(kind.orphan, resource.id, *whose, born, resource=resource)


def _old_plans(folder: Path, now: datetime.datetime) -> Iterator[OldPlan]:
    for path in sorted(folder.glob("*.tfplan")):
        try:
            planned_at = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
        except FileNotFoundError:
            continue
        if now - planned_at > PLAN_LIFETIME:
            yield OldPlan(str(path), planned_at)
