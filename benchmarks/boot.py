"""The time from power on until a host is `running`, by step, on a machine that boots with systemd
and cloud-init in namespaces (`make boot-test`). *Image*: from an [image of one's
own](network.md#an-image-of-ones-own), with the environment. *Worker*: a host that joins a running
cluster; *standby*: one that was [prepared](capacity.md#prepared-hosts) in its run. AWS's part,
Amazon Linux's `dnf` and the first reads of a volume from a snapshot aren't included.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.boot.booted_aws import BootedAws, booted_aws, environment_of, launch
from tests.boot.system import why_not
from tests.boot.wires import own_network
from tests.quick_provider import quick_provider
from tests.waiting import eventually

from benchmarks._measure import NotMeasured, Row, Verdict
from terradask import Cluster, Workspace
from terradask._workspace.image_build import ImageBuild
from terradask_modules.names import bucket_name

_ROOT = Path(__file__).parents[1]
_TRACE = "var/log/boot-trace"
#: What bash reads before a script: it writes each command with its time.
_TRACING = f"""\
exec 9>>/{_TRACE}
BASH_XTRACEFD=9
PS4='+ $EPOCHREALTIME '
set -x
"""
_TRACE_FILES = {
    "etc/boot-trace.sh": _TRACING,
    "etc/systemd/system.conf.d/trace.conf": (
        "[Manager]\nDefaultEnvironment=BASH_ENV=/etc/boot-trace.sh\n"
    ),
}
_EMPTY = "#cloud-config\nruncmd: [[/bin/sh, -c, 'date +%s.%N >/var/log/started']]\n"
#: Steps of boot.sh: a name, and a pattern of the command with which it begins.
_STEPS = {
    "the host program and its packages": "retry get_host_program",
    "unpacking uv": "unpack ",
    "its virtual environment": ".*/uv venv ",
    "installing it": ".*/uv pip install ",
    "user, disks, unit": "getent passwd ",
}
_STARTED, _WHOLE = "power on to boot.sh", "boot.sh to `running`"
_FROM_POWER = "power on to `running`"
_ENVIRONMENT_STEP, _DASK_STEP = "`environment` to `starting`", "`starting` to `running`"
#: Rows of hosts that install nothing.
_OF_IMAGES = (
    _STARTED,
    "boot.sh, all",
    _ENVIRONMENT_STEP,
    _DASK_STEP,
    _WHOLE,
    _FROM_POWER,
)
_ENVIRONMENT = "boot-bench"
_UNIT = "systemctl daemon-reload"


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Boot hosts one after another."""
    reason = why_not()
    if reason:
        raise NotMeasured(reason)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="terradask-boot-")))
        stack.enter_context(own_network())
        (folder / "provider").mkdir()
        provider = stack.enter_context(
            quick_provider(folder / "provider", _ROOT / ".terraform.lock.hcl")
        )
        aws = stack.enter_context(booted_aws(provider, folder))
        aws.power.files |= _TRACE_FILES
        rows: dict[str, Row] = {}
        environment_of(_ENVIRONMENT)
        # Before the network names it, which changes what hosts boot from.
        made = ImageBuild(Workspace.load().images, "x86_64", environment=_ENVIRONMENT).run()
        # Before the network has an image: the same hosts, stopped or new.
        for number in range(runs + 1):
            for prefix, standby in (("worker: ", 0), ("standby: ", 1)):
                for step, seconds in _worker(
                    aws, f"{prefix.strip(': ')}-{number}", standby
                ).items():
                    name = f"{prefix}{step}"
                    print(f"  run {number}: {name} {seconds:.2f}", file=sys.stderr, flush=True)
                    if number:
                        rows.setdefault(name, Row(name)).runs.append(seconds)
        candidates: dict[str, Callable[[int], dict[str, float]]] = {
            "": lambda number: {**_empty(aws, number), **_host(aws, f"cold-{number}")},
            "image: ": lambda number: _host(aws, f"image-{number}"),
        }
        for prefix, candidate in candidates.items():
            if prefix:
                aws.sim_network(image=made.id)
            for number in range(runs + 1):
                for step, seconds in candidate(number).items():
                    name = f"{prefix}{step}"
                    print(f"  run {number}: {name} {seconds:.2f}", file=sys.stderr, flush=True)
                    if number and (not prefix or step in _OF_IMAGES):
                        rows.setdefault(name, Row(name)).runs.append(seconds)
    cold, image = (rows[f"{prefix}{_FROM_POWER}"].median for prefix in candidates)
    return list(rows.values()), [
        Verdict(_WHOLE, rows[_WHOLE].median, 30, " s"),
        Verdict("power on to `running`, image / cold", image / cold, 0.9, " x"),
        Verdict(
            f"{_FROM_POWER}, standby / worker",
            rows[f"standby: {_FROM_POWER}"].median / rows[f"worker: {_FROM_POWER}"].median,
            0.8,
            " x",
        ),
    ]


