"""Who gets at a cluster, end to end: by sessions and keys, to the dashboard; no secret is left."""

import contextlib
import gzip
import json
import os
import signal
import ssl
import tempfile
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import boto3
import dask
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from terradask import Cluster, Deployment, Workspace
from terradask._plans.render_terminal import to_text
from terradask.errors import AccessDenied, ClusterPrivate
from terradask.policy import secrets_in_state
from terradask_host.rules.instance_proof import audience_of
from terradask_stacks.user_folders import cache_folder, data_folder

from ..waiting import HANG_SECONDS, eventually, eventually_async
from .planted_secrets import (
    index_credentials,
    plant_everywhere,
    print_logs,
    secret_of_hosts,
)
from .posing import poser, sign
from .scripts import run_python
from .secret_search import Secrets, keys_in_memory, search

pytestmark = [pytest.mark.simulator]
ACCOUNT = "123456789012"

#: Put where they must not go on from; what the tests of other features plant is added here. Another
#: run's are others.
PLANTED = {
    name: f"{name}-{uuid.uuid4().hex}"
    for name in (
        "dask-token",
        "dask-password",
        "caller-secret-access-key",
        "index-token",
        "index-password",
        "secret-by-reference",
    )
}


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
    """Let a role read the keys of a private cluster, as its settings name it, which has reports."""
    patch.setenv("TERRADASK_CLUSTER__PERFORMANCE_REPORT", "without_source")
    patch.setenv(
        "TERRADASK_CLUSTER__SECRET_PRINCIPALS", json.dumps([f"arn:aws:iam::{ACCOUNT}:role/{role}"])
    )
    yield


@pytest.fixture(scope="module")
def cluster(sim, sim_environ, secrets, temporary, tmp_path_factory):
    index = f"https://me:{PLANTED['dask-password']}@index.example.org"
    planted = {
        "planted.api-token": PLANTED["dask-token"],
        "planted.index": index,
        "planted.mirrors": [index],
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        named_besides(patch, "user-of-sessions"),
        index_credentials(
            tmp_path_factory.mktemp("x"), PLANTED["index-token"], PLANTED["index-password"]
        ),
        dask.config.set(planted),
        secret_of_hosts(sim, PLANTED["secret-by-reference"]) as arn,
        Cluster(
            "guarded",
            n_workers=2,
            wait_for_workers=True,
            max_workers=8,
            private_to_creator=True,
            scheduler_options={"dashboard": True},
            secrets={"PLANTED_SECRET": arn},
        ) as cluster,
    ):
        # boto3 took the caller's own; what is started from here on gets this one.
        patch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED["caller-secret-access-key"])
        yield cluster


def test_a_user_reaches_the_scheduler_through_sessions(cluster, sim, policies):
    def programs():
        return [f._process.pid for f in through._attached.dialer.endpoint._open.values()]

    def dashboard_answers():
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(through.dashboard_link, timeout=20) as page,
        ):
            return page.status == 200

    with (
        sim.acting_as("user-of-sessions", *policies["user"]),
        Cluster("guarded", connect="ssm", attach=True) as through,
    ):
        host, _, port = through.scheduler_address.removeprefix("tls://").rpartition(":")
        assert (host, through.origin) == ("127.0.0.1", "attached")
        with through.get_client() as client:
            assert client.submit(sum, [1, 2, 3]).result(timeout=HANG_SECONDS) == 6
            assert dashboard_answers()
            # The plugins die, and with them their sessions: others take over the same ports.
            first = programs()
            for guard in first:
                for child in Path(f"/proc/{guard}/task/{guard}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            eventually(lambda: not set(first) & set(programs()))
            assert client.submit(sum, [4, 5], pure=False).result(timeout=HANG_SECONDS) == 9
            assert through.scheduler_address.endswith(f":{port}")
            eventually(dashboard_answers)
        last = programs()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in last))


