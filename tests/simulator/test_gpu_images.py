"""A network and a cluster with GPUs, made by the real Terraform: which hosts would start from the
image with drivers.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.simulator, pytest.mark.life]

SETTINGS = """
[workspace]
name = "gpus"
[network]
nat = "none"
public_workers = true
zones = ["us-east-1a"]
worker_disk_sizes_gib = [250]
architectures = ["x86_64"]
[clusters.train]
worker_vm_types = ["m6i.large"]
scheduler_vm_types = ["m6i.large"]
[clusters.train.worker_groups.gpu]
vm_types = ["g4dn.xlarge"]
[clusters.train.worker_groups.large]
vm_types = ["g4dn.xlarge"]
disk_size = 200
"""


def _launches(ec2: Any, scaling: Any) -> dict[str, tuple[str, int]]:
    """Return group -> the name of its image, and the size of its disk."""
    found = {}
    for group in scaling.describe_auto_scaling_groups()["AutoScalingGroups"]:
        if not group["AutoScalingGroupName"].startswith("terradask-gpus-train-"):
            continue
        named = group["MixedInstancesPolicy"]["LaunchTemplate"]["LaunchTemplateSpecification"]
        (version,) = ec2.describe_launch_template_versions(
            LaunchTemplateId=named["LaunchTemplateId"], Versions=[named["Version"]]
        )["LaunchTemplateVersions"]
        data = version["LaunchTemplateData"]
        (image,) = ec2.describe_images(ImageIds=[data["ImageId"]])["Images"]
        size = data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]
        name = group["AutoScalingGroupName"].removeprefix("terradask-gpus-train-")
        found[name] = (str(image["Name"])[:5], size)
    return found


@pytest.mark.usefixtures("sim_environ")
def test_hosts_with_gpus_alone_start_from_the_image_with_drivers(
    sim: Simulator, quick_provider: QuickProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERRADASK_STATE_DIR")
    (tmp_path / "terradask.toml").write_text(SETTINGS)
    quick_provider.lock(tmp_path)
    workspace = Workspace.load(tmp_path, network={"gpu_images": True})
    workspace.apply(workspace.plan_network())
    try:
        workspace.apply(workspace.plan_cluster("train"))
        with (
            contextlib.closing(sim.client("ec2")) as ec2,
            contextlib.closing(sim.client("autoscaling")) as scaling,
        ):
            assert _launches(ec2, scaling) == {
                "scheduler": ("al202", 50),
                "workers": ("al202", 100),
                "gpu": ("Deep ", 100),
                "large": ("Deep ", 250),
            }
    finally:
        workspace.destroy_cluster("train")
        workspace.destroy_network()
