"""Another cluster's scheduler marks a cluster for destruction: they can share their role."""

from __future__ import annotations

import contextlib

import pytest

from terradask._dask.provision import take_snapshot
from terradask._workspace.workspace import Workspace
from terradask_simulator import Simulator

from ..simulator.acting import host
from .planted_scene import BUCKET, Scene

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

KEY = "clusters/etl/closing.json"
SCHEDULER = "terradask-default-etl-scheduler"


def test_a_mark_counts_for_nothing_while_a_run_goes_on(scene: Scene, sim: Simulator) -> None:
    deployment, groups = (
        scene.workspace.deployment("etl"),
        scene.owner.client("autoscaling"),
    )
    run = deployment.start(n_workers=0, check_quotas=False)
    try:
        with contextlib.ExitStack() as clients:
            task = host(scene.owner, sim, clients, "terradask-default-scheduler")
            task.client("s3").put_object(Bucket=BUCKET, Key=KEY, Body=b"not even JSON")
        workspace = Workspace.load(scene.workspace.root)
        assert workspace.strays(grace_seconds=1).strays == ()
        fresh = workspace.deployment("etl")
        assert not fresh.marked_closing
        assert fresh.status().state in {"starting", "running"}
        assert not take_snapshot(fresh, lambda: None).closing
        assert fresh.start(n_workers=0, check_quotas=False).run_id == run.run_id
        # It counts once the run is over.
        groups.set_desired_capacity(AutoScalingGroupName=SCHEDULER, DesiredCapacity=0)
        assert workspace.deployment("etl").marked_closing
    finally:
        deployment.stop(wait_seconds=30)
        deployment.keep()
