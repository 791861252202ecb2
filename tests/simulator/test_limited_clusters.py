"""Who holds `terradask iam user --clusters` has these clusters and no others: neither by a client
of their own, nor by a role that they make for their own hosts.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._workspace.caller_scope import caller_scope
from terradask_modules.caller_policies import Caller, CallerLimits, caller_policies
from terradask_simulator import Simulator
from terradask_stacks.loading import load_settings

from ..quick_provider import QuickProvider
from ..waiting import PROCESS_SECONDS
from .acting import ACCOUNT, Account, host, refused
from .walled import SETTINGS, Walled

pytestmark = [pytest.mark.simulator, pytest.mark.life]

LIMITS = CallerLimits(clusters=("mine-*",), max_workers=2, gpus=False)
BUCKET = f"terradask-teams-{ACCOUNT}-us-east-1"
LIFE = """
from terradask import Cluster
with Cluster("mine-x", n_workers=1, max_workers=2, shutdown_on_close=True) as cluster:
    with cluster.get_client() as client:
        assert client.submit(sum, [1, 2, 3]).result() == 6
        cluster.scale(2)
        cluster.wait_for_workers(2, timeout=600)
"""
EVERYTHING = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
    }
)


def trusting(*principals: dict[str, str]) -> str:
    allowed = [
        {"Effect": "Allow", "Principal": one, "Action": ["sts:AssumeRole", "sts:TagSession"]}
        for one in principals
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": allowed})


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def owner(sim: Simulator, clients: contextlib.ExitStack) -> Account:
    return Account(sim, sim.environ, clients)


@pytest.fixture
def teams(
    sim: Simulator,
    owner: Account,
    quick_provider: QuickProvider,
    tmp_path: Path,
) -> Iterator[Walled]:
    """A workspace of isolated clusters, with one that anybody's ``user`` has made."""
    quick_provider.lock(tmp_path)
    found = owner.client("s3").get_object(
        Bucket=f"terradask-default-{ACCOUNT}-us-east-1", Key="workspace.json"
    )
    shared = json.load(found["Body"])
    text = SETTINGS.format(**shared, **shared["zones"]["us-east-1a"])
    (tmp_path / "terradask.toml").write_text(text.replace("walled", "teams"))
    with sim.applied():
        scope = caller_scope(load_settings(tmp_path).settings, Aws("us-east-1"))
    limited = replace(scope, limits=LIMITS)
    held: dict[Caller, Any] = {"setup": scope, "user": scope, "ongoing": scope}
    environs: dict[Caller, dict[str, str]] = {
        caller: {
            **sim.environ_of(f"teams-{caller}", *caller_policies(whose, caller).values()),
            "TERRADASK_STATE_DIR": str(tmp_path / ".terradask"),
        }
        for caller, whose in held.items()
    }
    environs["ci"] = {
        **environs["user"],
        **sim.environ_of("teams-limited", *caller_policies(limited, "user").values()),
    }
    workspace = Walled(sim, tmp_path, {}, environs, "teams")
    with contextlib.ExitStack() as made:
        made.callback(workspace.run, "setup", "destroy", "network", "--yes")
        workspace.run("setup", "apply", "network", "--yes")
        made.callback(workspace.run, "user", "destroy", "one", "--yes")
        workspace.run("user", "apply", "one", "--yes")
        yield workspace


