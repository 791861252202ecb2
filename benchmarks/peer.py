"""What growing to 1, 10 and 100 workers asks of AWS, beside dask-cloudprovider's EC2Cluster on the same endpoint.

EC2Cluster's hosts boot from cloud-init with Docker, which the embedded AWS can't do: so nothing joins here. Counted is what each
client asks of AWS from its `scale(n)` until n instances run, and how long that takes; what hosts do from then on is in neither. On a
fresh account EC2Cluster fails (it can't make its security group): it was given VPC, subnet and security group of terradask's network,
an image, an instance type, and, since its scheduler can't boot either, a local one at its instance's address. Its TLS was off. Calls
for its scheduler's instance are not counted, nor are terradask's for starting. On AWS it also asks for each instance's address until
there is one; here the address comes with the launch. It comes from PyPI into an environment of its own, below the user's cache folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import platformdirs

from benchmarks._measure import NotMeasured, Row, Verdict
from benchmarks.scaling import deploy, scale
from terradask_simulator import Simulator

_SIZES = ("1", "10", "100")
_REQUIREMENT = "dask-cloudprovider[aws]==2025.9.0"
_CLIENT = Path(__file__).with_name("_ec2_client.py")


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Grow both once; counts don't vary.

    Raises
    ------
    NotMeasured
        dask-cloudprovider can't be had here.
    """
    del runs
    python = _environment()
    with Simulator.start(baseline=True) as simulator, simulator.hollow_hosts():
        deploy(simulator)
        ours = {one["n"]: one["grown"] for one in scale(simulator, "--requested", *_SIZES)}
        theirs = {one["n"]: one for one in _ec2_cluster(simulator, python)}
    rows = [
        row
        for n in ours
        for row in (
            Row(f"terradask, scale({n}): AWS calls", [ours[n]["calls"]], "calls"),
            Row(f"EC2Cluster, scale({n}): AWS calls", [theirs[n]["calls"]], "calls"),
            Row(f"terradask, scale({n}): until {n} run", [ours[n]["requested_seconds"]]),
            Row(f"EC2Cluster, scale({n}): until {n} run", [theirs[n]["requested_seconds"]]),
        )
    ]
    most = max(ours)
    return rows, [Verdict(f"calls for {most} workers, terradask / EC2Cluster", ours[most]["calls"] / theirs[most]["calls"], 0.1, " x")]


def _environment() -> str:
    """Return the Python of an environment with dask-cloudprovider, made where there is none."""
    folder = platformdirs.user_cache_path("terradask", appauthor=False) / "benchmarks" / _REQUIREMENT.partition("[")[0]
    python, done = folder / "bin/python", folder / ".installed"
    if not done.is_file():
        uv = Path(sys.executable).with_name("uv")
        make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder]
        fill = [uv, "pip", "install", "--quiet", "--python", python, _REQUIREMENT]
        try:
            for command in (make, fill):
                subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotMeasured(f"{_REQUIREMENT} can't be installed: {getattr(error, 'stderr', None) or error}") from error
        done.touch()
    return str(python)


def _ec2_cluster(simulator: Simulator, python: str) -> list[dict[str, Any]]:
    ec2 = simulator.client("ec2")
    subnet = next(s for s in ec2.describe_subnets()["Subnets"] if not s["DefaultForAz"] and _is_public(s))
    groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])["SecurityGroups"]
    images = ec2.describe_images(Owners=["099720109477"])["Images"]
    given = {
        "region": simulator.info.region,
        "vpc": subnet["VpcId"],
        "subnet_id": subnet["SubnetId"],
        "security_groups": [next(g["GroupId"] for g in groups if g["GroupName"].endswith("-scheduler"))],
        "ami": images[0]["ImageId"],
        "instance_type": "m7i.large",
    }
    ec2.close()
    command = [python, str(_CLIENT), json.dumps(given), *_SIZES]
    done = subprocess.run(command, check=False, env={**os.environ, **simulator.environ}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"EC2Cluster's process failed:\n{done.stdout}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _is_public(subnet: dict[str, Any]) -> bool:
    return any(tag["Key"] == "Name" and "public" in tag["Value"] for tag in subnet.get("Tags", ()))
