"""A cluster's end, end to end: stopped, ended by its hosts, left by a client that is gone."""

import json
import os
import signal
import subprocess
import sys

import pytest
from distributed import Client

from terradask import Cluster, Deployment, Workspace
from terradask._observe.keys import KeySet
from terradask._observe.store import read_secret
from terradask.errors import ClusterStopped

from ..waiting import PROCESS_SECONDS, eventually
from .scripts import run_python

pytestmark = [pytest.mark.simulator, pytest.mark.life]


def test_stop_and_start_run_no_terraform_and_make_new_keys(sim_environ, tmp_path):
    workspace = Workspace.load()
    deployment = workspace.apply(workspace.plan_cluster("resting", max_workers=3))
    with pytest.raises(ClusterStopped):
        Cluster.from_name("resting")
    code = """
import json
from terradask import Cluster, Workspace
cluster = Cluster("resting", n_workers=1, wait_for_workers=True)
with cluster, cluster.get_client() as client:
    keys = Workspace.load().deployment("resting").attach(timeout_seconds=100).keys
    print(json.dumps([cluster.origin, client.submit(sum, [1, 2]).result(), keys.ca]))
"""
    environ = {**os.environ, "PATH": str(tmp_path)}
    first = json.loads(run_python(code, env=environ))
    assert first[:2] == ["started", 3]
    assert deployment.status().state in {"stopped", "stopping"}
    assert deployment.run() is None
    second = json.loads(run_python(code + "    cluster.stop()\n", env=environ))
    assert second[:2] == ["started", 3]
    assert first[2] != second[2]
    # Both runs are told, although both are over.
    told = deployment.events()
    assert [event.state for event in told if event.subject == "cluster"] == [
        "starting",
        "running",
        "stopped",
    ] * 2
    worker = next(
        event.subject for event in told if event.group == "workers" and event.state == "joined"
    )
    life = [event.state for event in told if event.subject == worker]
    assert life[:2] == ["requested", "launched"]
    assert life.index("booting") < life.index("joined")
    # A run that ended by itself, as when the scheduler was idle, is no cluster to attach to.
    deployment.start(n_workers=0)
    deployment.groups.zero()
    deployment.objects.write(
        "run.json", {**deployment.run().to_document(), "started_at": "2026-01-01T00:00:00Z"}
    )
    with pytest.raises(ClusterStopped, match="watchdog schedule"):
        Cluster.from_name("resting")
    version_id = deployment.run().secret_version_id
    secret = read_secret(workspace.aws, "terradask/default/resting", version_id=version_id)
    old = KeySet.from_document(secret[1])
    with Cluster("resting", n_workers=0, idle_timeout="30s") as cluster:
        assert cluster.origin == "started"
        with pytest.raises(OSError, match=r"Timed out|certificate|SSL"):
            Client(cluster.scheduler_address, security=old.client_security(), timeout="2s")
        cluster.set_keepalive("5m")
        # It ends under this client, which nothing tells but the scheduler's silence and the groups.
        with pytest.raises(ClusterStopped, match="has ended by itself") as caught:
            eventually(lambda: cluster.scale(0))
        assert caught.value.reason.startswith("idle for 30 seconds, since 20")
        assert caught.value.reason.endswith("no task, 1 connected")
        with pytest.raises(ClusterStopped, match="has ended by itself"):
            cluster.get_client()
        assert deployment.status().why_ended == caught.value.reason
    workspace.destroy_cluster("resting")
    assert not Deployment(workspace.aws, workspace.bucket, "resting").exists


def test_a_client_that_goes_without_closing_leaves_zero_and_the_next_command_finishes(
    sim_environ, sim
):
    run_python(
        """
from terradask import Cluster
cluster = Cluster("forgotten", n_workers=1)
cluster.get_client().submit(sum, [1]).result()
""",
    )
    workspace = Workspace.load()
    deployment = Deployment(workspace.aws, workspace.bucket, "forgotten")
    assert {g.desired for g in deployment.groups.describe().values()} == {0}
    assert deployment.marked_closing
    # Killed, it can do nothing at all: its hosts do.
    killed = subprocess.run(
        [
            sys.executable,
            "-c",
            """
import os, signal, time
from terradask import Cluster
cluster = Cluster("forgotten", n_workers=1, no_client_timeout="3s", wait_for_workers=True)
# As long as it is there, a cluster object counts as a client.
time.sleep(5)
assert cluster.requested and cluster.observed
print(cluster.origin, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""",
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "created\n"), killed.stderr
    eventually(lambda: not any(host.cluster == "forgotten" for host in sim.hosts()))
    status = deployment.status()
    assert status.state in {"ended", "stopping"}
    assert status.why_ended.startswith("no client for 3 seconds, since 20")
    assert deployment.marked_closing
    with pytest.raises(ClusterStopped, match="has ended by itself") as caught:
        deployment.attach(timeout_seconds=1)
    assert caught.value.reason == status.why_ended
    workspace.destroy_cluster("forgotten")
    assert not Deployment(workspace.aws, workspace.bucket, "forgotten").exists
