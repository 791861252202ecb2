"""A network and a cluster whose Terraform is OpenTofu, by a program that stands in for it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from terradask._terraform.program import OPENTOFU, TERRAFORM
from terradask_modules.names import network_state_key
from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..opentofu import stand_in
from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.simulator, pytest.mark.life]

SETTINGS = """
[network]
cidr = "{cidr}"
zones = ["us-east-1a", "us-east-1b"]
ingress = [{{ cidr = "127.0.0.0/8" }}]

[workspace]
tags = {{ owner = "{owner}" }}

[clusters.etl]
max_workers = 2
n_workers = 1
"""

ATTACH = """
from terradask import Cluster
with Cluster(name="etl") as cluster, cluster.get_client() as client:
    print(client.submit(sum, [1, 2, 3]).result())
"""


class Workspace:
    """A workspace's folder, in which either program runs."""

    def __init__(self, sim: Simulator, folder: Path, tofu: Mapping[str, str]) -> None:
        self.sim = sim
        self.folder = folder
        self.programs = {"terraform": dict(sim.environ), "tofu": {**sim.environ, **tofu}}
        for environ in self.programs.values():
            environ.pop("TERRADASK_STATE_DIR", None)

    def settings(self, *, owner: str) -> None:
        text = SETTINGS.format(cidr=self.sim.vpc_cidr, owner=owner)
        (self.folder / "terradask.toml").write_text(text)

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """Run terradask with one of the programs; return its output, or its errors if it fails."""
        done = in_this_process(*arguments, environ=self.programs[program], folder=self.folder)
        assert done.returncode == code, done.stdout + done.stderr
        self.errors = done.stderr
        return done.stderr if code else done.stdout

    def counts(self, program: str, stack: str) -> int:
        """Return how many changes a plan has."""
        planned = json.loads(self.run(program, "plan", stack, "--json"))
        assert planned["program"] == {"terraform": "Terraform", "tofu": "OpenTofu"}[program]
        return sum(planned["counts"].values())

    def providers(self, bucket: str, key: str) -> set[str]:
        """Return the providers in a state."""
        s3 = self.sim.client("s3")
        document: dict[str, Any] = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        s3.close()
        return {resource["provider"] for resource in document["resources"]}

    def networks(self) -> set[str]:
        """Return the providers in the network's state."""
        bucket = "terradask-state-123456789012-us-east-1"
        return self.providers(bucket, network_state_key("default"))

    def clusters(self) -> set[str]:
        """Return the providers in the cluster's state."""
        bucket = "terradask-default-123456789012-us-east-1"
        return self.providers(bucket, "clusters/etl/terraform.tfstate")


@pytest.fixture
def workspace(bare_sim: Simulator, tmp_path: Path, quick_provider: QuickProvider) -> Workspace:
    """A workspace's folder."""
    (tmp_path / "tofu").mkdir()
    (tmp_path / "here").mkdir()
    tofu = stand_in(tmp_path / "tofu", quick_provider)
    if tofu is None:
        pytest.skip("no copy of the provider on this machine: run terradask doctor --fix")
    return Workspace(bare_sim, tmp_path / "here", tofu)


def test_opentofu_makes_a_cluster_and_takes_over_terraforms_network(workspace: Workspace) -> None:
    workspace.settings(owner="ana")
    # Terraform's network, in the folder that OpenTofu uses next.
    workspace.run("terraform", "apply", "network", "--yes")
    assert workspace.networks() == {TERRAFORM.provider_in_state}
    assert workspace.counts("tofu", "network") == 0
    assert "Terraform wrote s3://" in workspace.errors
    assert workspace.networks() == {TERRAFORM.provider_in_state}
    folder = workspace.folder / "cdktf.out/stacks/network/.terraform/providers"
    assert {path.name for path in folder.iterdir()} >= {OPENTOFU.registry}

    # The cluster is OpenTofu's from its plan on.
    workspace.run("tofu", "plan", "etl", "--out", "plan")
    refused = workspace.run("terraform", "apply", "--plan", "plan", "--yes", code=5)
    assert "planned OpenTofu, now Terraform" in refused
    workspace.run("tofu", "apply", "--plan", "plan", "--yes")
    assert workspace.clusters() == {OPENTOFU.provider_in_state}
    done = subprocess.run(
        [sys.executable, "-c", ATTACH],
        cwd=workspace.folder,
        env=workspace.programs["tofu"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["6"]), done.stderr
    for verb in (("plan", "etl"), ("apply", "etl", "--yes"), ("destroy", "etl", "--yes")):
        refused = workspace.run("terraform", *verb, code=5)
        assert "OpenTofu wrote the state, and this is Terraform" in refused
    assert workspace.counts("tofu", "etl") == 0

    # An apply of OpenTofu's makes Terraform's state its own.
    workspace.settings(owner="bo")
    workspace.run("tofu", "apply", "network", "--yes")
    assert workspace.networks() == {OPENTOFU.provider_in_state}
    assert "OpenTofu wrote" in workspace.run("terraform", "plan", "network", code=5)
    assert workspace.counts("tofu", "network") == 0
    assert "Terraform wrote" not in workspace.errors

    workspace.run("tofu", "destroy", "etl", "--yes")
    workspace.run("tofu", "destroy", "network", "--yes")
    with workspace.sim.applied():
        assert leftovers("default") == []


def test_terraform_takes_over_opentofus_network_as_documented(workspace: Workspace) -> None:
    workspace.settings(owner="ana")
    checked = json.loads(workspace.run("tofu", "doctor", "--toolchain", "--json"))
    found = {each["check"]: each["found"] for each in checked}
    assert found["terraform"].startswith("OpenTofu ")
    assert "tofu.rc" in found["provider"]
    workspace.run("tofu", "apply", "network", "--yes")
    workspace.run("terraform", "synth")
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("no terraform on PATH")
    folder = workspace.folder / "cdktf.out/stacks/network"
    replace = ["state", "replace-provider", "-auto-approve", OPENTOFU.provider, TERRAFORM.provider]
    for arguments in (["init", "-reconfigure"], replace):
        done = subprocess.run(
            [terraform, *arguments],
            cwd=folder,
            env=workspace.programs["terraform"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert workspace.networks() == {TERRAFORM.provider_in_state}
    assert workspace.counts("terraform", "network") == 0
    workspace.run("terraform", "destroy", "network", "--yes")
    with workspace.sim.applied():
        assert leftovers("default") == []
