"""Make an image of the workspace's own: an instance boots as a host does, prepares itself and
powers off; EC2 makes the image of its disk.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import ClientError

from terradask._aws.answers import unless
from terradask._aws.listing import listed_instances
from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.tags import tag_filters, tags_of
from terradask._cleanup.orphans import IMAGE_BUILD_SECONDS
from terradask._common.json_text import parse_json
from terradask._common.polling import wait_until
from terradask._common.progress import phase
from terradask._software.client_versions import python_for_hosts
from terradask._software.named_environments import NamedEnvironments
from terradask._synthesis.images import IMAGE_PARAMETER, find_image
from terradask._workspace.context import WorkspaceContext
from terradask._workspace.images import Image, Images, monthly_text, read_image
from terradask.errors import HostFailed, InvalidInput, TerradaskError
from terradask_modules.names import (
    IMAGE_RECIPES,
    IMAGE_REPORTS,
    IMAGE_ROLE,
    ROOT_DEVICE,
    TAG_GROUP,
    TAG_IMAGE_PREFIX,
    TAG_IMAGE_RECIPE,
    resource_name,
)
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.settings.network import IMAGE_SETTINGS
from terradask_stacks.version import terradask_version

#: Types of the instance that becomes an image: it compiles modules and installs packages.
TYPES: Mapping[Architecture, str] = {"x86_64": "m6i.large", "arm64": "m6g.large"}
#: How long an instance may take to prepare itself, and EC2 to make the image.
PREPARE_SECONDS, IMAGE_SECONDS = 1800.0, IMAGE_BUILD_SECONDS - 1800.0
_POLL_SECONDS = 2.0
#: On the image whose base was AWS's newest: the next one is made from the newest too.
_NEWEST = f"{TAG_IMAGE_PREFIX}newest"
#: Codes of a zone that can't launch the type; another one may.
_OF_THE_ZONE = ("InsufficientInstanceCapacity", "Unsupported")


@dataclass(frozen=True)
class ImageBuild:
    """One image in the making."""

    images: Images
    architecture: Architecture
    #: A named environment of the workspace that it gets, or None.
    environment: str | None = None
    #: The image that it is made from. None: the network's given one, or AWS's newest.
    base: str | None = None
    #: Of the instance; by default `TYPES`.
    instance_type: str | None = None

    @property
    def _context(self) -> WorkspaceContext:
        return self.images.context

    def run(self) -> Image:
        """Make the image, and return it with its price.

        An interruption ends the instance, or leaves what `remove_leftovers` finds by its tags.
        Raises `HostFailed` if the instance can't prepare itself, `NoBaseline`, and as
        `NamedEnvironments.lock`.

        Permissions needed: those of ``terradask iam setup``.
        """
        context = self._context
        with phase(context.progress, "image", self.architecture):
            self.remove_leftovers()
            base, size_gib, newest = self._base()
            recipe, python = self._recipe()
            facts = {
                f"{TAG_IMAGE_PREFIX}host-program": context.network.baseline().host.wheel_sha256,
                f"{TAG_IMAGE_PREFIX}version": terradask_version(),
                f"{TAG_IMAGE_PREFIX}python": python,
                f"{TAG_IMAGE_PREFIX}from": base,
                **({_NEWEST: "true"} if newest else {}),
                **(
                    {f"{TAG_IMAGE_PREFIX}environment": self.environment, TAG_IMAGE_RECIPE: recipe}
                    if self.environment and recipe
                    else {}
                ),
            }
            with self._instance(base, size_gib, python, recipe) as instance_id:
                self._wait_for_instance(instance_id)
                image = self._make(instance_id, facts)
            return replace(
                image, most_monthly_usd=monthly_text(image, self.images.monthly_usd_per_gib())
            )

    def remove_leftovers(self) -> None:
        """End the instances that interrupted commands have left: old ones, and those of which the
        image is there; and remove images that failed.
        """
        context = self._context
        images = context.aws.client("ec2").describe_images(
            Owners=["self"], Filters=tag_filters(self.images.tags)
        )["Images"]
        made = {one.get("SourceInstanceId") for one in images if one["State"] == "available"}
        now = datetime.datetime.now(datetime.UTC)
        left = [
            instance["InstanceId"]
            for instance in self.images.instances()
            if instance["InstanceId"] in made
            or (now - instance["LaunchTime"]).total_seconds() > IMAGE_BUILD_SECONDS
        ]
        if left:
            context.message(f"ending what an interrupted command left: {', '.join(left)}")
            self.images.end_instances(left)
        for image in images:
            if image["State"] in ("failed", "error", "invalid"):
                context.message(f"removing {image['ImageId']}, which EC2 could not make")
                self.images.remove(read_image(image))

    # ---- what it is made of ----------------------------------------------------------------------

    def _base(self) -> tuple[str, int, bool]:
        """Return the base image, the size of its root volume, and whether it is AWS's newest."""
        context = self._context
        network = context.settings.network
        given = self.base or self._given()
        if given is None:
            name = IMAGE_PARAMETER.format(architecture=self.architecture)
            found = context.aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        asked = network.model_copy(update={IMAGE_SETTINGS[self.architecture]: given or str(found)})
        image, size_gib = find_image(self.architecture, asked, context.aws, None, refresh=True)
        return image, size_gib or 0, given is None

    def _given(self) -> str | None:
        """Return the base that the settings give: an image of the workspace's own has one too."""
        given = self._context.settings.network.images.get(self.architecture)
        if given is None:
            return None
        with unless("InvalidAMI*"):
            found = self._context.aws.client("ec2").describe_images(ImageIds=[given])["Images"]
            tags = tags_of(found[0].get("Tags")) if found else {}
            if self.images.tags.items() <= tags.items():
                return None if _NEWEST in tags else tags.get(f"{TAG_IMAGE_PREFIX}from")
        return given

    def _recipe(self) -> tuple[str | None, str]:
        """Put the environment's recipe and wheels into the bucket; return its SHA-256, and the
        Python of clusters.
        """
        if self.environment is None:
            return None, python_for_hosts()
        context = self._context
        named = NamedEnvironments(context.aws, context.bucket)
        lock = named.lock(self.environment, self.architecture, os.environ)
        if lock.credentials:
            raise InvalidInput(
                f"environment {self.environment!r} comes from an index with a password, which no "
                "image may have",
                given=", ".join(lock.credentials),
                allowed="an index that hosts reach without one",
                advice="leave out --environment: hosts fetch it at their start",
            )
        store = ObjectStore(context.aws, context.bucket, IMAGE_RECIPES)
        for key, content in lock.contents.items():
            store.write(key, content, content_type="application/zip")
        document = {"format": 1, "python": lock.python, "lock": lock.to_requirements()}
        recipe = as_json({**document, "environment": self.environment})
        sha256 = hashlib.sha256(recipe).hexdigest()
        store.write(f"{sha256}.json", recipe)
        return sha256, lock.python

    # ---- the instance ----------------------------------------------------------------------------

    @contextmanager
    def _instance(self, base: str, size_gib: int, python: str, recipe: str | None) -> Iterator[str]:
        """Launch the instance, and end it afterwards."""
        context = self._context
        instance_id = self._launch(base, size_gib, python, recipe)
        try:
            yield instance_id
        finally:
            self.images.end_instances([instance_id])
            ObjectStore(context.aws, context.bucket, IMAGE_REPORTS).delete(f"{instance_id}.json")

    def _launch(self, base: str, size_gib: int, python: str, recipe: str | None) -> str:
        """Launch it in the first zone that can, and return its id."""
        context = self._context
        ec2, baseline = context.aws.client("ec2"), context.network.baseline()
        template = baseline.templates["scheduler"].get(self.architecture)
        if template is None:
            raise InvalidInput(
                f"the network has no hosts for {self.architecture}",
                given=self.architecture,
                allowed=", ".join(sorted(baseline.templates["scheduler"])),
                advice="add it to network.architectures, then: terradask apply network",
            )
        # No host's disk may be smaller than its image.
        disk_gib = max(size_gib, min(baseline.launch.disk_size_gib.values(), default=0))
        key = baseline.kms_key_arn
        disk = {
            "VolumeType": "gp3",
            "Encrypted": True,
            "DeleteOnTermination": True,
            **({"VolumeSize": disk_gib} if disk_gib else {}),
            **({"KmsKeyId": key} if key else {}),
        }
        tags = {
            **self.images.tags,
            TAG_GROUP: IMAGE_ROLE,
            "Name": resource_name(context.name, IMAGE_ROLE),
        }
        of_boot = {"terradask:run:python": python, **({TAG_IMAGE_RECIPE: recipe} if recipe else {})}
        tried = ""
        for zone, subnets in sorted(baseline.zones.items()):
            context.message(f"launching an instance in {zone} from {base}")
            with unless(*_OF_THE_ZONE), self._refusing_type():
                launched = ec2.run_instances(
                    LaunchTemplate={
                        "LaunchTemplateId": template.id,
                        "Version": template.version,
                    },
                    ImageId=base,
                    InstanceType=self.instance_type or TYPES[self.architecture],
                    MinCount=1,
                    MaxCount=1,
                    # Its disk has to stay until the image is made.
                    InstanceInitiatedShutdownBehavior="stop",
                    BlockDeviceMappings=[{"DeviceName": ROOT_DEVICE, "Ebs": disk}],
                    NetworkInterfaces=[
                        {
                            "DeviceIndex": 0,
                            "SubnetId": subnets.scheduler_subnet_id,
                            "Groups": [baseline.security_groups["scheduler"]],
                            "AssociatePublicIpAddress": baseline.public_schedulers,
                            "DeleteOnTermination": True,
                        }
                    ],
                    TagSpecifications=[
                        _tagged("instance", {**tags, **of_boot}),
                        _tagged("volume", tags),
                        _tagged("network-interface", tags),
                    ],
                )
                return str(launched["Instances"][0]["InstanceId"])
            tried = f"{tried}, {zone}" if tried else zone
        raise TerradaskError(
            f"no zone of the network can launch {self.instance_type or TYPES[self.architecture]}",
            given=tried,
            advice="name another type: terradask image build --type",
        )

    @contextmanager
    def _refusing_type(self) -> Iterator[None]:
        """Name the type that EC2 doesn't know, or that is of another architecture."""
        try:
            yield
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if self.instance_type is None or not code.startswith("Invalid"):
                raise
            raise InvalidInput(
                f"EC2 launches no such instance for an image: {error.response['Error']['Message']}",
                given=f"--type {self.instance_type}",
                allowed=f"a type of EC2 with the architecture {self.architecture}",
                advice="name another one, or leave it out",
            ) from error

    def _wait_for_instance(self, instance_id: str) -> None:
        """Wait until the instance has prepared itself. Raises `HostFailed`."""
        context = self._context
        context.message(f"instance {instance_id} boots and prepares the image")
        state = ""

        def is_off() -> bool:
            nonlocal state
            ec2 = context.aws.client("ec2")
            filters = [{"Name": "instance-id", "Values": [instance_id]}]
            found = list(listed_instances(ec2, Filters=filters))
            state = found[0]["State"]["Name"] if found else ""
            return state in ("stopped", "shutting-down", "terminated")

        in_time = wait_until(is_off, limit_seconds=PREPARE_SECONDS, pause_seconds=_POLL_SECONDS)
        store = ObjectStore(context.aws, context.bucket, IMAGE_REPORTS)
        found = store.read(f"{instance_id}.json")
        report = {} if found is None else parse_json(found.content)
        if not in_time or report.get("state") != "prepared":
            reason = report.get("reason") or (
                f"it is {state}, and has reported nothing"
                if in_time
                else f"it was not done after {PREPARE_SECONDS / 60:.0f} minutes"
            )
            raise HostFailed(
                "the instance could not prepare the image",
                instance_id=instance_id,
                reason=str(reason),
                log_tail=[str(line) for line in report.get("log_tail", ())],
                advice="correct it, then run terradask image build again",
            )

    # ---- the image -------------------------------------------------------------------------------

    def _make(self, instance_id: str, facts: Mapping[str, str]) -> Image:
        """Make the image of the instance's disk, and wait for it."""
        context = self._context
        ec2 = context.aws.client("ec2")
        now = datetime.datetime.now(datetime.UTC)
        name = f"{resource_name(context.name)}-{self.architecture}-{now:%Y%m%dT%H%M%SZ}"
        tags = {**self.images.tags, **facts, "Name": name}
        image_id = ec2.create_image(
            InstanceId=instance_id,
            Name=name,
            Description=f"Host of terradask workspace {context.name}",
            TagSpecifications=[_tagged("image", tags), _tagged("snapshot", tags)],
        )["ImageId"]
        context.message(f"EC2 makes {image_id}")
        found: dict[str, Any] = {}

        def is_made() -> bool:
            # A new one may be unknown for a moment.
            with unless("InvalidAMIID.NotFound"):
                for one in ec2.describe_images(ImageIds=[image_id])["Images"]:
                    found.update(one)
            return bool(found.get("State", "pending") != "pending")

        wait_until(is_made, limit_seconds=IMAGE_SECONDS, pause_seconds=_POLL_SECONDS)
        if found.get("State") != "available":
            why = (found.get("StateReason") or {}).get("Message", found.get("State", "unknown"))
            raise TerradaskError(
                f"EC2 has not made {image_id}",
                given=str(why),
                advice="terradask image list shows whether it is available later; terradask image "
                "build removes what failed, and makes another one",
            )
        return read_image(found)


def _tagged(kind: str, tags: Mapping[str, str]) -> dict[str, Any]:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"ResourceType": kind, "Tags": listed}