def _empty(aws: BootedAws, number: int) -> dict[str, float]:
    """Boot a machine whose user data does nothing."""
    with contextlib.closing(aws.sim.client("ec2")) as ec2:
        instance = launch(ec2, f"empty-{number}", UserData=_EMPTY)
        eventually(lambda: instance in aws.power.machines)
        machine = aws.power.machines[instance]
        started = eventually(lambda: machine.read("var/log/started").strip())
        ec2.terminate_instances(InstanceIds=[instance])
        eventually(lambda: machine.is_off)
    return {"power on to the first command of other user data": float(started) - machine.started_at}


def _worker(aws: BootedAws, cluster: str, standby: int) -> dict[str, float]:
    """Return the seconds of each step from power on until a second worker of a cluster is
    `running`.
    """
    group = f"terradask-default-{cluster}-workers"
    with ExitStack() as stack:
        autoscaling, s3 = (
            stack.enter_context(contextlib.closing(aws.sim.client(name)))
            for name in ("autoscaling", "s3")
        )

        def members() -> set[str]:
            (found,) = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])[
                "AutoScalingGroups"
            ]
            return {one["InstanceId"] for one in found["Instances"]}

        workspace = Workspace.load()
        stack.callback(workspace.destroy_cluster, cluster)
        workspace.apply(workspace.plan_cluster(cluster, standby=standby, connect="private"))
        # Without an environment: the start takes it, and then one is prepared with that of the run.
        first = aws.stopped(cluster) if standby else ""
        made = stack.enter_context(
            Cluster(
                cluster,
                n_workers=1,
                software=_ENVIRONMENT,
                package_sync=False,
                connect="private",
                timeout=240,
                wait_for_workers=True,
            )
        )
        before = members()
        if standby and first not in before:
            raise RuntimeError(f"{first} was prepared, and not started")
        ready = aws.stopped(cluster) if standby else ""
        made.scale(2)
        (new,) = eventually(lambda: members() - before)
        if ready and new != ready:
            raise RuntimeError(f"{new} wasn't prepared")
        made.wait_for_workers(2, timeout=240)
        bucket, key = bucket_name("default", "123456789012", "us-east-1"), f"hosts/{new}.json"

        def history() -> dict[str, str]:
            found = s3.get_object(Bucket=bucket, Key=f"clusters/{cluster}/{key}")["Body"].read()
            states = dict(json.loads(found)["history"])
            return states if "running" in states else {}

        states = {state: _epoch(at) for state, at in eventually(history).items()}
        begins = aws.power.machines[new].started_at
        return {
            "power on to `booting`": states["booting"] - begins,
            "`booting` to `environment`": states["environment"] - states["booting"],
            _ENVIRONMENT_STEP: states["starting"] - states["environment"],
            _DASK_STEP: states["running"] - states["starting"],
            _FROM_POWER: states["running"] - begins,
        }


def _host(aws: BootedAws, cluster: str) -> dict[str, float]:
    """Boot the scheduler of a cluster, alone."""
    known = set(aws.power.machines)
    with Cluster(
        cluster,
        n_workers=0,
        software=_ENVIRONMENT,
        package_sync=False,
        connect="private",
        timeout=240,
    ):
        (machine,) = (aws.power.machines[key] for key in set(aws.power.machines) - known)
        with contextlib.closing(aws.sim.client("s3")) as s3:
            bucket = bucket_name("default", "123456789012", "us-east-1")
            keys = s3.list_objects_v2(Bucket=bucket, Prefix=f"clusters/{cluster}/hosts/")
            (key,) = (item["Key"] for item in keys["Contents"])

            def history() -> dict[str, str]:
                report = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
                return dict(report["history"]) if report["state"] == "running" else {}

            states = {state: _epoch(at) for state, at in eventually(history).items()}
        trace = machine.read(_TRACE)
    eventually(lambda: machine.is_off)
    return _steps(trace, machine.started_at, states)


def _steps(trace: str, started_at: float, states: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each step, from the commands of boot.sh and the states of the host."""
    calls = [
        (float(found[1]), found[2])
        for found in re.finditer(r"^\+ (\d+\.\d+) (.*)$", trace, re.MULTILINE)
    ]
    begins = [
        (at, name) for at, call in calls for name, step in _STEPS.items() if re.match(step, call)
    ]
    first = next(at for at, call in calls if call.startswith("readonly config="))
    unit = next(at for at, call in calls if call.startswith(_UNIT))
    seconds = {_STARTED: first - started_at}
    for (at, name), (end, _) in zip(begins, [*begins[1:], (unit, "")], strict=True):
        seconds[f"boot.sh: {name}"] = end - at
    seconds["boot.sh, all"] = unit - first
    seconds["unit to `environment`"] = states["environment"] - unit
    seconds[_ENVIRONMENT_STEP] = states["starting"] - states["environment"]
    seconds[_DASK_STEP] = states["running"] - states["starting"]
    seconds[_WHOLE] = states["running"] - first
    seconds[_FROM_POWER] = states["running"] - started_at
    return seconds


def _epoch(at: str) -> float:
    return datetime.datetime.fromisoformat(at).timestamp()
