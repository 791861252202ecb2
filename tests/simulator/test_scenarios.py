"""Every scenario of the examples is synthesised and planned by the real Terraform; what comes out
passes checkov.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from terradask import Plan, Workspace
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider
from ..waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CHECKOV = ROOT / ".venv-checkov/bin/checkov"

SCENARIOS = ("minimal", "private-network", "bring-your-own-vpc", "two-teams", "gpu")
FOLDERS = sorted(
    path.parent.relative_to(EXAMPLES).as_posix()
    for name in SCENARIOS
    for path in (EXAMPLES / name).rglob("terradask.toml")
)

HEADINGS = ["What it makes", "Change before use", "Check", "What to know"]

#: The folder whose cluster is planned as well, on the network that is deployed.
WITH_CLUSTER = ("two-teams/trading", "risk")


@dataclass
class Planned:
    """What came of one folder."""

    workspace: Workspace
    folders: Mapping[str, Path]
    #: Stack -> its plan: the network's, and of some a cluster's.
    plans: dict[str, Plan] = field(default_factory=dict)

    def synthesised(self, stack: str) -> Any:
        return json.loads((self.folders[stack] / "cdk.tf.json").read_text())

    def resources(self, kind: str, stack: str = "network") -> list[dict[str, Any]]:
        """Return the synthesised resources of a type."""
        return list(self.synthesised(stack)["resource"].get(kind, {}).values())

    @property
    def created(self) -> set[str]:
        """The types of what the network's plan creates."""
        return {address.partition(".")[0] for address in self.plans["network"].creates}


@pytest.fixture(scope="module")
def given(sim: Simulator) -> Iterator[dict[str, Any]]:
    """What the settings name as given, made in the embedded AWS."""
    with contextlib.ExitStack() as clients:
        ec2, kms = (
            clients.enter_context(contextlib.closing(sim.client(service)))
            for service in ("ec2", "kms")
        )
        vpc = ec2.create_vpc(CidrBlock="10.90.0.0/16")["Vpc"]["VpcId"]
        for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
            ec2.modify_vpc_attribute(VpcId=vpc, **{attribute: {"Value": True}})
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        public, private = (
            ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.90.{third}.0/20", AvailabilityZone="us-east-1a"
            )["Subnet"]["SubnetId"]
            for third in (0, 16)
        )
        nat = ec2.create_nat_gateway(SubnetId=public, ConnectivityType="private")["NatGateway"][
            "NatGatewayId"
        ]
        for subnet, way in ((public, {"GatewayId": gateway}), (private, {"NatGatewayId": nat})):
            table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
            ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
            ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **way)
        images = ec2.describe_images(
            Filters=[{"Name": "name", "Values": ["al2023-ami-2023*-x86_64"]}]
        )["Images"]
        yield {
            "vpc_id": vpc,
            "subnets": {"us-east-1a": {"scheduler": public, "worker": private}},
            "image": images[0]["ImageId"],
            "kms_key_arn": kms.create_key()["KeyMetadata"]["Arn"],
        }
        ec2.delete_nat_gateway(NatGatewayId=nat)


#: Folder -> the settings of its network whose values are placeholders, or left to whoever copies
#: it.
OWN_SETTINGS = {
    "bring-your-own-vpc": ("vpc_id", "subnets"),
    "private-network": ("kms_key_arn",),
}