def test_sessions_lead_nowhere_else(cluster, sim, policies):
    environ = sim.environ_of("user-of-sessions", *policies["user"])
    worker = next(
        host for host in sim.hosts() if host.role == "worker" and host.cluster == "guarded"
    )
    scheduler = next(
        host for host in sim.hosts() if host.role == "scheduler" and host.cluster == "guarded"
    )
    keys = {
        name.lower(): environ[name]
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        if name in environ
    }
    ssm = boto3.client("ssm", region_name="us-east-1", endpoint_url=sim.endpoint_url, **keys)
    forward = {
        "DocumentName": "AWS-StartPortForwardingSession",
        "Parameters": {"portNumber": ["8786"]},
    }
    for target, more in (
        (worker.instance_id, forward),
        (scheduler.instance_id, {}),
        (
            scheduler.instance_id,
            {**forward, "DocumentName": "AWS-StartPortForwardingSessionToRemoteHost"},
        ),
    ):
        with pytest.raises(
            ssm.exceptions.ClientError, match="not authorized to perform: ssm:StartSession"
        ):
            ssm.start_session(Target=target, **more)
    # A worker's host has no agent that is connected: its role has no such right.
    with pytest.raises(ssm.exceptions.ClientError, match="is not connected"):
        sim.client("ssm").start_session(Target=worker.instance_id, **forward)
    ssm.close()


def test_no_private_key_of_a_running_cluster_is_in_a_state(cluster, sim):
    secret = json.loads(
        sim.client("secretsmanager").get_secret_value(SecretId="terradask/default/guarded")[
            "SecretString"
        ]
    )
    keys = [secret[role]["key"].encode() for role in ("scheduler", "worker", "client")]
    assert all(b"PRIVATE KEY" in key for key in keys)
    workspace = Workspace.load()
    state = (
        sim.client("s3")
        .get_object(Bucket=workspace.bucket, Key="clusters/guarded/terraform.tfstate")["Body"]
        .read()
    )
    assert b"aws_secretsmanager_secret" in state
    assert secrets_in_state(state, keys) == ()
    assert (
        len(
            secrets_in_state(
                state.replace(b"guarded", json.dumps(keys[0].decode()).encode(), 1), keys
            )
        )
        == 1
    )


def test_a_private_cluster_is_its_creators_and_nobody_elses(cluster, sim, policies):
    creator = sim.client("sts").get_caller_identity()["Arn"]
    with sim.acting_as("colleague", *policies["user"]):
        with pytest.raises(ClusterPrivate, match="private to its creator") as caught:
            Cluster.from_name("guarded")
        assert caught.value.principals == (creator, f"arn:aws:iam::{ACCOUNT}:role/user-of-sessions")
        assert ":assumed-role/colleague/" in caught.value.caller
        # Nor do they let themselves in.
        workspace = Workspace.load()
        with pytest.raises(AccessDenied, match="explicit deny in a resource-based policy"):
            workspace.aws.client("secretsmanager").delete_resource_policy(
                SecretId="terradask/default/guarded"
            )
        # They still see that it runs, and could stop it.
        assert Deployment(workspace.aws, workspace.bucket, "guarded").status().state == "running"


def test_a_user_can_neither_read_the_hosts_secret_nor_let_hosts_read_more(cluster, sim, policies):
    (arn,) = Workspace.load().deployment("guarded").run().secrets.values()
    more = {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [more]})
    role = {"RoleName": "terradask-default-worker", "PolicyName": "more"}
    with sim.acting_as("colleague", *policies["user"]):
        aws = Workspace.load().aws
        with pytest.raises(AccessDenied, match="secretsmanager:GetSecretValue"):
            aws.client("secretsmanager").get_secret_value(SecretId=arn)
        with pytest.raises(AccessDenied, match="ssm:GetParameter"):
            aws.client("ssm").get_parameter(Name="/team/token", WithDecryption=True)
        with pytest.raises(AccessDenied, match="iam:PutRolePolicy"):
            aws.client("iam").put_role_policy(**role, PolicyDocument=document)
        with pytest.raises(AccessDenied, match="secretsmanager:PutResourcePolicy"):
            aws.client("secretsmanager").put_resource_policy(SecretId=arn, ResourcePolicy=document)


