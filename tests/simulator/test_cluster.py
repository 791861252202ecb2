"""Cluster, end to end on the embedded AWS: real Terraform, real mutual TLS, real Dask on hosts that really boot."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request

import dask
import pytest
from botocore.exceptions import ClientError
from distributed import Client, Worker, wait
from distributed.security import Security

from terradask import Cluster, Deployment, Workspace
from terradask._runtime.keys import KeySet
from terradask._runtime.objects import read_secret
from terradask._runtime.software import SoftwareNotInstalled
from terradask.errors import (
    ClusterEnded,
    ClusterNotFound,
    ClusterPrivate,
    ClusterStopped,
    InvalidInput,
    NoBaseline,
    NoIngress,
    WorkersMissing,
)
from terradask.policy import secrets_in_state

pytestmark = [pytest.mark.simulator]


def eventually(condition, timeout=20, message="the condition never held"):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.1)
    pytest.fail(message() if callable(message) else message)


def python(code, timeout=90, **kwargs):
    """Run code in another process and return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=timeout, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cluster(sim_environ):
    with (
        dask.config.set({"distributed.worker.memory.spill": 0.61, "array.chunk-size": "7 MiB"}),
        Cluster(
            "shared",
            n_workers=2,
            wait_for_workers=True,
            max_workers=8,
            private_to_creator=True,
            tags={"cost-centre": "4711"},
            environ={"SEEN_BY_ALL": "yes"},
            scheduler_options={"idle_timeout": "2 hours"},
            worker_options={"resources": {"GPU": 1}},
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        yield client
    cluster.scale(2)
    eventually(lambda: len(cluster.observed) == 2 == len(cluster.plan), message=f"not two workers again: {cluster.plan}")


def unique_results(client, cluster):
    """Make one result on each worker that can't be made again; return futures and values."""
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    futures = [client.submit(os.urandom, 16, workers=[a], allow_other_workers=True, pure=False) for a in addresses]
    wait(futures)
    return futures, client.gather(futures)


def test_it_computes_over_mutual_tls_on_hosts_of_the_account(cluster, client, sim):
    assert client.submit(sum, [1, 2, 3]).result() == 6
    assert cluster.scheduler_address.startswith("tls://127.")
    assert cluster.observed == cluster.plan == cluster.requested
    assert all(name.startswith("i-") for name in cluster.observed)
    assert {h.instance_id for h in sim.hosts() if h.role == "worker" and h.cluster == "shared"} == cluster.observed


def test_no_private_key_of_a_running_cluster_is_in_a_state(cluster, sim):
    secret = json.loads(sim.client("secretsmanager").get_secret_value(SecretId="terradask/default/shared")["SecretString"])
    keys = [secret[role]["key"].encode() for role in ("scheduler", "worker", "client")]
    assert all(b"PRIVATE KEY" in key for key in keys)
    workspace = Workspace.load()
    state = sim.client("s3").get_object(Bucket=workspace.bucket, Key="clusters/shared/terraform.tfstate")["Body"].read()
    assert b"aws_secretsmanager_secret" in state
    assert secrets_in_state(state, keys) == ()
    assert len(secrets_in_state(state.replace(b"shared", json.dumps(keys[0].decode()).encode(), 1), keys)) == 1


def test_a_private_cluster_is_its_creators_and_nobody_elses(cluster, sim, policies):
    creator = sim.client("sts").get_caller_identity()["Arn"]
    with sim.acting_as("colleague", *policies["user"]):
        with pytest.raises(ClusterPrivate, match="private to its creator") as caught:
            Cluster.from_name("shared")
        assert caught.value.principals == (creator,)
        assert ":assumed-role/colleague/" in caught.value.caller
        # Nor do they let themselves in.
        workspace = Workspace.load()
        with pytest.raises(ClientError, match="explicit deny in a resource-based policy"):
            workspace.aws.client("secretsmanager").delete_resource_policy(SecretId="terradask/default/shared")
        # They still see that it runs, and could stop it.
        assert Deployment(workspace.aws, workspace.bucket, "shared").status().state == "running"


async def test_a_workers_certificate_alone_makes_no_worker(cluster, sim):
    secret = json.loads(sim.client("secretsmanager").get_secret_value(SecretId="terradask/default/shared")["SecretString"])
    stolen = {f"tls_worker_{part}": text for part, text in secret["worker"].items()}
    security = Security(require_encryption=True, tls_ca_file=secret["ca"], **stolen)
    with pytest.raises(RuntimeError, match="failed to start") as caught:
        await Worker(
            cluster.scheduler_address,
            name="stranger",
            security=security,
            protocol="tls",
            host="127.0.0.1",
            nthreads=1,
            dashboard=False,
            dashboard_address=":0",
        )
    assert "no instance of this cluster" in str(caught.value.__cause__)
    assert "stranger" not in cluster.worker_names()

    def told():
        return [event for event in cluster.events() if "stranger" in (event.reason or "")]

    await asyncio.to_thread(eventually, told, message="nobody was told of the stranger")
    assert [(event.subject, event.state, event.step) for event in told()] == [("workers", "failed", "refused")]


def test_what_was_asked_for_reaches_the_hosts(cluster, client):
    def look(dask_worker):
        return dask.config.get("distributed.worker.memory.spill"), dask.config.get("array.chunk-size"), os.environ["SEEN_BY_ALL"]

    assert set(client.run(look).values()) == {(0.61, "7 MiB", "yes")}
    assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.idle_timeout) == 7200
    assert client.submit(sum, [1, 1], resources={"GPU": 1}).result() == 2
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    assert {w["nthreads"] for w in workers} == {4}
    assert all(15 * 2**30 < w["memory_limit"] <= 16 * 2**30 for w in workers)


def test_tags_are_on_the_groups_and_their_instances(cluster):
    ec2 = cluster._deployed.workspace.aws.client("ec2")
    for reservation in ec2.describe_instances(InstanceIds=sorted(cluster.observed))["Reservations"]:
        tags = {t["Key"]: t["Value"] for i in reservation["Instances"] for t in i["Tags"]}
        assert tags["cost-centre"] == "4711"
        assert tags["terradask:cluster"] == "shared"
        assert tags["terradask:workspace"] == "default"
        assert tags["terradask:run:id"] == cluster._run_id


def test_its_repr_says_what_it_is(cluster, client):
    text = repr(cluster)
    assert "'shared'" in text
    assert "workers=2/2" in text
    assert cluster.zone in text
    assert cluster.name in cluster._repr_html_()


def test_scaling_down_loses_no_result(cluster, client):
    cluster.scale(4)
    cluster.wait_for_workers(4, timeout=60)
    futures, before = unique_results(client, cluster)
    cluster.scale(2)
    eventually(lambda: len(cluster.observed) == 2)
    assert client.gather(futures) == before


def test_scaling_to_zero_and_back(cluster, client):
    cluster.scale(0)
    eventually(lambda: not cluster.observed and not cluster.plan)
    assert cluster.recommendations(1) == {"status": "up", "n": 1}
    cluster.scale_up(1)
    cluster.wait_for_workers(1, timeout=60)
    assert client.submit(sum, [4, 5]).result() == 9


def test_more_than_max_workers_is_refused_before_any_call(cluster):
    with pytest.raises(InvalidInput, match="max_workers"):
        cluster.scale(9)
    with pytest.raises(InvalidInput, match="max_workers"):
        cluster.adapt(minimum=0, maximum=9)
    with pytest.raises(InvalidInput, match="maximum"):
        cluster.adapt(minimum=0, maximum=float("inf"))


def test_a_second_process_attaches_by_name_scales_and_leaves_it_running(cluster, client):
    out = python(
        """
import json
from terradask import Cluster
with Cluster("shared") as cluster, cluster.get_client() as client:
    cluster.scale(3)
    cluster.wait_for_workers(3, timeout=60)
    print(json.dumps([cluster.origin, cluster.shutdown_on_close, cluster.scheduler_address, client.submit(sum, [1, 1]).result()]))
"""
    )
    assert json.loads(out) == ["attached", False, cluster.scheduler_address, 2]
    eventually(lambda: len(cluster.plan) == 3, message="the first client never saw what the second did")
    assert client.submit(sum, [2, 2]).result() == 4


def test_asynchronous_attach(cluster, client):
    async def use():
        async with Cluster("shared", asynchronous=True) as other, Client(other, asynchronous=True) as c:
            return other.origin, await c.submit(sum, [3, 3])

    assert asyncio.run(use()) == ("attached", 6)


def test_an_attached_cluster_of_other_structure_is_refused(cluster):
    with pytest.raises(InvalidInput, match="other settings") as caught:
        Cluster("shared", worker_vm_types=["c6i.large"])
    assert "c6i.large" in str(caught.value)


def test_the_dashboard_is_on_loopback_behind_mutual_tls(cluster):
    with urllib.request.urlopen(cluster.dashboard_link.replace("/status", "/health"), timeout=10) as answer:
        assert answer.read() == b"ok"
    with urllib.request.urlopen(cluster.dashboard_link, timeout=30) as answer:
        assert b"Dask" in answer.read()
    attachment = cluster._deployed.attachment
    host = attachment.scheduler.private_address.partition("://")[2].rpartition(":")[0]
    anybody = ssl.create_default_context(cadata=attachment.keys.ca)
    anybody.check_hostname = False
    with pytest.raises(OSError):  # noqa: PT011 (refused, reset or a TLS alert: all mean no)
        urllib.request.urlopen(f"https://{host}:{attachment.scheduler.dashboard_port}/health", timeout=10, context=anybody).read()


def test_a_dead_worker_is_replaced_once_and_mirrored(cluster, client, sim):
    victim = next(iter(cluster.observed))
    sim.kill_host(victim)
    eventually(lambda: len(cluster.observed) == 2 and victim not in cluster.observed, timeout=60)
    # The scheduler may have seen all of it before the group was looked at again.
    eventually(lambda: cluster.plan == cluster.observed, timeout=10)


def test_what_dask_restarts_comes_back_under_the_same_names(cluster, client):
    before = cluster.observed
    client.restart(timeout=60)
    eventually(lambda: cluster.observed == before, timeout=30)
    assert client.submit(sum, [1, 2]).result(30) == 3


def test_adaptive_grows_with_work_and_shrinks_without(cluster, client):
    adaptive = cluster.adapt(minimum=1, maximum=3, interval="200ms", wait_count=3, target_duration="1s")
    try:
        futures = client.map(lambda n: time.sleep(0.4), range(2000))
        eventually(lambda: len(cluster.observed) == 3, timeout=60)
        client.cancel(futures)
        eventually(lambda: len(cluster.plan) == 1, timeout=60)
    finally:
        adaptive.stop()


def test_status_and_list_from_any_process(cluster, client):
    status = Deployment(cluster._deployed.workspace.aws, cluster._deployed.workspace.bucket, "shared").status()
    assert status.state == "running"
    assert status.groups["workers"]["desired"] == 2
    assert {h.state for h in status.hosts if h.instance_id in cluster.observed} == {"running"}
    json.dumps(status.as_dict())
    assert "shared" in [d.name for d in Workspace.load().deployments()]
    told = cluster.events()
    assert told == sorted(told, key=lambda event: event.at)
    joined = {event.subject for event in told if event.state == "joined"}
    assert cluster.observed <= joined
    assert all(event.reason for event in told if event.state == "requested")


def test_what_a_worker_says_when_it_fails(sim_environ):
    with pytest.raises(WorkersMissing) as caught:
        Cluster(
            "broken",
            n_workers=1,
            wait_for_workers=True,
            worker_options={"no_such_option": 1},
        )
    assert "no_such_option" in str(caught.value)
    assert not Deployment(Workspace.load().aws, Workspace.load().bucket, "broken").exists


def test_no_baseline_is_an_error_that_names_the_command_and_makes_nothing(sim_environ, monkeypatch):
    monkeypatch.setenv("TERRADASK_WORKSPACE__NAME", "elsewhere")
    with pytest.raises(NoBaseline, match="terradask apply network"):
        Cluster(n_workers=1)


def test_a_cluster_that_nobody_could_reach_is_refused(sim_environ, monkeypatch):
    baseline = Workspace.load().baseline().model_copy(update={"ingress": []})
    monkeypatch.setattr(Workspace, "baseline", lambda workspace: baseline)
    with pytest.raises(NoIngress, match=r"network\.ingress"):
        Cluster("closed", n_workers=1)


def test_software_that_is_not_installed_here_is_refused_before_anything_is_made(sim_environ):
    events = []
    with pytest.raises(SoftwareNotInstalled, match="no-such-package"):
        Cluster("unlucky", n_workers=1, software=["no-such-package"], progress=events.append)
    assert not Deployment(Workspace.load().aws, Workspace.load().bucket, "unlucky").objects.names()
    assert "apply" not in {getattr(event, "phase", None) for event in events}


def test_attaching_never_makes_or_starts(sim_environ):
    with pytest.raises(ClusterNotFound):
        Cluster.from_name("nowhere")


def test_stop_and_start_run_no_terraform_and_make_new_keys(sim_environ, tmp_path):
    workspace = Workspace.load()
    deployment = workspace.apply(workspace.plan_cluster("resting", max_workers=3))
    with pytest.raises(ClusterStopped):
        Cluster.from_name("resting")
    code = """
import json
from terradask import Cluster
with Cluster("resting", n_workers=1, wait_for_workers=True) as cluster, cluster.get_client() as client:
    print(json.dumps([cluster.origin, client.submit(sum, [1, 2]).result(), cluster._deployed.attachment.keys.ca]))
"""
    environ = {**os.environ, "PATH": str(tmp_path)}
    first = json.loads(python(code, env=environ))
    assert first[:2] == ["started", 3]
    assert deployment.status().state in {"stopped", "stopping"}
    assert deployment.run() is None
    second = json.loads(python(code + "    cluster.stop()\n", env=environ))
    assert second[:2] == ["started", 3]
    assert first[2] != second[2]
    # Both runs are told, although both are over.
    told = deployment.events()
    assert [event.state for event in told if event.subject == "cluster"] == ["starting", "running", "stopped"] * 2
    worker = next(event.subject for event in told if event.group == "workers" and event.state == "joined")
    life = [event.state for event in told if event.subject == worker]
    assert life[:2] == ["requested", "launched"]
    assert life.index("booting") < life.index("joined")
    # A run that ended by itself, as when the scheduler was idle, is no cluster to attach to.
    deployment.start(n_workers=0)
    deployment.groups.zero()
    deployment.objects.write("run.json", {**deployment.run().to_document(), "started_at": "2026-01-01T00:00:00Z"})
    with pytest.raises(ClusterEnded, match="dead man's switch"):
        Cluster.from_name("resting")
    old = KeySet.from_document(read_secret(workspace.aws, "terradask/default/resting", version_id=deployment.run().secret_version_id))
    with Cluster("resting", n_workers=0, idle_timeout="8s") as cluster:
        assert cluster.origin == "started"
        with pytest.raises(OSError, match=r"Timed out|certificate|SSL"):
            Client(cluster.scheduler_address, security=old.client_security(), timeout="2s")
        cluster.set_keepalive("5m")
        # It ends under this client, which nothing tells but the scheduler's silence and the groups.
        with pytest.raises(ClusterEnded) as caught:
            eventually(lambda: cluster.scale(0), timeout=40)
        assert caught.value.reason.startswith("idle for 8 seconds, since 20")
        assert caught.value.reason.endswith("no task, 1 connected")
        with pytest.raises(ClusterEnded):
            cluster.get_client()
        assert deployment.status().why_ended == caught.value.reason
    workspace.destroy_cluster("resting")
    assert not Deployment(workspace.aws, workspace.bucket, "resting").exists


def test_a_client_that_goes_without_closing_leaves_zero_and_the_next_command_finishes(sim_environ, sim):
    python(
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
        timeout=90,
    )
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "created\n"), killed.stderr
    eventually(lambda: not any(host.cluster == "forgotten" for host in sim.hosts()), timeout=3 + 60)
    status = deployment.status()
    assert status.state in {"ended", "stopping"}
    assert status.why_ended.startswith("no client for 3 seconds, since 20")
    assert deployment.marked_closing
    with pytest.raises(ClusterEnded) as caught:
        deployment.attach(timeout_seconds=1)
    assert caught.value.reason == status.why_ended
    workspace.destroy_cluster("forgotten")
    assert not Deployment(workspace.aws, workspace.bucket, "forgotten").exists