@pytest.fixture(scope="module")
def planned(
    sim: Simulator,
    given: dict[str, Any],
    quick_provider: QuickProvider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Planned]]:
    """Every folder, synthesised and planned, two at a time."""
    root = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES, root, dirs_exist_ok=True)
    with sim.applied(), pytest.MonkeyPatch.context() as patch:
        # The folder is the workspace's root, and its settings count.
        for name in [name for name in os.environ if name.startswith("TERRADASK_")]:
            patch.delenv(name)
        found: dict[str, Planned] = {}
        with ThreadPoolExecutor(2) as pool:
            jobs = {}
            for folder in FOLDERS:
                quick_provider.lock(root / folder)
                network = {name: given[name] for name in OWN_SETTINGS.get(folder, ())}
                workspace = Workspace.load(root / folder, network=network)
                found[folder] = Planned(workspace, workspace.synth())
                # Terraform validates whatever it plans.
                jobs[folder, "network"] = pool.submit(workspace.plan_network)
            folder, cluster = WITH_CLUSTER
            workspace = Workspace.load(root / folder, workspace={"name": "default"})
            jobs[folder, cluster] = pool.submit(workspace.plan_cluster, cluster)
            for (folder, stack), job in jobs.items():
                found[folder].plans[stack] = job.result()
        yield found


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_scenarios_have_one_skeleton(name: str) -> None:
    folder = EXAMPLES / name
    readme = (folder / "README.md").read_text()
    assert re.findall("^## (.+)$", readme, flags=re.MULTILINE) == HEADINGS
    assert re.search(r"^terradask (-C \w+ )?plan$", readme, flags=re.MULTILINE)
    for settings in folder.rglob("terradask.toml"):
        assert settings.with_name("cdktf.json").read_bytes() == (ROOT / "cdktf.json").read_bytes()
    assert f"({name}/README.md)" in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.life
def test_every_stack_is_synthesised_and_the_network_planned(
    folder: str, planned: dict[str, Planned]
) -> None:
    found = planned[folder]
    assert set(found.folders) == {"network", *found.workspace.settings.clusters}
    assert len(found.folders) > 1
    for stack in found.folders:
        assert found.synthesised(stack)["provider"]["aws"][0]["region"] == "us-east-1"
    assert {"aws_launch_template", "aws_s3_bucket", "aws_security_group"} <= found.created
    network = found.plans["network"]
    assert (len(network.creates), network.plan_file.remove) == (network.plan_file.add, 0)


@pytest.mark.life
def test_a_cluster_is_planned_on_the_network(planned: dict[str, Planned]) -> None:
    folder, cluster = WITH_CLUSTER
    created = planned[folder].plans[cluster].creates
    assert {
        "aws_autoscaling_group.scheduler",
        "aws_autoscaling_group.workers",
        "aws_secretsmanager_secret.keys",
    } <= set(created)


@pytest.mark.life
def test_the_private_network_has_no_way_to_the_internet(planned: dict[str, Planned]) -> None:
    found = planned["private-network"]
    assert found.created.isdisjoint({"aws_nat_gateway", "aws_eip"})
    assert sorted(
        endpoint.get("vpc_endpoint_type") for endpoint in found.resources("aws_vpc_endpoint")
    ) == ["Gateway", *["Interface"] * 5]
    cards = [
        card
        for template in found.resources("aws_launch_template")
        for card in template["network_interfaces"]
    ]
    assert [card["associate_public_ip_address"] for card in cards] == ["false"] * 4


@pytest.mark.life
def test_nothing_is_made_in_a_given_vpc_but_security_groups(
    planned: dict[str, Planned], given: dict[str, Any]
) -> None:
    found = planned["bring-your-own-vpc"]
    assert found.created.isdisjoint(
        {
            "aws_vpc",
            "aws_subnet",
            "aws_route",
            "aws_nat_gateway",
            "aws_vpc_endpoint",
            "aws_internet_gateway",
        }
    )
    assert given["vpc_id"] in json.dumps(found.synthesised("network"))


@pytest.mark.life
def test_two_teams_share_no_name(planned: dict[str, Planned]) -> None:
    names = []
    for team in ("research", "trading"):
        found = planned[f"two-teams/{team}"]
        resources = [
            each
            for kind in found.synthesised("network")["resource"].values()
            for each in kind.values()
        ]
        names.append(
            {
                each[key]
                for each in resources
                for key in ("name", "bucket")
                if key in each and "${" not in each[key]
            }
        )
        assert {vpc["tags"]["team"] for vpc in found.resources("aws_vpc")} == {team}
    assert len(names[0]) > 3
    assert names[0].isdisjoint(names[1])