@pytest.fixture
def booting(cluster, sim, sim_environ):
    """An instance of the cluster's that boots until it is ended again."""
    groups, name = sim.client("autoscaling"), "terradask-default-guarded-workers"

    def listed():
        (group,) = groups.describe_auto_scaling_groups(AutoScalingGroupNames=[name])[
            "AutoScalingGroups"
        ]
        return {each["InstanceId"] for each in group["Instances"]}

    with sim.delay_launches(1000):
        before = listed()
        groups.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=len(before) + 1)
        (instance_id,) = eventually(lambda: listed() - before)
        yield instance_id
        # A call that ends it is refused while it is launched; a lower number takes it, for the
        # others are protected.
        others = {"AutoScalingGroupName": name, "InstanceIds": sorted(before)}
        groups.set_instance_protection(**others, ProtectedFromScaleIn=True)
        groups.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=len(before))
        eventually(lambda: listed() == before)
        groups.set_instance_protection(**others, ProtectedFromScaleIn=False)


async def test_a_workers_certificate_makes_no_worker_on_an_instance_that_boots(
    cluster, sim, policies, booting
):
    def said():
        return [event for event in cluster.events() if booting in (event.reason or "")]

    role, other = "terradask-default-worker", next(iter(cluster.worker_names()))
    run_id = Workspace.load().deployment("guarded").run().run_id
    here = audience_of("default", "guarded", run_id)
    # Whoever may assume some role chooses the session's name; those of hosts are EC2's to give.
    sim.environ_of("colleague", *policies["user"])
    own = sign(sim, role, booting, here)
    tries = {
        "no proof": {},
        f"assumed-role/{role}/{other}": sign(sim, role, other, here),
        f"assumed-role/colleague/{booting}": sign(sim, "colleague", booting, here),
        "SignatureDoesNotMatch": sign(sim, role, booting, "default/guarded/another-run"),
        "isn't signed for a cluster": {
            **own,
            "authorization": own["authorization"].replace(";x-terradask-run", ""),
        },
    }
    for why, proof in tries.items():
        with pytest.raises(RuntimeError, match="failed to start") as caught:
            await poser(cluster, sim, booting, **proof)
        assert why in str(caught.value.__cause__)
        assert booting not in cluster.worker_names()
    with pytest.raises(RuntimeError, match="failed to start") as caught:
        await poser(cluster, sim, "stranger", **own)
    assert "isn't an instance of this cluster" in str(caught.value.__cause__)
    await eventually_async(said)
    assert {(event.subject, event.state, event.step) for event in said()} == {
        ("workers", "failed", "refused")
    }
    # The proof itself is what opens: this shows that nothing else was wrong with the others.
    async with poser(cluster, sim, booting, **own):
        await eventually_async(lambda: booting in cluster.worker_names())


@pytest.mark.life
def test_the_dashboard_is_on_loopback_behind_mutual_tls(cluster):
    base = cluster.dashboard_link.removesuffix("/status")
    # The token in the path opens it; without it there is nothing.
    for page, content in ((cluster.dashboard_link, b"Bokeh"), (f"{base}/health", b"ok")):
        with urllib.request.urlopen(page, timeout=HANG_SECONDS) as answer:
            assert content in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(f"{base.rpartition('/')[0]}/health", timeout=HANG_SECONDS)
    refused.value.close()
    attachment = Workspace.load().deployment("guarded").attach(timeout_seconds=HANG_SECONDS)
    host = attachment.scheduler.private_address.partition("://")[2].rpartition(":")[0]
    anybody = ssl.create_default_context(cadata=attachment.keys.ca)
    anybody.check_hostname = False
    with pytest.raises(OSError):  # noqa: PT011 (refused, reset or a TLS alert: all mean no)
        urllib.request.urlopen(
            f"https://{host}:{attachment.scheduler.dashboard_port}/health",
            timeout=HANG_SECONDS,
            context=anybody,
        ).read()


