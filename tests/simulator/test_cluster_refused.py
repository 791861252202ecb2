"""What `Cluster` refuses before anything is made, or takes back: no network, no way to it, no
software, workers that fail.
"""

import contextlib
import json

import pytest

from terradask import Cluster, Deployment, Workspace
from terradask._aws.ssm import plugin
from terradask._clusters import attach as scheduler_host_log
from terradask._dask import connectivity
from terradask.errors import (
    ClusterNotFound,
    HostFailed,
    InvalidInput,
    NoBaseline,
    SettingsError,
    SetupError,
    SoftwareUnusable,
    WorkersMissing,
)

pytestmark = [pytest.mark.simulator]


@pytest.mark.life
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


@pytest.mark.life
@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ("clusters/*", "No run.json and keys of this instance's run within 5 s"),
        ("*", "boot.sh failed"),
    ],
    ids=["the cluster's objects", "the whole bucket"],
)
def test_what_a_schedulers_host_says_that_s3_refuses(
    sim, sim_environ, monkeypatch, objects, reason
):
    monkeypatch.setattr(scheduler_host_log, "_SILENT_SECONDS", 1.0)
    monkeypatch.setattr(scheduler_host_log, "_POLL_SECONDS", 1.0)
    role = {"RoleName": "terradask-default-scheduler", "PolicyName": "denied"}
    denied = {"Effect": "Deny", "Action": "s3:*", "Resource": f"arn:aws:s3:::*/{objects}"}
    with (
        contextlib.closing(sim.client("iam")) as iam,
        contextlib.ExitStack() as undo,
        sim.time_hosts(run_deadline_seconds=5.0),
    ):
        policy = {"Version": "2012-10-17", "Statement": [denied]}
        iam.put_role_policy(**role, PolicyDocument=json.dumps(policy))
        undo.callback(iam.delete_role_policy, **role)
        with pytest.raises(HostFailed, match="could not report that to S3") as caught:
            Cluster("unheard", n_workers=0)
    assert str(caught.value.reason).startswith(reason)
    assert "AccessDenied" in str(caught.value)
    assert not Deployment(Workspace.load().aws, Workspace.load().bucket, "unheard").exists


def test_no_baseline_is_an_error_that_names_the_command_and_makes_nothing(sim_environ, monkeypatch):
    monkeypatch.setenv("TERRADASK_WORKSPACE__NAME", "elsewhere")
    with pytest.raises(NoBaseline, match="terradask apply network"):
        Cluster(n_workers=1)


def test_a_cluster_that_nobody_could_reach_is_refused(sim_environ, monkeypatch):
    baseline = Workspace.load().baseline().model_copy(update={"ingress": []})
    monkeypatch.setattr(Workspace, "baseline", lambda workspace: baseline)
    with pytest.raises(InvalidInput, match=r"network\.ingress"):
        Cluster("closed", n_workers=1)


def test_a_plugin_that_is_missing_is_told_before_anything_is_made(
    sim_environ, tmp_path, monkeypatch
):
    monkeypatch.setattr(plugin, "_USUAL_FOLDERS", ())
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(SetupError, match="isn't on this machine"):
            Cluster("pluginless", n_workers=1, connect="ssm")
    assert not Deployment(
        Workspace.load().aws, Workspace.load().bucket, "pluginless"
    ).objects.names()


def test_my_own_address_has_to_lie_within_a_network_that_all_share(sim_environ, monkeypatch):
    monkeypatch.setattr(connectivity, "own_cidr", lambda url: "203.0.113.7/32")
    with pytest.raises(SettingsError, match=r"8786-8787 from 203\.0\.113\.7/32"):
        Cluster("mine", n_workers=1, allow_ingress_from="me")
    assert not Deployment(Workspace.load().aws, Workspace.load().bucket, "mine").objects.names()


def test_software_that_is_not_installed_here_is_refused_before_anything_is_made(sim_environ):
    events = []
    with pytest.raises(SoftwareUnusable, match="no-such-package"):
        Cluster("unlucky", n_workers=1, software=["no-such-package"], progress=events.append)
    assert not Deployment(Workspace.load().aws, Workspace.load().bucket, "unlucky").objects.names()
    assert "apply" not in {getattr(event, "phase", None) for event in events}


def test_attaching_never_makes_or_starts(sim_environ):
    with pytest.raises(ClusterNotFound):
        Cluster.from_name("nowhere")


def test_gpus_without_drivers_are_refused_before_anything_is_made(sim_environ):
    with pytest.raises(SettingsError, match=r"cluster\.worker_gpu: hosts with GPUs would start"):
        Cluster("undriven", n_workers=1, worker_gpu=1)
    assert not Deployment(Workspace.load().aws, Workspace.load().bucket, "undriven").objects.names()
