"""Images of a workspace's own in a whole life, with the permissions that are generated for it: an
image is made, used, in use, deleted, and goes with its network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from terradask import Workspace
from terradask._workspace.image_build import ImageBuild
from terradask.errors import AccessDenied, HostFailed, InUse, InvalidInput
from terradask_modules.names import IMAGE_REPORTS
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider
from ..shared_simulator import QuickSimulator
from .test_mounts import policies

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NETWORK: dict[str, Any] = {"zones": ["us-east-1a"], "architectures": ["x86_64"]}
ROLE = {"Name": "tag:terradask:role", "Values": ["image"]}


@pytest.fixture
def strict_sim(quick_provider: QuickProvider) -> Iterator[Simulator]:
    """A fresh embedded AWS that evaluates IAM."""
    with QuickSimulator.start(enforce_iam=True) as simulator:
        simulator.provider = quick_provider
        yield simulator


def apply(**network: Any) -> Workspace:
    workspace = Workspace.load(network={**NETWORK, **network})
    workspace.apply(workspace.plan_network())
    return workspace


def left(sim: Simulator) -> dict[str, list[str]]:
    """Return what there is of images: instances, images, snapshots, reports."""
    with contextlib.closing(sim.client("ec2")) as ec2, contextlib.closing(sim.client("s3")) as s3:
        found = ec2.describe_instances(Filters=[ROLE])["Reservations"]
        buckets = [one["Name"] for one in s3.list_buckets()["Buckets"]]
        pages = [
            s3.list_objects_v2(Bucket=bucket, Prefix=IMAGE_REPORTS)
            for bucket in buckets
            if bucket.startswith("terradask-default-")
        ]
        return {
            "instances": [
                instance["InstanceId"]
                for one in found
                for instance in one["Instances"]
                if instance["State"]["Name"] != "terminated"
            ],
            "images": [one["ImageId"] for one in ec2.describe_images(Owners=["self"])["Images"]],
            "snapshots": [
                one["SnapshotId"]
                for one in ec2.describe_snapshots(OwnerIds=["self"], Filters=[ROLE])["Snapshots"]
            ],
            "reports": [entry["Key"] for page in pages for entry in page.get("Contents", ())],
        }


def test_an_image_is_made_used_and_removed(strict_sim: Simulator) -> None:
    with strict_sim.acting_as("setup", *policies("setup")):
        workspace = apply()
        first = ImageBuild(workspace.images, "x86_64").run()
        assert left(strict_sim) == {
            "instances": [],
            "images": [first.id],
            "snapshots": list(first.snapshots),
            "reports": [],
        }
        assert first.state == "available"
        assert first.host_program == workspace.baseline().host.wheel_sha256
        assert first.most_monthly_usd == "3"
        workspace = apply(image=first.id)
        with pytest.raises(
            InUse, match=r"network\.image in the settings, terradask\.lock\.json, the depl"
        ):
            workspace.images.delete(first.id)
        # From AWS's newest again, not from the first.
        second = ImageBuild(workspace.images, "x86_64").run()
        assert (second.base, second.name != first.name) == (first.base, True)
        with pytest.raises(InvalidInput, match="has no such image"):
            workspace.images.delete(first.base)
    with strict_sim.acting_as("user", *policies("user")), pytest.raises(AccessDenied):
        Workspace.load(network=NETWORK).images.remove(second)
    with strict_sim.acting_as("setup", *policies("setup")):
        workspace.images.delete(second.id)
        assert left(strict_sim)["images"] == [first.id]
        assert left(strict_sim)["snapshots"] == list(first.snapshots)
        workspace.destroy_network()
    assert left(strict_sim) == {"instances": [], "images": [], "snapshots": [], "reports": []}


def test_what_is_interrupted_or_fails_leaves_nothing(
    strict_sim: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strict_sim.acting_as("setup", *policies("setup")):
        workspace = apply()
        making = ImageBuild(workspace.images, "x86_64")

        def interrupt(instance_id: str) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(ImageBuild, "_wait_for_instance", lambda self, _: interrupt(""))
            with pytest.raises(KeyboardInterrupt):
                making.run()
        assert left(strict_sim)["instances"] == []
        # Killed, it leaves an instance; a younger one may be another command's.
        with monkeypatch.context() as patched:
            patched.setattr("terradask._workspace.images.Images.end_instances", lambda *_: None)
            patched.setattr(ImageBuild, "_wait_for_instance", lambda self, _: interrupt(""))
            with pytest.raises(KeyboardInterrupt):
                making.run()
        (lost,) = left(strict_sim)["instances"]
        making.remove_leftovers()
        assert left(strict_sim)["instances"] == [lost]
        monkeypatch.setattr("terradask._workspace.image_build.IMAGE_BUILD_SECONDS", 0.0)
        making.remove_leftovers()
        assert left(strict_sim)["instances"] == []
        monkeypatch.setattr("terradask._workspace.image_build.PREPARE_SECONDS", 0.0)
        with pytest.raises(HostFailed, match="was not done after 0 minutes"):
            making.run()
        assert left(strict_sim)["instances"] == []
