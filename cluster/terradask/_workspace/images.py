"""``Images``: list and delete the images that `terradask image build` makes of a workspace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from terradask._aws.listing import listed, listed_groups, listed_instances
from terradask._aws.tags import tag_filters, tags_of
from terradask._catalog.prices.price_list import AwsPriceList
from terradask._catalog.prices.prices import PriceKey
from terradask._cleanup.delete import end_instances
from terradask._common.dollars import exact_usd
from terradask._workspace.context import WorkspaceContext
from terradask.errors import AccessDenied, BaselineError, InUse, InvalidInput
from terradask_modules.names import (
    IMAGE_ROLE,
    TAG_CLUSTER,
    TAG_IMAGE_PREFIX,
    TAG_ROLE,
)
from terradask_stacks.lock import LOCK_NAME, read_lock
from terradask_stacks.settings.network import IMAGE_SETTINGS

if TYPE_CHECKING:
    from terradask_stacks.hardware.architecture import Architecture

#: States of an instance that is or can be on.
_ALIVE = ("pending", "running", "stopping", "stopped")


@dataclass(frozen=True)
class Image:
    """An image of a workspace's own."""

    id: str
    name: str
    architecture: str
    #: ``pending``, ``available``, ``failed``, …, as EC2 names it.
    state: str
    #: When it was made, UTC, in ISO 8601.
    created_at: str
    #: Size of its root volume.
    #: AWS (documented): EBS bills a snapshot by the blocks that were written.
    #: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-snapshots.html
    size_gib: int
    snapshots: tuple[str, ...]
    #: SHA-256 of the host program's wheel that it has.
    host_program: str
    #: terradask's version that made it.
    version: str
    #: The Python of clusters, and the named environment, that it has.
    python: str
    environment: str | None
    #: The image that it was made from.
    base: str
    #: The most that its snapshot costs a month, in US dollars; None without a price.
    most_monthly_usd: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON document."""
        return {**asdict(self), "snapshots": list(self.snapshots)}


def read_image(description: Mapping[str, Any]) -> Image:
    """Read EC2's description of an image."""
    tags = tags_of(description.get("Tags"))
    disks = [one["Ebs"] for one in description.get("BlockDeviceMappings", ()) if "Ebs" in one]
    return Image(
        id=description["ImageId"],
        name=description.get("Name", ""),
        architecture=description.get("Architecture", ""),
        state=description["State"],
        created_at=description.get("CreationDate", ""),
        size_gib=sum(disk.get("VolumeSize", 0) for disk in disks),
        snapshots=tuple(disk["SnapshotId"] for disk in disks if "SnapshotId" in disk),
        host_program=tags.get(f"{TAG_IMAGE_PREFIX}host-program", ""),
        version=tags.get(f"{TAG_IMAGE_PREFIX}version", ""),
        python=tags.get(f"{TAG_IMAGE_PREFIX}python", ""),
        environment=tags.get(f"{TAG_IMAGE_PREFIX}environment"),
        base=tags.get(f"{TAG_IMAGE_PREFIX}from", ""),
    )


