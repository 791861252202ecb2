"""Cluster, end to end on the embedded AWS: real Terraform, real mutual TLS, real Dask on hosts that really boot."""

import asyncio
import base64
import contextlib
import gzip
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import boto3
import dask
import platformdirs
import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives.asymmetric import ec
from distributed import Client, Worker, wait
from distributed.security import Security

from terradask import Cluster, Deployment, Workspace
from terradask._aws.ssm import plugin
from terradask._dask import connectivity
from terradask._deployments.keys import KeySet
from terradask._deployments.store import read_secret
from terradask._plans.render_terminal import report_to_text
from terradask.errors import (
    ClusterEnded,
    ClusterNotFound,
    ClusterPrivate,
    ClusterStopped,
    InvalidInput,
    NoBaseline,
    NoIngress,
    SessionManagerPluginMissing,
    SettingsError,
    SoftwareNotInstalled,
    WorkersMissing,
)
from terradask.policy import secrets_in_state

from .secret_search import Secrets, search

pytestmark = [pytest.mark.simulator]

ACCOUNT = "123456789012"

#: Put where they must not go on from; what the tests of other features plant is added here. Another run's are others.
PLANTED = {name: f"{name}-{uuid.uuid4().hex}" for name in ("dask-token", "dask-password", "caller-secret-access-key")}


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
def temporary(tmp_path_factory):
    """Return the folder in which this process, and what it starts, keeps temporary files."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture(scope="module")
def secrets():
    """Return what nobody may find, with every private key that is made from now on."""
    found = Secrets(PLANTED)
    make = ec.generate_private_key
    made = []

    def remembered(curve):
        key = make(curve)
        made.append(key)
        found.add_key(f"private key {len(made)}", key)
        return key

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ec, "generate_private_key", remembered)
        yield found


@contextlib.contextmanager
def named_besides(patch, role):
    """Let a role read the keys of a private cluster, as its settings name it."""
    patch.setenv("TERRADASK_CLUSTER__SECRET_PRINCIPALS", json.dumps([f"arn:aws:iam::{ACCOUNT}:role/{role}"]))
    yield


@pytest.fixture(scope="module")
def cluster(sim_environ, secrets, temporary):
    index = f"https://me:{PLANTED['dask-password']}@index.example.org"
    planted = {"planted.api-token": PLANTED["dask-token"], "planted.index": index, "planted.mirrors": [index]}
    with (
        pytest.MonkeyPatch.context() as patch,
        named_besides(patch, "user-of-sessions"),
        dask.config.set({"distributed.worker.memory.spill": 0.61, "array.chunk-size": "7 MiB", **planted}),
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
        # boto3 took the caller's own; what is started from here on gets this one.
        patch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED["caller-secret-access-key"])
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        yield client
    cluster.scale(2)
    eventually(lambda: len(cluster.observed) == 2 == len(cluster.plan), message=f"not two workers again: {cluster.plan}")


def test_a_user_reaches_the_scheduler_through_sessions(cluster, sim, policies):
    def programs():
        return [f._process.pid for f in through._attached.dialer._endpoint._open.values()]

    def dashboard_answers():
        with contextlib.suppress(OSError), urllib.request.urlopen(through.dashboard_link, timeout=20) as page:
            return page.status == 200

    with sim.acting_as("user-of-sessions", *policies["user"]), Cluster("shared", connect="ssm", attach=True) as through:
        host, _, port = through.scheduler_address.removeprefix("tls://").rpartition(":")
        assert (host, through.origin) == ("127.0.0.1", "attached")
        with through.get_client() as client:
            assert client.submit(sum, [1, 2, 3]).result(timeout=30) == 6
            assert dashboard_answers()
            # The plugins die, and with them their sessions: others take over the same ports.
            first = programs()
            for guard in first:
                for child in Path(f"/proc/{guard}/task/{guard}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            eventually(lambda: not set(first) & set(programs()), message="the sessions were not opened again")
            assert client.submit(sum, [4, 5], pure=False).result(timeout=30) == 9
            assert through.scheduler_address.endswith(f":{port}")
            eventually(dashboard_answers, message="the dashboard's session was not opened again")
        last = programs()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in last), message="the plugin outlived its client")


def test_sessions_lead_nowhere_else(cluster, sim, policies):
    environ = sim.environ_of("user-of-sessions", *policies["user"])
    worker = next(host for host in sim.hosts() if host.role == "worker" and host.cluster == "shared")
    scheduler = next(host for host in sim.hosts() if host.role == "scheduler" and host.cluster == "shared")
    keys = {name.lower(): environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN") if name in environ}
    ssm = boto3.client("ssm", region_name="us-east-1", endpoint_url=sim.endpoint_url, **keys)
    forward = {"DocumentName": "AWS-StartPortForwardingSession", "Parameters": {"portNumber": ["8786"]}}
    for target, more in (
        (worker.instance_id, forward),
        (scheduler.instance_id, {}),
        (scheduler.instance_id, {**forward, "DocumentName": "AWS-StartPortForwardingSessionToRemoteHost"}),
    ):
        with pytest.raises(ssm.exceptions.ClientError, match="not authorized to perform: ssm:StartSession"):
            ssm.start_session(Target=target, **more)
    # A worker's host has no agent that is connected: its role has no such right.
    with pytest.raises(ssm.exceptions.ClientError, match="is not connected"):
        sim.client("ssm").start_session(Target=worker.instance_id, **forward)
    ssm.close()


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
        assert caught.value.principals == (creator, f"arn:aws:iam::{ACCOUNT}:role/user-of-sessions")
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
    workspace = Workspace.load()
    ec2, run = workspace.aws.client("ec2"), workspace.deployment("shared").run()
    for reservation in ec2.describe_instances(InstanceIds=sorted(cluster.observed))["Reservations"]:
        tags = {t["Key"]: t["Value"] for i in reservation["Instances"] for t in i["Tags"]}
        assert tags["cost-centre"] == "4711"
        assert tags["terradask:cluster"] == "shared"
        assert tags["terradask:workspace"] == "default"
        assert tags["terradask:run:id"] == run.run_id


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
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    base = cluster.dashboard_link.partition("/status?")[0]
    # The link leads to the page by a cookie, without which there is nothing.
    for page, content in ((cluster.dashboard_link, b"url=./status"), (f"{base}/health", b"ok"), (f"{base}/status", b"Bokeh")):
        with browser.open(page, timeout=30) as answer:
            assert content in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{base}/health", timeout=10)
    attachment = Workspace.load().deployment("shared").attach(timeout_seconds=10)
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
    status = Workspace.load().deployment("shared").status()
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


def test_no_secret_is_found_anywhere_in_a_life_or_after_it(cluster, sim, secrets, temporary):
    """Roles' keys are in the cluster's secret and in their hosts' memory-backed folders; the authority's is nowhere."""
    with cluster.get_client() as client:
        assert client.submit(sum, [1, 2]).result() == 3
    workspace = Workspace.load()
    report = workspace.report(workspace.plan_cluster("shared"))
    (temporary / "report").write_text(report_to_text(report) + json.dumps(report.as_dict()))
    # Hosts' memory is elsewhere than their disks.
    run = [(host.log_path.parent / "root/run").resolve() for host in sim.hosts()]
    own = [Path(platformdirs.user_cache_dir("terradask")), Path(platformdirs.user_data_dir("terradask"))]
    folders = (sim.state_dir, temporary, *run, *own)
    value = sim.client("secretsmanager").get_secret_value(SecretId="terradask/default/shared")["SecretString"]
    keys = {role: json.loads(value)[role]["key"] for role in ("scheduler", "worker", "client")}

    # The secret has what was made, but for the authority's key, which came first.
    assert {name for _, name in secrets.find("", "".join(keys.values()).encode())} == {f"private key {number}" for number in (2, 3, 4)}
    living = search(secrets, sim, *folders)
    memory = {file.resolve(): host.role for host in sim.hosts() for file in (host.log_path.parent / "root/run/terradask").glob("*.key")}
    assert {Path(place) for place, _ in living} == memory.keys()
    assert {path.read_text() == keys[role] for path, role in memory.items()} == {True}
    assert {path.stat().st_mode & 0o777 for path in memory} == {0o600}

    cluster.close()
    eventually(lambda: not any(host.cluster == "shared" for host in sim.hosts()))
    assert search(secrets, sim, *folders) == []

    # The search can find: a copy in each kind of place, as others leave them.
    (temporary / "left").write_bytes(gzip.compress(keys["client"].encode()))
    with plant_everywhere(sim, keys["worker"], PLANTED["dask-token"]):
        found = {place for place, _ in search(secrets, sim, temporary)}
    kinds = ("left, unpacked", "s3://planted/x", "log x", "tags", "launch template planted", "user data of planted", "environ", "cmdline")
    assert {kind for kind in kinds if not any(kind in place for place in found)} == set()


@contextlib.contextmanager
def plant_everywhere(sim, key, text):
    """Leave copies where a life must not leave them, for as long as the search runs."""
    with contextlib.ExitStack() as stack:

        def client(service):
            return stack.enter_context(contextlib.closing(sim.client(service)))

        s3, logs, ec2 = client("s3"), client("logs"), client("ec2")
        s3.create_bucket(Bucket="planted")
        stack.callback(s3.delete_bucket, Bucket="planted")
        s3.put_object(Bucket="planted", Key="x", Body=json.dumps({"key": key}).encode())
        stack.callback(s3.delete_object, Bucket="planted", Key="x")
        which = {"logGroupName": "/planted", "logStreamName": "x"}
        logs.create_log_group(logGroupName="/planted")
        stack.callback(logs.delete_log_group, logGroupName="/planted")
        logs.create_log_stream(**which)
        logs.put_log_events(**which, logEvents=[{"timestamp": int(time.time() * 1000), "message": f"with {text}"}])
        data = {"ImageId": "ami-12c6146b", "UserData": base64.b64encode(f"#!/bin/sh\n{key}".encode()).decode()}
        data["TagSpecifications"] = [{"ResourceType": "instance", "Tags": [{"Key": "x", "Value": text}]}]
        tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "x", "Value": text}]}]
        ec2.create_launch_template(LaunchTemplateName="planted", LaunchTemplateData=data, TagSpecifications=tags)
        stack.callback(ec2.delete_launch_template, LaunchTemplateName="planted")
        process = subprocess.Popen(["/bin/sh", "-c", "read x", text], env={"X": text}, stdin=subprocess.PIPE)
        stack.callback(process.communicate)
        yield


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


def test_a_plugin_that_is_missing_is_told_before_anything_is_made(sim_environ, tmp_path, monkeypatch):
    monkeypatch.setattr(plugin, "_USUAL_FOLDERS", ())
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(SessionManagerPluginMissing, match="isn't on this machine"):
            Cluster("pluginless", n_workers=1, connect="ssm")
    assert not Deployment(Workspace.load().aws, Workspace.load().bucket, "pluginless").objects.names()


def test_my_own_address_has_to_lie_within_a_network_that_all_share(sim_environ, monkeypatch):
    monkeypatch.setattr(connectivity, "own_cidr", lambda url: "203.0.113.7/32")
    with pytest.raises(SettingsError, match=r"8786-8787 from 203\.0\.113\.7/32"):
        Cluster("mine", n_workers=1, allow_ingress_from="me")
    assert not Deployment(Workspace.load().aws, Workspace.load().bucket, "mine").objects.names()


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
from terradask import Cluster, Workspace
with Cluster("resting", n_workers=1, wait_for_workers=True) as cluster, cluster.get_client() as client:
    keys = Workspace.load().deployment("resting").attach(timeout_seconds=10).keys
    print(json.dumps([cluster.origin, client.submit(sum, [1, 2]).result(), keys.ca]))
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
    with pytest.raises(ClusterEnded, match="watchdog schedule"):
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
