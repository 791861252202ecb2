"""The simulator's wheel works in an environment without terradask: for boto3 and for Terraform."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.quick_provider import QuickProvider
from tests.simulator.own_index import names_with_dependencies
from tests.source_packages import install
from tests.waiting import PROCESS_SECONDS

from terradask._terraform.binary import find_terraform

pytestmark = [pytest.mark.simulator]

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "README.md"

#: Uses an embedded AWS with boto3, and prints what came of it.
PROGRAM = """
import importlib.util, json, time
import boto3
from terradask_simulator import Simulator, SimulatorError

for name in ("terradask", "terradask_host", "terradask_modules", "terradask_stacks"):
    assert importlib.util.find_spec(name) is None, name
host = {"path": "/etc/terradask/host.json", "content": "{}"}
boots = "#cloud-config\\n" + json.dumps({"write_files": [host]})
try:
    Simulator.start(baseline=True)
except SimulatorError as error:
    refused = str(error)
with Simulator.start(enforce_iam=True) as simulator, simulator.applied():
    reads = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::alone/*"}
    policy = {"Version": "2012-10-17", "Statement": [reads]}
    s3, ec2 = simulator.client("s3"), simulator.client("ec2")
    s3.create_bucket(Bucket="alone")
    s3.put_object(Bucket="alone", Key="key", Body=b"content")
    with simulator.acting_as("reader", policy):
        reader = boto3.client("s3")
        assert reader.get_object(Bucket="alone", Key="key")["Body"].read() == b"content"
        try:
            reader.delete_object(Bucket="alone", Key="key")
        except reader.exceptions.ClientError as error:
            denied = error.response["Error"]["Code"]
    vpc = ec2.create_vpc(CidrBlock=simulator.vpc_cidr)["Vpc"]["VpcId"]
    cidr = simulator.vpc_cidr.replace("/16", "/20")
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=cidr)["Subnet"]["SubnetId"]
    launch = {"ImageId": "ami-12c6146b", "MinCount": 1, "MaxCount": 1, "SubnetId": subnet}
    ec2.run_instances(**launch)
    machine = ec2.run_instances(**launch, UserData=boots)["Instances"][0]["InstanceId"]
    log = simulator.state_dir / "hosts" / machine / "host.log"
    end = time.monotonic() + 60
    while "power off" not in (log.read_text() if log.exists() else "") and time.monotonic() < end:
        time.sleep(0.1)
    running = len(simulator.running_instances())
    facts = {"refused": refused, "denied": denied, "log": log.read_text(), "running": running}
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment's Python: with the wheel, and with links to what the wheel needs."""
    tmp_path = tmp_path_factory.mktemp("environment")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    install(site, *map(str, tmp_path.glob("*.whl")))
    for name in names_with_dependencies("terradask-simulator") - {"terradask-simulator"}:
        found = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(found.locate_file(top))
    return tmp_path / "venv/bin/python"


def _output(python: Path, program: str, folder: Path, environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        [python, "-I", "-c", program],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _block(language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(block)


def test_boto3_uses_it_policies_decide_and_a_machine_names_what_it_lacks(
    python: Path, tmp_path: Path
) -> None:
    found = json.loads(_output(python, PROGRAM, tmp_path, os.environ))
    assert "terradask is not installed" in found["refused"]
    assert found["denied"] == "AccessDenied"
    assert "boot failed: The instance boots terradask's host program" in found["log"]
    assert found["running"] == 1


def test_terraform_uses_it_as_the_page_shows(
    python: Path, tmp_path: Path, quick_provider: QuickProvider
) -> None:
    folder, programs = tmp_path / "configuration", tmp_path / "bin"
    for made in (folder, programs):
        made.mkdir()
    (folder / "main.tf").write_text(_block("hcl"))
    quick_provider.lock(folder)
    terraform = programs / "terraform"
    command = shlex.join(find_terraform(os.environ).command)
    terraform.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    terraform.chmod(0o755)
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    own = {"PATH": path, "TF_CLI_ARGS": "-no-color"}
    environ = {**os.environ, **quick_provider.environ, **own}
    lines = _output(python, _block("python"), folder, environ).splitlines()
    assert lines[-1] == "['by-terraform']"
    assert "Apply complete! Resources: 1 added, 0 changed, 0 destroyed." in lines
