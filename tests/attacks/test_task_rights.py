"""Rights of tasks, made by callers with the generated policies alone; and who tries to widen them:
a caller who makes clusters, a task, the owner of a managed policy.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._workspace.caller_scope import caller_scope
from terradask_modules.caller_policies import Caller, caller_policies
from terradask_simulator import Simulator
from terradask_stacks.loading import load_settings

from ..command import in_this_process
from ..quick_provider import QuickProvider
from ..simulator.acting import ACCOUNT, Account, host, refused
from ..simulator.walled import SETTINGS, Walled

pytestmark = [pytest.mark.simulator, pytest.mark.life]

BUCKET = f"terradask-rights-{ACCOUNT}-us-east-1"
LAKE, POLICY = "lake-of-tasks", f"arn:aws:iam::{ACCOUNT}:policy/queries"
#: As its owner wrote it first, and as it becomes.
QUERIES = {"Effect": "Allow", "Action": "sqs:ListQueues", "Resource": "*"}
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}
RIGHTS = f"""
[[network.data_buckets]]
name = "{LAKE}"
prefix = "raw"
[[network.task_rights]]
reason = "queries"
policy_arn = "{POLICY}"
[[network.task_rights]]
reason = "orders"
actions = ["secretsmanager:GetSecretValue"]
resources = ["arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:orders-*"]
clusters = ["one"]
"""


def document(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.fixture(scope="module")
def owner(sim: Simulator) -> Iterator[Account]:
    with contextlib.ExitStack() as stack:
        yield Account(sim, sim.environ, stack)


@pytest.fixture(scope="module")
def rights(
    sim: Simulator,
    owner: Account,
    quick_provider: QuickProvider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Walled]:
    """A workspace of isolated clusters, its network made by ``setup``, and two clusters, made by
    ``user``: ``one`` has a right alone.
    """
    folder = tmp_path_factory.mktemp("rights")
    quick_provider.lock(folder)
    s3, iam = owner.client("s3"), owner.client("iam")
    found = s3.get_object(Bucket=f"terradask-default-{ACCOUNT}-us-east-1", Key="workspace.json")
    shared = json.load(found["Body"])
    text = SETTINGS.format(**shared, **shared["zones"]["us-east-1a"]).replace("walled", "rights")
    (folder / "terradask.toml").write_text(f"{text}[clusters.two]\n{RIGHTS}")
    with contextlib.ExitStack() as stack:
        s3.create_bucket(Bucket=LAKE)
        stack.callback(s3.delete_bucket, Bucket=LAKE)
        for key in ("raw/a", "private/a"):
            s3.put_object(Bucket=LAKE, Key=key, Body=b"a")
            stack.callback(s3.delete_object, Bucket=LAKE, Key=key)
        secrets = owner.client("secretsmanager")
        secrets.create_secret(Name="orders", SecretString="password")
        stack.callback(secrets.delete_secret, SecretId="orders", ForceDeleteWithoutRecovery=True)
        iam.create_policy(PolicyName="queries", PolicyDocument=document(QUERIES))
        stack.callback(iam.delete_policy, PolicyArn=POLICY)
        with sim.applied():
            scope = caller_scope(load_settings(folder).settings, Aws("us-east-1"))
        callers: tuple[Caller, ...] = ("setup", "ongoing", "user")
        environs: dict[Caller, dict[str, str]] = {
            caller: {
                **sim.environ_of(f"rights-{caller}", *caller_policies(scope, caller).values()),
                "TERRADASK_STATE_DIR": str(folder / ".terradask"),
            }
            for caller in callers
        }
        workspace = Walled(sim, folder, {}, environs, "rights")
        stack.callback(workspace.run, "setup", "destroy", "network", "--yes")
        workspace.run("setup", "apply", "network", "--yes")
        for name in ("one", "two"):
            workspace.run("user", "apply", name, "--yes")
            stack.callback(workspace.run, "user", "destroy", name, "--yes")
        assert [workspace.denied(caller) for caller in callers] == [[], [], []]
        yield workspace


def task(workspace: Walled, owner: Account, cluster: str, clients: contextlib.ExitStack) -> Account:
    role = f"terradask/rights/terradask-rights.{cluster}-worker"
    return host(owner, workspace.sim, clients, role)


def test_tasks_have_the_rights_of_the_settings_and_no_more(rights: Walled, owner: Account) -> None:
    with contextlib.ExitStack() as clients:
        one, two = (task(rights, owner, name, clients) for name in ("one", "two"))
        for mine in (one, two):
            s3 = mine.client("s3")
            assert s3.get_object(Bucket=LAKE, Key="raw/a")["Body"].read() == b"a"
            assert refused(s3.put_object, Bucket=LAKE, Key="raw/a", Body=b"b")
            assert refused(s3.get_object, Bucket=LAKE, Key="private/a")
            # By the managed policy.
            assert mine.client("sqs").list_queues()
            assert refused(mine.client("sqs").create_queue, QueueName="mine")
        read = {"SecretId": "orders"}
        assert one.client("secretsmanager").get_secret_value(**read)["SecretString"] == "password"
        assert refused(two.client("secretsmanager").get_secret_value, **read)


def test_a_plan_sees_no_change_and_names_what_would_widen(rights: Walled) -> None:
    for stack in ("network", "one"):
        told = rights.run("ongoing", "plan", stack).stdout
        assert "no changes" in told
        assert "P6" not in told

    settings = rights.folder / "terradask.toml"
    before = settings.read_text()
    settings.write_text(before.replace("orders-*", "*").replace('clusters = ["one"]\n', ""))
    try:
        done = in_this_process(
            "plan", "network", environ=rights.environs["setup"], folder=rights.folder
        )
    finally:
        settings.write_text(before)
    assert done.returncode != 0
    assert "'orders' allows secretsmanager:GetSecretValue on" in done.stderr


def test_who_makes_clusters_widens_no_role(rights: Walled, owner: Account) -> None:
    admin = "arn:aws:iam::aws:policy/AdministratorAccess"
    with contextlib.ExitStack() as clients:
        user = Account(rights.sim, rights.environs["user"], clients)
        iam = user.client("iam")
        own = {"RoleName": "terradask-rights.one-worker"}
        assert refused(iam.attach_role_policy, **own, PolicyArn=admin)
        assert refused(iam.attach_role_policy, **own, PolicyArn=f"{POLICY}-2")
        assert refused(
            iam.create_policy_version, PolicyArn=POLICY, PolicyDocument=document(EVERYTHING)
        )
        for name in ("terradask-rights-worker", "terradask-rights-scheduler"):
            assert refused(iam.attach_role_policy, RoleName=name, PolicyArn=POLICY)
            assert refused(
                iam.put_role_policy,
                RoleName=name,
                PolicyName="more",
                PolicyDocument=document(EVERYTHING),
            )
        assert refused(
            user.client("s3").put_object, Bucket=BUCKET, Key="workspace.json", Body=b"{}"
        )
        # Its own cluster's role it may change: to no more than the boundary allows.
        iam.put_role_policy(**own, PolicyName="more", PolicyDocument=document(EVERYTHING))
        clients.callback(iam.delete_role_policy, **own, PolicyName="more")
        mine = task(rights, owner, "one", clients)
        assert refused(mine.client("s3").get_object, Bucket=LAKE, Key="private/a")
        assert refused(mine.client("sqs").create_queue, QueueName="mine")
        assert refused(mine.client("iam").list_roles)


def test_a_policy_that_its_owner_widens_raises_no_task(rights: Walled, owner: Account) -> None:
    iam = owner.client("iam")
    version = iam.create_policy_version(
        PolicyArn=POLICY, PolicyDocument=document(EVERYTHING), SetAsDefault=True
    )["PolicyVersion"]["VersionId"]
    with contextlib.ExitStack() as clients:
        clients.callback(iam.delete_policy_version, PolicyArn=POLICY, VersionId=version)
        clients.callback(iam.set_default_policy_version, PolicyArn=POLICY, VersionId="v1")
        # The shared roles have no boundary here, and the denials of their own policy hold.
        for role in (
            "terradask-rights-worker",
            "terradask/rights/terradask-rights.one-worker",
        ):
            mine = host(owner, rights.sim, clients, role)
            s3 = mine.client("s3")
            assert refused(mine.client("iam").list_roles)
            assert refused(s3.put_object, Bucket=BUCKET, Key="workspace.json", Body=b"{}")
            assert refused(s3.delete_object, Bucket=BUCKET, Key="clusters/one/run.json")
            assert refused(s3.get_object, Bucket=BUCKET, Key="clusters/two/terraform.tfstate")
            key = {"SecretId": "terradask/rights/one"}
            assert refused(mine.client("secretsmanager").put_secret_value, **key, SecretString="x")
        done = in_this_process(
            "plan", "network", environ=rights.environs["ongoing"], folder=rights.folder
        )
    assert done.returncode != 0
    assert "the managed policy allows * on *, by which a task could raise itself" in done.stderr
