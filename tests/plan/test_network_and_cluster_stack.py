"""Both stacks through the real Terraform, against moto in a process of its own: applied once, then asked about."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from terradask._terraform.provider_mirror import cli_config_in_use
from terradask_stacks.lock import ClusterLock, LockFile, NetworkLock
from terradask_stacks.settings import ClusterSettings, NetworkSettings, Settings, WorkspaceSettings
from terradask_stacks.synthesis import synthesize

pytestmark = [pytest.mark.plan, pytest.mark.slow, pytest.mark.timeout(240)]

ACCOUNT = "123456789012"
REGION = "us-east-1"
BUCKET = f"terradask-default-{ACCOUNT}-{REGION}"
CLUSTER = ClusterSettings(max_workers=7, worker_vm_types=["m6i.xlarge", "m5.xlarge"], environ={"GREETING": "${HOME}"})


@dataclass
class Workspace:
    """A workspace's folder, and the AWS that it is deployed to."""

    root: Path
    environ: dict[str, str]
    zones: dict[str, int] = field(default_factory=lambda: {f"{REGION}b": 0, f"{REGION}c": 1})

    def synthesize(self, stack: str, **network: Any) -> Path:
        cluster_lock = ClusterLock(
            account=ACCOUNT,
            zone=f"{REGION}b",
            scheduler_instance_types=CLUSTER.scheduler_vm_types,
            worker_instance_types=CLUSTER.worker_vm_types,
        )
        settings = Settings(
            workspace=WorkspaceSettings(tags={"team": "research"}),
            network=NetworkSettings(ingress=[{"cidr": "203.0.113.0/24"}], interface_endpoints=["logs"], **network),
        )
        lock = LockFile(
            network=NetworkLock(account=ACCOUNT, zones=self.zones, image_ids={"x86_64": "ami-12c6146b"}),
            clusters={"etl": cluster_lock},
        )
        folders = synthesize(settings, lock, out_dir=self.root / "cdktf.out", stacks=[stack], clusters={"etl": CLUSTER})
        return folders[stack]

    def terraform(self, stack: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            ["terraform", *arguments],
            cwd=self.root / "cdktf.out/stacks" / stack,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode in codes, f"{arguments} in {stack}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def actions(self, stack: str) -> dict[str, list[str]]:
        """Plan, and return what would change: address -> actions."""
        self.terraform(stack, "plan", "-input=false", "-no-color", "-out=tfplan")
        plan = json.loads(self.terraform(stack, "show", "-json", "tfplan"))
        changes = {each["address"]: each["change"]["actions"] for each in plan["resource_changes"]}
        return {address: actions for address, actions in changes.items() if actions not in (["no-op"], ["read"])}

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.environ["AWS_ENDPOINT_URL"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def document(self, key: str) -> Any:
        return json.loads(self.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read())


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Moto, with its faults corrected, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    program = Path(__file__).with_name("moto_faults.py")
    process = subprocess.Popen(
        [sys.executable, str(program), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            assert process.poll() is None, "moto ended"
            try:
                urllib.request.urlopen(f"{url}/moto-api/", timeout=5).close()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def deployed(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with its network and one cluster applied."""
    root = tmp_path_factory.mktemp("workspace")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TF_", "TERRADASK_"))}
    source = cli_config_in_use(os.environ)
    if source.cli_config is not None:
        kept["TF_CLI_CONFIG_FILE"] = str(source.cli_config)
    workspace = Workspace(
        root,
        {
            **kept,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "CHECKPOINT_DISABLE": "1",
        },
    )
    for stack in ("network", "etl"):
        workspace.synthesize(stack)
        workspace.terraform(stack, "init", "-input=false", "-no-color", "-lockfile=readonly")
        workspace.terraform(stack, "apply", "-input=false", "-no-color", "-auto-approve")
    return workspace


def test_a_second_plan_is_empty(deployed: Workspace) -> None:
    deployed.synthesize("network")

    assert deployed.actions("network") == {}


def test_the_network_describes_itself_as_the_contract_says(deployed: Workspace) -> None:
    document = deployed.document("workspace.json")

    assert set(document) == {
        *("format", "terradask_version", "workspace", "region", "account", "bucket", "vpc_id", "vpc_cidr"),
        *("zones", "templates", "security_groups", "instance_profiles", "roles", "secrets_prefix", "log_group"),
        *("nat", "interface_endpoints", "public_workers", "ingress", "host"),
    }
    assert document["format"] == 1
    assert document["zones"][f"{REGION}b"]["private_cidr"] == "10.64.0.0/20"
    assert document["zones"][f"{REGION}b"]["private_subnet_id"].startswith("subnet-")
    template = document["templates"]["worker"]["x86_64"]
    assert template["id"].startswith("lt-")
    assert template["version"] == "1"
    assert document["ingress"] == [{"ports": ["8786-8787"], "cidr": "203.0.113.0/24", "description": "clients of Dask"}]
    wheel = deployed.client("s3").head_object(Bucket=BUCKET, Key=document["host"]["wheel_key"])
    assert wheel["ContentLength"] > 1000


def test_a_deployed_cluster_is_a_stopped_one(deployed: Workspace) -> None:
    groups = deployed.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    sizes = {group["AutoScalingGroupName"]: (group["MinSize"], group["DesiredCapacity"], group["MaxSize"]) for group in groups}
    secret = deployed.client("secretsmanager").describe_secret(SecretId="terradask/default/etl")

    assert sizes == {"terradask-default-etl-scheduler": (0, 0, 1), "terradask-default-etl-workers": (0, 0, 7)}
    assert not secret.get("VersionIdsToStages")


def test_the_descriptor_keeps_what_looks_like_a_template(deployed: Workspace) -> None:
    document = deployed.document("clusters/etl/cluster.json")

    assert document["settings"]["environ"] == {"GREETING": "${HOME}"}
    assert document["groups"]["workers"] == {
        "autoscaling_group": "terradask-default-etl-workers",
        "role": "worker",
        "max_size": 7,
    }
    assert ClusterSettings.model_validate(document["settings"]) == CLUSTER
    assert ClusterLock.model_validate(document["lock"]).zone == f"{REGION}b"


def test_states_lie_where_the_contract_says(deployed: Workspace) -> None:
    keys = {item["Key"] for item in deployed.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="clusters/")["Contents"]}

    assert "clusters/etl/terraform.tfstate" in keys
    assert (deployed.root / ".terradask/state/network.tfstate").is_file()


def test_a_running_cluster_is_no_drift(deployed: Workspace) -> None:
    name = "terradask-default-etl-workers"
    tag = {
        "ResourceId": name,
        "ResourceType": "auto-scaling-group",
        "Key": "terradask:run:id",
        "Value": "20261120T051500Z-1f3a9c",
        "PropagateAtLaunch": True,
    }
    scaling = deployed.client("autoscaling")
    scaling.create_or_update_tags(Tags=[tag])
    scaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)

    assert deployed.actions("etl") == {}
    scaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=0)


def test_a_network_of_another_format_is_refused_with_the_command(deployed: Workspace) -> None:
    store = deployed.client("s3")
    document = deployed.document("workspace.json")

    def put(content: Any) -> None:
        body = json.dumps(content).encode()
        store.put_object(Bucket=BUCKET, Key="workspace.json", Body=body, ContentType="application/json")

    put({**document, "format": 99})
    try:
        output = deployed.terraform("etl", "plan", "-input=false", "-no-color", codes=(1,))
    finally:
        put(document)

    assert "terradask apply network" in " ".join(output.split())


def test_adding_a_zone_and_changing_hosts_replaces_nothing(deployed: Workspace) -> None:
    deployed.zones = {**deployed.zones, f"{REGION}a": 2}
    deployed.synthesize("network", worker_disk_size_gib=200)
    changes = deployed.actions("network")
    deployed.terraform("network", "apply", "-input=false", "-no-color", "tfplan")
    created = {address for address, actions in changes.items() if actions == ["create"]}
    changed = {address: actions for address, actions in changes.items() if actions != ["create"]}

    assert {address.partition(".")[2] for address in created} == {f"public-{REGION}a", f"private-{REGION}a"}
    assert changed == {
        "aws_launch_template.worker-x86_64": ["update"],
        "aws_s3_object.workspace": ["update"],
        "aws_vpc_endpoint.logs": ["update"],
        "aws_vpc_endpoint.s3": ["update"],
    }
    assert deployed.document("workspace.json")["templates"]["worker"]["x86_64"]["version"] == "2"
    assert deployed.actions("etl") == {"aws_autoscaling_group.workers": ["update"]}