def test_the_life_of_ones_own_cluster_and_nothing_of_others(
    sim: Simulator, teams: Walled, owner: Account, clients: contextlib.ExitStack
) -> None:
    sim.reset_calls()
    environ = teams.environs["ci"]
    done = subprocess.run(
        [sys.executable, "-c", LIFE],
        cwd=teams.folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    logged = sim.requests().get(f"arn:aws:iam::{ACCOUNT}:role/teams-limited", ())
    assert [
        f"{one.request.action} on {one.request.resource}"
        for one in logged
        if not one.allowed and not one.request.resource.endswith("autoScalingGroupName/*")
    ] == []

    mine = Account(sim, environ, clients)
    groups, secrets, s3, iam = (
        mine.client(name) for name in ("autoscaling", "secretsmanager", "s3", "iam")
    )
    theirs = {"AutoScalingGroupName": "terradask-teams-one-workers"}
    assert refused(groups.set_desired_capacity, **theirs, DesiredCapacity=1)
    assert refused(groups.update_auto_scaling_group, **theirs, MaxSize=1)
    assert refused(groups.delete_auto_scaling_group, **theirs, ForceDelete=True)
    secret = {"SecretId": "terradask/teams/one"}
    assert refused(secrets.get_secret_value, **secret)
    assert refused(secrets.put_secret_value, **secret, SecretString="{}")
    run = {"Bucket": BUCKET, "Key": "clusters/one/run.json"}
    assert refused(s3.put_object, **run, Body=b"{}")
    assert refused(s3.delete_object, **run)
    (account,) = owner.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="accounts/")["Contents"]
    assert account["Key"].endswith("/mine-x.json")
    their_account = account["Key"].replace("mine-x", "one")
    assert refused(s3.put_object, Bucket=BUCKET, Key=their_account, Body=b"{}")
    role = "terradask-teams.one-scheduler"
    assert refused(iam.put_role_policy, RoleName=role, PolicyName="x", PolicyDocument=EVERYTHING)
    assert refused(
        mine.client("ec2").run_instances,
        LaunchTemplate={"LaunchTemplateName": role},
        MinCount=1,
        MaxCount=1,
    )
    with contextlib.ExitStack() as made:
        _their_own_role(sim, mine, owner, made)


def _their_own_role(
    sim: Simulator, mine: Account, owner: Account, clients: contextlib.ExitStack
) -> None:
    """A role that they make, with every right in its policy, reaches their own cluster alone."""
    baseline = owner.client("s3").get_object(Bucket=BUCKET, Key="workspace.json")
    boundary = json.load(baseline["Body"])["isolated"]["permissions_boundary"]
    iam, path = mine.client("iam"), "/terradask/teams/"
    tags = {"terradask:workspace": "teams", "terradask:cluster": "mine-y"}
    name = "terradask-teams.mine-y-scheduler"
    whole = {
        "RoleName": name,
        "Path": path,
        "PermissionsBoundary": boundary,
        "AssumeRolePolicyDocument": trusting(
            {"Service": "ec2.amazonaws.com"},
            {"AWS": f"arn:aws:iam::{ACCOUNT}:role/teams-limited"},
            {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
        ),
    }
    for key, value in (("terradask:cluster", "one"), ("terradask:workspace", "default")):
        other = [{"Key": each, "Value": text} for each, text in {**tags, key: value}.items()]
        assert refused(iam.create_role, **whole, Tags=other)
    assert refused(iam.create_role, **whole)
    as_list = [{"Key": each, "Value": text} for each, text in tags.items()]
    iam.create_role(**whole, Tags=as_list)
    clients.callback(owner.client("iam").delete_role, RoleName=name)
    clients.callback(owner.client("iam").delete_role_policy, RoleName=name, PolicyName="everything")
    iam.put_role_policy(RoleName=name, PolicyName="everything", PolicyDocument=EVERYTHING)
    assert refused(iam.tag_role, RoleName=name, Tags=[{"Key": "terradask:cluster", "Value": "one"}])
    # On a host, with the role from inside a task.
    task = host(owner, sim, clients, f"terradask/teams/{name}")
    scaling, s3 = task.client("autoscaling"), task.client("s3")
    theirs = {"AutoScalingGroupName": "terradask-teams-one-workers"}
    assert refused(task.client("secretsmanager").get_secret_value, SecretId="terradask/teams/one")
    assert refused(scaling.set_desired_capacity, **theirs, DesiredCapacity=1)
    assert refused(scaling.update_auto_scaling_group, **theirs, MaxSize=5)
    assert refused(s3.get_object, Bucket=BUCKET, Key="clusters/one/cluster.json")
    assert refused(s3.put_object, Bucket=BUCKET, Key="clusters/one/run.json", Body=b"{}")
    s3.put_object(Bucket=BUCKET, Key="clusters/mine-y/hosts/i-0.json", Body=b"{}")
    # Taken by its maker, it has no right at all.
    session = mine.client("sts").assume_role(
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role{path}{name}", RoleSessionName="mine"
    )["Credentials"]
    taken = Account(
        sim,
        {
            "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
            "AWS_SESSION_TOKEN": session["SessionToken"],
        },
        clients,
    ).client("s3")
    own = {"Bucket": BUCKET, "Key": "clusters/mine-y/hosts/i-0.json"}
    assert refused(taken.get_object, **own)
    assert refused(taken.delete_object, **own)
    s3_of_owner = owner.client("s3")
    s3_of_owner.delete_object(**own)
