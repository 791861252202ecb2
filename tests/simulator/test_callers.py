"""Each principal holds its generated policy alone: what the docs promise works, and what they don't
promise is refused.

The network of `sim` is deployed by ``setup`` already; ``ci`` plans in the tests of the pipelines.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..quick_provider import QuickProvider
from ..waiting import PROCESS_SECONDS
from . import acting
from .acting import ACCOUNT, Account

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

BUCKET = f"terradask-default-{ACCOUNT}-us-east-1"

LIFE = """
from terradask import Cluster
with Cluster("granted", shutdown_on_close=True) as cluster, cluster.get_client() as client:
    assert client.submit(sum, [1, 2, 3]).result() == 6
    cluster.scale(2)
    cluster.wait_for_workers(2, timeout=600)
    cluster.scale(1)
"""

#: Run in processes of their own, as users run them; `test_pipelines.py` and `test_faults.py` do it
#: with the others.
AS_PROCESSES = {"-c": (), "sweep": ("-m", "terradask")}

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def environs(
    sim: Simulator, policies: dict[str, list[dict[str, Any]]]
) -> dict[str, dict[str, str]]:
    """An environment for each kind of caller."""
    return {caller: sim.environ_of(caller, *documents) for caller, documents in policies.items()}


@pytest.fixture
def terradask(
    environs: dict[str, dict[str, str]], quick_provider: QuickProvider, tmp_path: Path
) -> Run:
    """Run the command as one of the callers."""
    quick_provider.lock(tmp_path)
    (tmp_path / "terradask.toml").write_text("[clusters.granted]\nmax_workers = 3\nn_workers = 1\n")

    def run(caller: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = begin(arguments, environs[caller])
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def begin(
        arguments: tuple[str, ...], environ: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        if arguments[0] not in AS_PROCESSES:
            return in_this_process(*arguments, environ=environ, folder=tmp_path)
        return subprocess.run(
            [sys.executable, *AS_PROCESSES[arguments[0]], *arguments],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_SECONDS,
        )

    return run


@pytest.fixture
def removed(sim: Simulator, tmp_path: Path) -> Iterator[None]:
    """No cluster of these tests is left after them, whatever happened."""
    yield
    in_this_process("destroy", "granted", "--yes", environ=sim.environ, folder=tmp_path)


def denied(sim: Simulator, caller: str) -> list[str]:
    """Return what was refused, but for hosts that had left their group when they were
    to be ended.
    """
    logged = sim.requests().get(f"arn:aws:iam::{ACCOUNT}:role/{caller}", ())
    return [
        one.request.action
        for one in logged
        if not one.allowed and not one.request.resource.endswith("autoScalingGroupName/*")
    ]


_MOVED = [
    {
        "ResourceType": "auto-scaling-group",
        "ResourceId": "terradask-default-granted-workers",
        "Key": "terradask:cluster",
        "Value": "others",
        "PropagateAtLaunch": True,
    }
]


@pytest.mark.life
def test_a_clusters_life_in_two_hands(
    sim: Simulator, environs: dict[str, dict[str, str]], terradask: Run, removed: None
) -> None:
    sim.reset_calls()
    # A platform engineer deploys a declared cluster.
    terradask("ongoing", "apply", "granted", "--yes")
    assert denied(sim, "ongoing") == []

    # Which cluster a group or a secret is of, no caller changes.
    with contextlib.ExitStack() as stack:
        for caller in ("ongoing", "user"):
            account = Account(sim, environs[caller], stack)
            assert acting.refused(account.client("autoscaling").create_or_update_tags, Tags=_MOVED)
            assert acting.refused(account.client("autoscaling").delete_tags, Tags=_MOVED)
            secrets = account.client("secretsmanager")
            moved = [{"Key": "terradask:cluster", "Value": "others"}]
            secret = {"SecretId": "terradask/default/granted"}
            assert acting.refused(secrets.tag_resource, **secret, Tags=moved)
            assert acting.refused(secrets.untag_resource, **secret, TagKeys=["terradask:cluster"])
    sim.reset_calls()

    # A data scientist starts it; that they make some of their own is seen where a market has no
    # capacity.
    terradask("user", "-c", LIFE)
    assert json.loads(terradask("user", "status", "granted", "--json").stdout)["state"] == "stopped"
    assert denied(sim, "user") == []

    # Both see everything that nobody owns: here, nothing.
    # The lock on the network's state is not for users to see, nor to break.
    for caller, kept_from in (("ongoing", []), ("user", ["s3:GetObject"])):
        found = json.loads(terradask(caller, "sweep", "--dry-run", "--json").stdout)
        assert (found["strays"], found["unseen"]) == ([], [])
        assert denied(sim, caller) == kept_from

    terradask("ongoing", "destroy", "granted", "--yes")
    assert denied(sim, "ongoing") == []
    with sim.applied():
        assert leftovers("default", cluster="granted") == []


@pytest.mark.parametrize("caller", ["ongoing", "ci", "user"])
def test_what_is_nobodys_but_setups_is_refused(
    environs: dict[str, dict[str, str]], sim: Simulator, caller: str
) -> None:
    environ = environs[caller]
    with contextlib.ExitStack() as stack:
        account = Account(sim, environ, stack)

        def refused(service: str, call: str, **parameters: Any) -> str:
            return acting.refused(getattr(account.client(service), call), **parameters)

        host = "terradask-default-worker"
        assert refused("ec2", "create_vpc", CidrBlock="10.0.0.0/16")
        ssh = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "0.0.0.0/0"}
        assert refused("ec2", "authorize_security_group_ingress", GroupId="sg-0", **ssh)
        named = [{"Name": "group-name", "Values": [host]}]
        with contextlib.closing(sim.client("ec2")) as ec2:
            (group,) = ec2.describe_security_groups(Filters=named)["SecurityGroups"]
        ours = {"GroupId": group["GroupId"]}
        (https, *_) = group["IpPermissionsEgress"]
        wider = {"IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432}
        wider["IpRanges"] = [{"CidrIp": "0.0.0.0/0"}]
        assert refused("ec2", "authorize_security_group_egress", **ours, IpPermissions=[wider])
        assert refused("ec2", "revoke_security_group_egress", **ours, IpPermissions=[https])
        mine = {"GroupName": "mine", "Description": "mine", "VpcId": group["VpcId"]}
        assert refused("ec2", "create_security_group", **mine)
        assert refused(
            "iam", "put_role_policy", RoleName=host, PolicyName="more", PolicyDocument="{}"
        )
        assert refused(
            "iam", "create_role", RoleName="terradask-default-mine", AssumeRolePolicyDocument="{}"
        )
        assert refused(
            "sts",
            "assume_role",
            RoleArn=f"arn:aws:iam::{ACCOUNT}:role/{host}",
            RoleSessionName="mine",
        )
        assert refused("s3", "put_bucket_policy", Bucket=BUCKET, Policy="{}")
        assert refused("s3", "put_object", Bucket=BUCKET, Key="workspace.json", Body=b"{}")
        assert refused("s3", "put_object", Bucket=BUCKET, Key="host/0/other.whl", Body=b"")
        # Another workspace, whose name begins like this one's.
        assert refused(
            "s3",
            "get_object",
            Bucket=f"terradask-default-two-{ACCOUNT}-us-east-1",
            Key="workspace.json",
        )
        assert refused("secretsmanager", "get_secret_value", SecretId="terradask/default-two/etl")
        if caller != "ci":
            entry = {"Bucket": BUCKET, "Key": "history/20261124T080000Z-1f3a9c.json", "Body": b""}
            s3 = account.client("s3")
            acting.code_of(s3.put_object, **entry, IfNoneMatch="*")
            assert acting.refused(s3.put_object, **entry)
            assert acting.refused(s3.delete_object, Bucket=BUCKET, Key=entry["Key"])
            assert acting.code_of(s3.put_object, **entry, IfNoneMatch="*") == "PreconditionFailed"
        # Of an instance, from which AWS makes a launch configuration; as such, or of none.
        tags = [{"Key": "terradask:workspace", "Value": "default", "PropagateAtLaunch": True}]
        mine = {"AutoScalingGroupName": "terradask-default-mine-workers", "Tags": tags}
        sizes = {"MinSize": 0, "MaxSize": 1, "AvailabilityZones": ["us-east-1a"]}
        for source in ({"InstanceId": "i-0"}, {"LaunchConfigurationName": "anybodys"}, {}):
            assert refused("autoscaling", "create_auto_scaling_group", **mine, **sizes, **source)
        theirs = "terradask-default-two-etl-workers"
        assert refused(
            "autoscaling",
            "delete_auto_scaling_group",
            AutoScalingGroupName=theirs,
            ForceDelete=True,
        )