def live(cluster):
    """Do what is done with a cluster: compute, restart, scale, attach from another process, ask for
    status and events.
    """
    with cluster.get_client() as client:
        assert client.submit(sum, [1, 2]).result() == 3
        client.restart(timeout=HANG_SECONDS)
        # All have it, or that it is found nowhere would prove little.
        has = client.run_on_scheduler(os.getenv, "PLANTED_SECRET")
        assert {has, *client.run(os.getenv, "PLANTED_SECRET").values()} == {
            PLANTED["secret-by-reference"]
        }
        eventually(lambda: len(cluster.observed) == 2)
        cluster.scale(3)
        cluster.wait_for_workers(3, timeout=HANG_SECONDS)
        cluster.scale(2)
        eventually(lambda: len(cluster.observed) == 2 == len(cluster.plan))
    run_python(
        """
from terradask import Cluster
with Cluster("guarded") as cluster, cluster.get_client() as client:
    client.submit(sum, [1]).result()
"""
    )
    assert cluster.events()
    assert Workspace.load().deployment("guarded").status().state == "running"


@pytest.mark.usefixtures("unkept_provider")
@pytest.mark.life
def test_no_secret_is_found_anywhere_in_a_life_or_after_it(cluster, sim, secrets, temporary):
    """Roles' keys are in the cluster's secret and in their hosts' memory-backed folders; the
    authority's is nowhere.
    """
    live(cluster)
    cluster.report().save(temporary)
    workspace = Workspace.load()
    report = workspace.report(workspace.plan_cluster("guarded"))
    (temporary / "report").write_text(to_text(report) + json.dumps(report.as_dict()))
    before = keys_in_memory(sim)
    # Hosts' memory is elsewhere than their disks.
    run = [(host.log_path.parent / "root/run").resolve() for host in sim.hosts()]
    folders = (sim.state_dir, print_logs(temporary), *run, cache_folder(), data_folder())
    value = sim.client("secretsmanager").get_secret_value(SecretId="terradask/default/guarded")[
        "SecretString"
    ]
    credentials = [PLANTED["index-token"], f"me:{PLANTED['index-password']}"]
    assert list(json.loads(value)["indexes"].values()) == credentials
    keys = {role: json.loads(value)[role]["key"] for role in ("scheduler", "worker", "client")}

    # The secret has what was made, but for the authority's key, which came first.
    assert {name for _, name in secrets.find("", "".join(keys.values()).encode())} == {
        f"private key {number}" for number in (2, 3, 4)
    }
    living = search(secrets, sim, *folders)
    # A host that is replaced meanwhile is in one of the two.
    after = keys_in_memory(sim)
    lasting = before.keys() & after.keys()
    assert len(lasting) >= 2
    assert lasting <= {Path(place) for place, _ in living} <= before.keys() | after.keys()
    assert {kept == (keys[role], 0o600) for role, kept in after.values()} == {True}

    cluster.close()
    eventually(lambda: not any(host.cluster == "guarded" for host in sim.hosts()))
    print_logs(temporary)
    assert search(secrets, sim, *folders) == []

    # The search can find: a copy in each kind of place, as others leave them.
    (temporary / "left").write_bytes(gzip.compress(keys["client"].encode()))
    print_logs(temporary, log_into=(sim, PLANTED["dask-token"]))
    with plant_everywhere(sim, keys["worker"], PLANTED["dask-token"]):
        found = {place for place, _ in search(secrets, sim, temporary)}
    kinds = (
        "left, unpacked",
        "s3://planted/x",
        "log x",
        "logs--json",
        "tags",
        "launch template planted",
        "user data of planted",
        "environ",
        "cmdline",
    )
    assert {kind for kind in kinds if not any(kind in place for place in found)} == set()
