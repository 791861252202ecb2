"""One look at everything that carries a workspace's tag, and at what its bucket has of each cluster. Changes nothing."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from terradask._cleanup.bucket_scan import BucketLook, is_cluster_name
from terradask._cleanup.inventory import Deployed, Inventory, Item, Kind, NotVisible, OldPlan
from terradask._cleanup.resources import outermost
from terradask._cleanup.search import clusters_in_ec2, clusters_with_roles, find_cluster
from terradask._deployments.instances import Instance, find_instances, tags_of
from terradask._plans.basis import PLAN_LIFETIME
from terradask._pricing.running import parts_of_host, parts_of_secret, parts_of_volume
from terradask._terraform.state.s3 import S3Place
from terradask.errors import AccessDenied, BackendMissing
from terradask_modules.names import NETWORK_STACK, ROLES, TAG_CLUSTER, TAG_WORKSPACE, host_name, secrets_prefix

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._cleanup.resources import Resource
    from terradask._network.baseline import Isolated
    from terradask._terraform.state.backend import StateBackend

Found = TypeVar("Found")

_PARALLEL = 16

#: Terraform's type of what isolated clusters have of their own -> its kind, and what AWS calls its date; None where it knows none.
_OWN_KINDS: Mapping[str, tuple[Kind, str | None]] = {
    "aws_launch_template": ("launch-template", "CreateTime"),
    "aws_security_group": ("security-group", None),
    "aws_iam_role": ("role", "CreateDate"),
    "aws_iam_instance_profile": ("instance-profile", "CreateDate"),
}


@dataclass(frozen=True)
class Looked:
    """Where a look looks.

    Parameters
    ----------
    aws
        Session for the workspace's account and region.
    workspace, bucket
        Names.
    isolated
        Returns how the roles of clusters' own are named; None where clusters have nothing of the kind.
    own_templates
        Returns whether clusters may have launch templates of their own even so.
    folder_of
        Returns the folder of a stack.
    plans
        The folder of saved plans.
    network_state
        Returns where the network's state lies.
    """

    aws: Aws
    workspace: str
    bucket: str
    isolated: Callable[[], Isolated | None]
    own_templates: Callable[[], bool]
    folder_of: Callable[[str], Path]
    plans: Path
    network_state: Callable[[], StateBackend]


def look(where: Looked) -> Inventory:
    """Look at everything once.

    What the caller may not look at is left out, and said to be. The bucket is needed: it alone says what lives.

    Raises
    ------
    AccessDenied
        If the caller may not list the bucket, or read the clusters' objects in it.

    Notes
    -----
    Permissions needed: ``s3:ListBucket`` and ``s3:GetObject`` on ``clusters/*``; ``autoscaling:DescribeAutoScalingGroups``;
    ``ec2:DescribeInstances``, ``DescribeVolumes``, ``DescribeNetworkInterfaces``; ``secretsmanager:ListSecrets``, ``DescribeSecret``; where
    clusters have things of their own, also those of `find_cluster` and ``iam:ListRoles``.
    """
    return _Look(where).run()


class _Look:
    def __init__(self, where: Looked) -> None:
        self._where = where
        self._aws = where.aws
        self._unseen: list[NotVisible] = []
        self._bucket = BucketLook(where.aws, where.bucket, where.folder_of)

    def run(self) -> Inventory:
        seen_at, listed = self._bucket.listed()
        # Clients are made here: boto3's sessions are not safe while they make one.
        for service in ("ec2", "autoscaling", "secretsmanager", "iam"):
            self._aws.client(service)
        with ThreadPoolExecutor(_PARALLEL) as pool:
            groups = pool.submit(self._unless_denied, "Auto Scaling groups", "autoscaling:DescribeAutoScalingGroups", self._groups)
            rest = [
                pool.submit(self._unless_denied, "instances", "ec2:DescribeInstances", self._instances),
                pool.submit(self._unless_denied, "volumes", "ec2:DescribeVolumes", self._volumes),
                pool.submit(self._unless_denied, "network interfaces", "ec2:DescribeNetworkInterfaces", self._interfaces),
                pool.submit(self._unless_denied, "secrets", "secretsmanager:ListSecrets", self._secrets),
            ]
            deployed = {one.name: one for one in pool.map(lambda name: self._bucket.deployed(name, listed[name]), sorted(listed))}
            seen_groups = groups.result()
            things = [thing for each in rest for thing in each.result() or ()]
        self._look_at_network_lock()
        names = None if seen_groups is None else self._existing(seen_groups, things)
        things += seen_groups or ()
        things += self._own_of_orphans({thing.cluster for thing in things if thing.cluster} | deployed.keys(), deployed)
        return Inventory(
            workspace=self._where.workspace,
            seen_at=seen_at,
            things=tuple(self._unless_gone(things, deployed)),
            deployed=deployed,
            groups=names,
            dead_locks=tuple(self._bucket.dead),
            old_plans=tuple(_old_plans(self._where.plans, seen_at)),
            unseen=tuple(self._unseen),
        )

    def _look_at_network_lock(self) -> None:
        place = self._where.network_state()
        if isinstance(place, S3Place):
            # Without its bucket there is no lock either.
            with suppress(BackendMissing):
                self._unless_denied("the lock on the network's state", "s3:GetObject", partial(self._bucket.held, NETWORK_STACK, place))

    # ---- AWS ----------------------------------------------------------------------------------------------------------

    def _unless_denied(self, what: str, action: str, find: Callable[[], Found]) -> Found | None:
        try:
            with self._aws.explained():
                return find()
        except AccessDenied as denied:
            self._unseen.append(NotVisible(what, denied.action if ":" in denied.action else action))
            return None

    def _pages(self, service: str, operation: str, **request: Any) -> Iterator[Mapping[str, Any]]:
        yield from self._aws.client(service).get_paginator(operation).paginate(**request)

    @property
    def _tagged(self) -> dict[str, Any]:
        return {"Name": f"tag:{TAG_WORKSPACE}", "Values": [self._where.workspace]}

    def _groups(self) -> list[Item]:
        return [
            _thing("group", group["AutoScalingGroupName"], group.get("Tags"), group.get("CreatedTime"))
            for page in self._pages("autoscaling", "describe_auto_scaling_groups", Filters=[self._tagged])
            for group in page["AutoScalingGroups"]
            # One that is being deleted is still shown for a while.
            if not group.get("Status")
        ]

    def _existing(self, groups: Iterable[Item], things: Iterable[Item]) -> frozenset[str]:
        """Return the groups that exist, those among them that machines name though they carry no tag, or another one's."""
        tagged = {group.id for group in groups}
        named = sorted({thing.group for thing in things if thing.group is not None} - tagged)
        with self._aws.explained():
            pages = self._pages("autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=named) if named else ()
            return frozenset(tagged | {group["AutoScalingGroupName"] for page in pages for group in page["AutoScalingGroups"]})

    def _instances(self) -> list[Item]:
        try:
            found = find_instances(self._aws, workspace=self._where.workspace)
        except AccessDenied:
            # Without the sizes of volumes, which only a price needs.
            found = find_instances(self._aws, workspace=self._where.workspace, with_volumes=False)
        return [_machine(instance, self._aws.region) for instance in found]

    def _volumes(self) -> list[Item]:
        return [
            replace(
                self._part("volume", volume["VolumeId"], volume.get("Tags"), volume["CreateTime"]),
                parts=parts_of_volume(volume["Size"], self._aws.region) if volume["VolumeType"] == "gp3" else None,
            )
            for page in self._pages("ec2", "describe_volumes", Filters=[self._tagged, {"Name": "status", "Values": ["available"]}])
            for volume in page["Volumes"]
        ]

    def _interfaces(self) -> list[Item]:
        return [
            self._part("network-interface", interface["NetworkInterfaceId"], interface.get("TagSet"), None)
            for page in self._pages(
                "ec2", "describe_network_interfaces", Filters=[self._tagged, {"Name": "status", "Values": ["available"]}]
            )
            for interface in page["NetworkInterfaces"]
        ]

    def _part(self, kind: Kind, identity: str, listed: Any, born: datetime.datetime | None) -> Item:
        thing, tags = _thing(kind, identity, listed, born), tags_of(listed)
        names = {host_name(self._where.workspace, role, cluster) for role in ROLES for cluster in (None, thing.cluster)}
        return replace(thing, is_hosts=tags.get("Name") in names)

    def _secrets(self) -> list[Item]:
        request = {"Filters": [{"Key": "name", "Values": [secrets_prefix(self._where.workspace)]}], "IncludePlannedDeletion": True}
        return [
            replace(
                _thing("secret", secret["Name"], secret.get("Tags"), secret.get("CreatedDate")),
                ends_at=secret.get("DeletedDate"),
                # One that is scheduled for deletion costs nothing: https://aws.amazon.com/secrets-manager/pricing/
                parts=() if secret.get("DeletedDate") else parts_of_secret(self._aws.region),
            )
            for page in self._pages("secretsmanager", "list_secrets", **request)
            for secret in page["SecretList"]
        ]

    def _unless_gone(self, things: Iterable[Item], deployed: Mapping[str, Deployed]) -> Iterator[Item]:
        """Leave out secrets that are gone: the list of secrets is up to five minutes old. Those of what lives don't matter."""
        client = self._aws.client("secretsmanager")
        for thing in things:
            if thing.kind == "secret" and not _lives(deployed.get(thing.cluster or "")):
                try:
                    with self._aws.explained():
                        client.describe_secret(SecretId=thing.id)
                except client.exceptions.ResourceNotFoundException:
                    continue
                except AccessDenied:
                    self._unseen.append(NotVisible(f"secret {thing.id}", "secretsmanager:DescribeSecret"))
                    continue
            yield thing

    def _own_of_orphans(self, known: set[str], deployed: Mapping[str, Deployed]) -> list[Item]:
        """Return what clusters without a deployment have of their own, where clusters may have anything."""
        isolated = self._where.isolated()
        if isolated is None and not self._where.own_templates():
            return []
        workspace = self._where.workspace

        def own(cluster: str) -> list[Resource]:
            return outermost(find_cluster(self._aws, workspace=workspace, cluster=cluster, isolated=isolated))

        known |= (
            self._unless_denied(
                "clusters' own templates and security groups",
                "ec2:DescribeLaunchTemplates",
                lambda: clusters_in_ec2(self._aws, workspace=workspace, isolated=isolated),
            )
            or set()
        )
        if isolated is not None:
            known |= (
                self._unless_denied(
                    "roles of clusters of which nothing else is left",
                    "iam:ListRoles",
                    lambda: clusters_with_roles(self._aws, workspace=workspace, isolated=isolated, known=known),
                )
                or set()
            )
        found = [
            self._unless_denied(f"what {name} has of its own", "iam:GetRole", partial(own, name)) or []
            for name in sorted(known)
            if is_cluster_name(name) and not _lives(deployed.get(name))
        ]
        return [_owned(resource) for resources in found for resource in resources]


def _lives(deployed: Deployed | None) -> bool:
    return deployed is not None and deployed.is_whole and not deployed.is_closing


def _thing(kind: Kind, identity: str, listed: Any, born: datetime.datetime | None) -> Item:
    tags = tags_of(listed)
    return Item(kind, identity, *_owner(tags.get(TAG_WORKSPACE), tags.get(TAG_CLUSTER)), born)


def _owner(workspace: str | None, cluster: str | None) -> tuple[str | None, str | None]:
    """Return whose a thing is; with a name that no cluster of ours can have, nobody's: somebody else's tags."""
    return (workspace, cluster) if cluster is None or is_cluster_name(cluster) else (None, None)


def _machine(instance: Instance, region: str) -> Item:
    return Item(
        "instance",
        instance.id,
        *_owner(instance.workspace, instance.cluster),
        instance.launched_at,
        group=instance.autoscaling_group,
        parts=parts_of_host(instance.host, region, is_on=instance.is_on),
    )


def _owned(resource: Resource) -> Item:
    kind, date = _OWN_KINDS[resource.type]
    born = None if date is None else resource.description.get(date)
    whose = _owner(resource.tags.get(TAG_WORKSPACE), resource.tags.get(TAG_CLUSTER))
    return Item(kind, resource.id, *whose, born, resource=resource)


def _old_plans(folder: Path, now: datetime.datetime) -> Iterator[OldPlan]:
    for path in sorted(folder.glob("*.tfplan")):
        try:
            planned_at = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
        except FileNotFoundError:
            continue
        if now - planned_at > PLAN_LIFETIME:
            yield OldPlan(str(path), planned_at)
