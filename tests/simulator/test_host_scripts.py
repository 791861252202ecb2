"""Scripts of hosts on the embedded AWS: applied by who sets the network up, run before Dask and at
the end, out of reach of users, and the reason of a host that failed by them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from terradask import Cluster, Workspace
from terradask.errors import HostFailed, PolicyViolation
from terradask_modules.caller_policies import Caller, CallerScope, caller_policies
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..command import in_this_process
from ..quick_provider import QuickProvider
from ..shared_simulator import QuickSimulator
from ..waiting import eventually
from .acting import Account, refused

pytestmark = [pytest.mark.simulator, pytest.mark.life]

PLACE = PolicyScope(
    where=Where(partition="aws", region="us-east-1", account="123456789012", workspace="default")
)
BUCKET = PLACE.where.bucket
SETTINGS = """\
[network]
zones = ["us-east-1a"]
host_setup = "setup.sh"
host_setup_timeout_seconds = 20
host_leave = "leave.sh"
"""
SETUP = """\
#!/bin/bash
set -eu
mkdir made
echo "$TERRADASK_CLUSTER $TERRADASK_ROLE $TERRADASK_GROUP $TERRADASK_INSTANCE_ID" >made/by-setup
echo licence is ready
"""
LEAVE = """\
#!/bin/bash
echo "gave back the licence of $TERRADASK_INSTANCE_ID"
exit 4
"""


def policies(caller: Caller) -> list[dict[str, Any]]:
    return list(caller_policies(CallerScope(hosts=PLACE), caller).values())


@pytest.fixture
def strict_sim(quick_provider: QuickProvider) -> Iterator[Simulator]:
    """A fresh embedded AWS that evaluates IAM."""
    with QuickSimulator.start(enforce_iam=True) as simulator:
        simulator.provider = quick_provider
        yield simulator


@pytest.fixture
def folder(quick_provider: QuickProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    quick_provider.lock(tmp_path)
    for name, text in (("terradask.toml", SETTINGS), ("setup.sh", SETUP), ("leave.sh", LEAVE)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def apply_network(sim: Simulator, *more: Caller) -> str:
    """Apply the network with the rights of ``terradask iam setup``; return the plan's report."""
    rights = [policy for caller in ("setup", *more) for policy in policies(caller)]
    with sim.acting_as("setup", *rights):
        workspace = Workspace.load()
        plans = workspace.plan(["network"])
        workspace.apply(plans.plans[0])
    return str(plans.report.as_dict())


def made_by_setup() -> str:
    return Path(os.environ["TERRADASK_HOST_ROOT"], "made/by-setup").read_text().strip()


def log_of(sim: Simulator, instance_id: str) -> str:
    with contextlib.closing(sim.client("logs")) as logs:
        found = logs.get_paginator("filter_log_events").paginate(logGroupName="/terradask/default")
        return "\n".join(
            event["message"]
            for page in found
            for event in page["events"]
            if event["logStreamName"].endswith(f"/{instance_id}")
        )


def status_with(sim: Simulator, folder: Path, text: str, option: tuple[str, ...]) -> str:
    """Return what ``terradask status`` shows of a cluster, once it has a text."""
    shown = in_this_process("status", "later", *option, environ=sim.environ, folder=folder).stdout
    return shown if text in shown else ""


def script_keys(s3: Any) -> list[str]:
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix="host/scripts/")
    return [each["Key"] for each in found["Contents"]]


def test_scripts_live_with_their_hosts(strict_sim: Simulator, folder: Path) -> None:
    report = apply_network(strict_sim)
    assert "+echo licence is ready" in report
    assert "is run as root by each new host" in report
    with strict_sim.applied():
        with Cluster("etl", n_workers=1, shutdown_on_close=False) as cluster:
            with Client(cluster) as client:
                client.wait_for_workers(1)
                (made,) = client.run(made_by_setup).values()
                by_scheduler = client.run_on_scheduler(made_by_setup)
            (worker,) = cluster.observed
        assert made == f"etl worker workers {worker}"
        assert re.fullmatch(r"etl scheduler scheduler i-[0-9a-f]+", by_scheduler)
        ready = "terradask-boot: host_setup: licence is ready"
        eventually(lambda: ready in log_of(strict_sim, worker))
        Workspace.load().deployment("etl").stop()
        log = eventually(lambda: "exit code 4" in (log := log_of(strict_sim, worker)) and log)
        assert f"terradask-host: host_leave: gave back the licence of {worker}" in log
        assert "terradask-host: ERROR: network.host_leave ended with exit code 4." in log

        # A new script shows as a difference; the deployed cluster goes on with the one it has.
        (folder / "setup.sh").write_text(SETUP.replace("is ready", "is gone; exit 3"))
        assert "-echo licence is ready" in apply_network(strict_sim, "ongoing")
        deployment = Workspace.load().deployment("etl")
        deployment.start(n_workers=0)
        eventually(lambda: deployment.status().state == "running")
        deployment.stop()

        workspace = Workspace.load()
        workspace.apply(workspace.plan_cluster("later"))
        workspace.deployment("later").start(n_workers=0)
        for option in ((), ("--events",)):
            shown = eventually(
                lambda option=option: status_with(strict_sim, folder, "licence is gone", option)
            )
            assert "network.host_setup ended with exit code 3" in shown
        workspace.deployment("later").stop()

        (folder / "setup.sh").write_text(SETUP + "sleep 300 & sleep 300\n")
        apply_network(strict_sim, "ongoing")
        with pytest.raises(HostFailed, match="ran for 20 s and was killed, with all") as failed:
            Cluster("slow", n_workers=0)
        assert "licence is ready" in (failed.value.reason or "")


def test_nobody_but_who_sets_up_decides_what_hosts_run(strict_sim: Simulator, folder: Path) -> None:
    apply_network(strict_sim)
    with strict_sim.applied(), contextlib.ExitStack() as clients:
        owner = clients.enter_context(contextlib.closing(strict_sim.client("s3")))
        keys = script_keys(owner)
        assert len(keys) == 2
        environ = strict_sim.environ_of("user", *policies("user"))
        user = Account(strict_sim, environ, clients).client("s3")
        for key in (*keys, "host/scripts/" + "0" * 64):
            assert refused(user.put_object, Bucket=BUCKET, Key=key, Body=b"#!/bin/sh\nmine\n")
            assert refused(user.delete_object, Bucket=BUCKET, Key=key)

        # And by who may write there: hosts run nothing else than what was applied.
        for key in keys:
            owner.put_object(Bucket=BUCKET, Key=key, Body=b"#!/bin/sh\ntouch made-by-another\n")
        with pytest.raises(HostFailed, match="is not the one that was applied, and wasn't run"):
            Cluster("planted", n_workers=0)
        assert not list(strict_sim.state_dir.rglob("made-by-another"))

    (folder / "setup.sh").write_text(f"{SETUP}export DB_PASSWORD=correct-horse-battery\n")
    with pytest.raises(PolicyViolation, match=r"aws_s3_object\.host-setup"):
        apply_network(strict_sim)
