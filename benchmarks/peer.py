"""AWS calls and time from `scale(n)` until n instances run, compared with dask-cloudprovider's
EC2Cluster at the same endpoint, without calls of hosts. It gets a VPC, security group, subnet,
image, instance type and a local scheduler, and on AWS also polls each instance's address.
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

_SIZES = ("1", "10", "100", "1000")
_LIMIT_SECONDS = 900.0
_REQUIREMENT = "dask-cloudprovider[aws]==2025.9.0"
_CLIENT = Path(__file__).with_name("_ec2_client.py")


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Scale both up once; counts don't vary.

    Raises
    ------
    NotMeasured
        dask-cloudprovider can't be installed here.
    """
    del runs
    python = environment()
    with Simulator.start(baseline=True) as simulator, simulator.hollow_hosts():
        deploy(simulator)
        ours = {one["n"]: one["grown"] for one in scale(simulator, "--requested", *_SIZES)[1]}
        theirs = {one["n"]: one for one in _ec2_cluster(simulator, python)}
    rows = []
    nothing = {"failed": f"not within {_LIMIT_SECONDS / 60:.0f} minutes"}
    for n, own in ours.items():
        for who, figures in (("terradask", own), ("EC2Cluster", theirs.get(n, nothing))):
            rows.append(_row(f"{who}: AWS calls", figures, "calls", "calls", n))
            rows.append(_row(f"{who}: until n run", figures, "requested_seconds", "s", n))
    most = max(n for n in ours if "calls" in theirs.get(n, {}))
    return rows, [
        Verdict(
            f"calls for {most} workers, terradask / EC2Cluster",
            ours[most]["calls"] / theirs[most]["calls"],
            0.1,
            " x",
        )
    ]


def _row(name: str, figures: dict[str, Any], key: str, unit: str, n: int) -> Row:
    if key in figures:
        return Row(name, [figures[key]], unit, n=n)
    return Row(name, said=figures["failed"], n=n)


def environment() -> str:
    """Return the Python of an environment with dask-cloudprovider; make the environment if there is
    none.

    Raises
    ------
    NotMeasured
        dask-cloudprovider can't be installed here.
    """
    folder = (
        platformdirs.user_cache_path("terradask", appauthor=False)
        / "benchmarks"
        / _REQUIREMENT.partition("[")[0]
    )
    python, done = folder / "bin/python", folder / ".installed"
    if not done.is_file():
        uv = Path(sys.executable).with_name("uv")
        make = [str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
        fill = [str(uv), "pip", "install", "--quiet", "--python", str(python), _REQUIREMENT]
        try:
            for command in (make, fill):
                subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotMeasured(
                f"{_REQUIREMENT} can't be installed: {getattr(error, 'stderr', None) or error}"
            ) from error
        done.touch()
    return str(python)


def given(simulator: Simulator) -> dict[str, Any]:
    """Return what EC2Cluster is given of terradask's network."""
    ec2 = simulator.client("ec2")
    subnets = [s for s in ec2.describe_subnets()["Subnets"] if not s["DefaultForAz"]]
    subnet = max(subnets, key=lambda s: s["AvailableIpAddressCount"])
    groups = ec2.describe_security_groups(
        Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}]
    )["SecurityGroups"]
    images = ec2.describe_images(Owners=["099720109477"])["Images"]
    ec2.close()
    return {
        "region": simulator.info.region,
        "vpc": subnet["VpcId"],
        "subnet_id": subnet["SubnetId"],
        "security_groups": [
            next(g["GroupId"] for g in groups if g["GroupName"].endswith("-scheduler"))
        ],
        "ami": images[0]["ImageId"],
        "instance_type": "m7i.large",
    }


def _ec2_cluster(simulator: Simulator, python: str) -> list[dict[str, Any]]:
    command = [python, str(_CLIENT), json.dumps(given(simulator)), *_SIZES]
    environ = {**os.environ, **simulator.environ}
    try:
        done = subprocess.run(
            command,
            check=False,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
        )
        printed = done.stdout
    except subprocess.TimeoutExpired as late:
        printed = (late.stdout or b"").decode()
    sizes = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    for one in sizes:
        if "failed" in one:
            one["failed"] = f"failed after {one['failed_seconds']:.0f} s: {one['failed']}"
    if not any("calls" in one for one in sizes):
        raise SystemExit(f"EC2Cluster's process failed:\n{printed}")
    return sizes