@dataclass(frozen=True)
class Images:
    """The images of one workspace, found by their tags."""

    context: WorkspaceContext

    @property
    def tags(self) -> dict[str, str]:
        """The tags of images, their snapshots, and the instances that become images."""
        return {**self.context.network.where.tags, TAG_ROLE: IMAGE_ROLE}

    def find(self) -> list[Image]:
        """Return the images, the newest first, without prices.

        Permission needed: ``ec2:DescribeImages``.
        """
        ec2 = self.context.aws.client("ec2")
        answer = ec2.describe_images(Owners=["self"], Filters=tag_filters(self.tags))
        found = map(read_image, answer["Images"])
        return sorted(found, key=lambda image: (image.created_at, image.id), reverse=True)

    @staticmethod
    def setting(image: Image) -> str:
        """Return the setting that names an image."""
        architecture = cast("Architecture", image.architecture)
        return f"network.{IMAGE_SETTINGS[architecture]}"

    def monthly_usd_per_gib(self) -> Decimal | None:
        """Return the price of a GiB of snapshots a month, or None without one.

        Permission needed: ``pricing:GetProducts``.
        """
        key = PriceKey("snapshot-storage", self.context.aws.region)
        price = AwsPriceList(self.context.aws).look_up([key]).prices.get(key)
        return None if price is None else price.usd

    def users(self, image_id: str) -> list[str]:
        """Return what uses an image: settings, locked answers, the deployed network, and clusters
        by the launch templates of their groups.

        Permissions needed: ``autoscaling:DescribeAutoScalingGroups``,
        ``ec2:DescribeLaunchTemplateVersions``, and those of reading the network.
        """
        context, users = self.context, []
        for architecture, given in context.settings.network.images.items():
            if given == image_id:
                users.append(f"network.{IMAGE_SETTINGS[architecture]} in the settings")
        lock = read_lock(context.loaded.lock_path).network
        if lock is not None and image_id in lock.image_ids.values():
            users.append(LOCK_NAME)
        templates = dict(self._templates_of_groups())
        try:
            for by_architecture in context.network.baseline().templates.values():
                for one in by_architecture.values():
                    templates.setdefault((one.id, one.version), "the deployed network")
        except BaselineError:
            # Without a network, or one that another version deployed: its groups are found.
            pass
        found = {
            user for template, user in templates.items() if self._image_of(*template) == image_id
        }
        return [*users, *sorted(found)]

    def delete(self, image_id: str) -> Image:
        """Deregister an image and delete its snapshots, unless something uses it.

        Raises `InvalidInput` for an image that isn't the workspace's, `InUse`.

        Permissions needed: ``ec2:DeregisterImage``, ``ec2:DeleteSnapshot``, and those of `users`.
        """
        image = next((one for one in self.find() if one.id == image_id), None)
        if image is None:
            raise InvalidInput(
                f"workspace {self.context.name} has no such image",
                given=image_id,
                allowed=", ".join(one.id for one in self.find()) or "none exists",
                advice="terradask image list",
            )
        users = self.users(image_id)
        if users:
            raise InUse(
                "the image is in use: hosts that are launched now boot from it",
                clusters=[],
                given=f"{image_id}, by {', '.join(users)}",
                advice="name another image as network.image or leave it out, then: terradask apply "
                "network, and terradask apply each of these clusters",
            )
        self.remove(image)
        return image

    def remove(self, image: Image) -> None:
        """Deregister an image with its snapshots, used or not."""
        ec2 = self.context.aws.client("ec2")
        ec2.deregister_image(ImageId=image.id, DeleteAssociatedSnapshots=True)

    def remove_all(self) -> None:
        """Remove all images, of a network that is destroyed: they cost. Without the permission,
        warn.
        """
        try:
            for image in self.find():
                self.context.message(f"removing image {image.id} and its snapshots")
                self.remove(image)
        except AccessDenied as error:
            self.context.warn(
                f"the workspace's images may be left, and cost: {error.problem}; callers with the "
                "permissions of setup see and delete them: terradask image list"
            )

    def instances(self) -> list[Mapping[str, Any]]:
        """Return the instances that become images, of this or other commands.

        Permission needed: ``ec2:DescribeInstances``.
        """
        filters = [*tag_filters(self.tags), {"Name": "instance-state-name", "Values": list(_ALIVE)}]
        return list(listed_instances(self.context.aws.client("ec2"), Filters=filters))

    def end_instances(self, ids: Collection[str] | None = None) -> None:
        """End the instances that become images, or those with these ids.

        Permission needed: ``ec2:TerminateInstances``.
        """
        if ids is None:
            ids = [instance["InstanceId"] for instance in self.instances()]
        if ids:
            context = self.context
            end_instances(context.aws, ids, cluster=None, progress=context.progress)

    def _templates_of_groups(self) -> Iterator[tuple[tuple[str, str], str]]:
        """Yield the launch templates of the workspace's groups, by id and version, with the
        cluster.
        """
        scaling = self.context.aws.client("autoscaling")
        own = tag_filters(self.context.network.where.tags)
        for group in listed_groups(scaling, Filters=own):
            cluster = f"cluster {tags_of(group.get('Tags')).get(TAG_CLUSTER, '')}".strip()
            policy = (group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
            for holder in (group, policy, *policy.get("Overrides", ())):
                for name in ("LaunchTemplate", "LaunchTemplateSpecification"):
                    one = holder.get(name) or {}
                    if one.get("LaunchTemplateId"):
                        yield (one["LaunchTemplateId"], one.get("Version", "$Default")), cluster

    def _image_of(self, template_id: str, version: str) -> str | None:
        ec2 = self.context.aws.client("ec2")
        found = listed(
            ec2,
            "describe_launch_template_versions",
            "LaunchTemplateVersions",
            LaunchTemplateId=template_id,
            Versions=[version],
        )
        return next((one["LaunchTemplateData"].get("ImageId") for one in found), None)


def monthly_text(image: Image, per_gib: Decimal | None) -> str | None:
    """Return the most that an image's snapshot costs a month, as text; None without a price."""
    return None if per_gib is None else exact_usd(per_gib * image.size_gib)