@pytest.mark.life
def test_a_network_has_templates_with_drivers_for_hosts_with_gpus_alone(
    planned: dict[str, Planned], sim: Simulator
) -> None:
    found = planned["gpu"]
    with contextlib.closing(sim.client("ec2")) as ec2:
        images = {
            one["ImageId"]: one["Name"]
            for one in ec2.describe_images(
                ImageIds=[each["image_id"] for each in found.resources("aws_launch_template")]
            )["Images"]
        }
    # Others have the plain one.
    with_drivers = {
        each["name"]
        for each in found.resources("aws_launch_template")
        if "Nvidia Driver" in images[each["image_id"]]
    }
    assert {name.removesuffix("-arm64") for name in with_drivers} >= {
        "terradask-gpu-scheduler-gpu",
        "terradask-gpu-worker-gpu",
    }
    assert all("-gpu-scheduler-gpu" in name or "-gpu-worker-gpu" in name for name in with_drivers)
    (workers,) = [
        group["mixed_instances_policy"]["launch_template"]
        for group in found.resources("aws_autoscaling_group", "train")
        if group["name"].endswith("-workers")
    ]
    assert [override["instance_type"] for override in workers["override"]] == [
        "g5.xlarge",
        "g4dn.xlarge",
    ]


# ---- checkov -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """What checkov said: how many checks passed, which ones failed in which file."""

    passed: int
    failed: frozenset[tuple[str, str]]
    parsing_errors: int


@pytest.fixture(scope="module")
def scanned(planned: dict[str, Planned], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Terraform JSON and the plans of a network and a cluster with defaults, and of a network
    with every protection.
    """
    if not CHECKOV.exists():
        pytest.skip("checkov is not installed: make checkov")
    root = tmp_path_factory.mktemp("scanned")

    def write(name: str, folder: str, stack: str) -> None:
        document = planned[folder].synthesised(stack)
        # checkov takes no string there, and then reads nothing at all:
        # github.com/bridgecrewio/checkov/issues/7454.
        del document["terraform"]["required_version"]
        written = root / name / stack
        written.mkdir(parents=True)
        (written / "cdk.tf.json").write_text(json.dumps(document, indent=1))
        (written / "plan.json").write_text(
            json.dumps(planned[folder].plans[stack].document, indent=1)
        )

    jobs = (
        ("defaults", "minimal", "network"),
        ("defaults", *WITH_CLUSTER),
        ("protected", "private-network", "network"),
    )
    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(write, *job) for job in jobs]:
            job.result()
    return root


@pytest.fixture(scope="module")
def checked(scanned: Path) -> Checked:
    """What checkov says without skips."""
    done = subprocess.run(
        [
            *(str(CHECKOV), "--directory", ".", "--output", "json", "--skip-download"),
            *("--framework", "terraform_json", "terraform_plan"),
        ],
        cwd=scanned,
        env={"PATH": os.environ["PATH"], "HOME": str(scanned)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode in (0, 1), done.stderr
    reports = json.loads(done.stdout)
    assert {report["check_type"] for report in reports} == {"terraform_json", "terraform_plan"}
    failed = frozenset(
        (f["check_id"], f["file_path"].strip("/"))
        for report in reports
        for f in report["results"]["failed_checks"]
    )
    return Checked(
        sum(r["summary"]["passed"] for r in reports),
        failed,
        sum(r["summary"]["parsing_errors"] for r in reports),
    )


def _skips() -> list[str]:
    return list(yaml.safe_load((ROOT / ".checkov.yaml").read_text())["skip-check"])


@pytest.mark.life
def test_checkov_finds_what_is_skipped_and_every_skip_is_needed(checked: Checked) -> None:
    assert {check for check, _ in checked.failed} == set(_skips())
    assert checked.parsing_errors == 0
    assert checked.passed > 100


@pytest.mark.life
def test_settings_pass_the_checks_that_they_are_for(checked: Checked) -> None:
    by_setting = set(
        re.findall(
            r"- (CKV\w+) # .*: network\.\w+$",
            (ROOT / ".checkov.yaml").read_text(),
            flags=re.MULTILINE,
        )
    )
    assert len(by_setting) == 5
    assert by_setting.isdisjoint(
        check for check, path in checked.failed if path.startswith("protected")
    )


def test_skips_stand_in_one_place_with_a_reason_each() -> None:
    text = (ROOT / ".checkov.yaml").read_text()
    assert re.findall(r"^  - (\w+) # \w", text, flags=re.MULTILINE) == _skips()
    inline = [
        path
        for root in ("modules", "stacks", "cluster", "host")
        for path in (ROOT / root).rglob("*.py")
        if "checkov:skip" in path.read_text()
    ]
    assert inline == []
