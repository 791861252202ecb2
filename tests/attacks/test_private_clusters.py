"""A colleague with the rights of users is after the keys of a private cluster: where hosts share
their roles, and where the cluster has roles of its own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster, Deployment, Workspace
from terradask._aws.session import Aws
from terradask._workspace.caller_scope import caller_scope
from terradask.errors import ClusterPrivate, DocumentChanged
from terradask_modules.caller_policies import caller_policies
from terradask_modules.names import bucket_name
from terradask_simulator import Simulator
from terradask_stacks.loading import load_settings

from ..quick_provider import QuickProvider
from ..simulator.acting import ACCOUNT, REGION, Account, refused
from ..waiting import HANG_SECONDS, eventually
from .planting import planted_config

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

CLUSTER = "vault"

#: A workspace in a VPC that is there already: a network of its own would only take longer.
ISOLATED = """
[workspace]
name = "alone"
isolation = "cluster"
[network]
vpc_id = "{vpc_id}"
[network.subnets."us-east-1a"]
scheduler = "{public_subnet_id}"
worker = "{private_subnet_id}"
[[network.ingress]]
cidr = "127.0.0.0/8"
"""


@dataclass
class Vault:
    """A private cluster that runs, and the rights of its creator's colleague."""

    sim: Simulator
    workspace: str
    cluster: Cluster
    colleague: dict[str, str]

    @property
    def bucket(self) -> str:
        return bucket_name(self.workspace, ACCOUNT, REGION)

    @property
    def secret_id(self) -> str:
        return f"terradask/{self.workspace}/{CLUSTER}"

    @property
    def group(self) -> str:
        return f"terradask-{self.workspace}-{CLUSTER}-workers"

    def key(self, name: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": f"clusters/{CLUSTER}/{name}"}


@pytest.fixture(
    scope="module", params=["workspace", pytest.param("cluster", marks=pytest.mark.soak)]
)
def vault(
    request: pytest.FixtureRequest,
    sim: Simulator,
    quick_provider: QuickProvider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Vault]:
    """The cluster, made by the account's administrator in each kind of workspace."""
    folder = tmp_path_factory.mktemp(request.param)
    with (
        sim.applied(),
        pytest.MonkeyPatch.context() as patch,
        contextlib.ExitStack() as stack,
    ):
        patch.chdir(folder)
        if request.param == "cluster":
            quick_provider.lock(folder)
            patch.setenv("TERRADASK_STATE_DIR", str(folder / ".terradask"))
            stack.enter_context(isolated(sim, folder))
        settings = load_settings().settings
        scope = caller_scope(settings, Aws(REGION))
        policies = [narrowed(one) for one in caller_policies(scope, "user").values()]
        cluster = stack.enter_context(
            Cluster(CLUSTER, n_workers=1, max_workers=2, private_to_creator=True)
        )
        cluster.wait_for_workers(1, timeout=HANG_SECONDS)
        name = settings.workspace.name
        yield Vault(sim, name, cluster, sim.environ_of(f"colleague-{name}", *policies))


@contextlib.contextmanager
def isolated(sim: Simulator, folder: Path) -> Iterator[None]:
    """Deploy a workspace that isolates its clusters, and remove it afterwards."""
    with contextlib.closing(sim.client("s3")) as s3:
        shared = json.load(
            s3.get_object(Bucket=bucket_name("default", ACCOUNT, REGION), Key="workspace.json")[
                "Body"
            ]
        )
    text = ISOLATED.format(**shared, **shared["zones"]["us-east-1a"])
    (folder / "terradask.toml").write_text(text)
    workspace = Workspace.load()
    workspace.apply(workspace.plan_network())
    yield
    workspace.destroy_network()


def narrowed(policy: dict[str, Any]) -> dict[str, Any]:
    """Return a policy without the rights to make roles, firewalls and templates, which a team may
    leave out.
    """
    statements = [one for one in policy["Statement"] if not one["Sid"].endswith("OfClusters")]
    return {**policy, "Statement": statements}


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def colleague(vault: Vault, clients: contextlib.ExitStack) -> Account:
    return Account(vault.sim, vault.colleague, clients)


@pytest.fixture
def owner(vault: Vault, clients: contextlib.ExitStack) -> Account:
    return Account(vault.sim, vault.sim.environ, clients)


def members(owner: Account, vault: Vault) -> set[str]:
    found = owner.client("autoscaling").describe_auto_scaling_groups(
        AutoScalingGroupNames=[vault.group]
    )
    return {one["InstanceId"] for one in found["AutoScalingGroups"][0]["Instances"]}


def test_a_replacement_runs_no_planted_preload_and_joins_once_it_is_gone(
    vault: Vault, colleague: Account, owner: Account, tmp_path: Path
) -> None:
    s3, proof = colleague.client("s3"), tmp_path / "proof"
    genuine = s3.get_object(**vault.key("run.json"))["Body"].read()
    descriptor = s3.get_object(**vault.key("cluster.json"))["Body"].read()
    lock = s3.get_object(**vault.key("software.lock"))["Body"].read()
    planted = {**json.loads(genuine), "dask_config": planted_config(proof)}
    # AWS lets them: nobody could start a cluster otherwise.
    s3.put_object(**vault.key("run.json"), Body=json.dumps(planted).encode())
    s3.put_object(**vault.key("cluster.json"), Body=b'{"worker": {"class": "planted.Class"}}')
    s3.put_object(**vault.key("software.lock"), Body=b"planted==6.6\n")
    before = members(owner, vault)
    (first,) = before
    # It ends by itself: no user's rights end one host of a group.
    vault.sim.kill_host(first)

    def told() -> str | None:
        for each in members(owner, vault) - before:
            with contextlib.suppress(s3.exceptions.NoSuchKey):
                report = json.load(s3.get_object(**vault.key(f"hosts/{each}.json"))["Body"])
                if report["state"] == "failed":
                    return str(report["reason"])
        return None

    assert "run.json is not the document that the cluster was started with" in eventually(told)
    s3.put_object(**vault.key("run.json"), Body=genuine)
    s3.put_object(**vault.key("software.lock"), Body=lock)
    # The descriptor stays as it was planted: hosts don't read it.
    eventually(lambda: set(vault.cluster.worker_names()) - {first})
    assert not proof.exists()
    s3.put_object(**vault.key("cluster.json"), Body=descriptor)


def test_nobody_else_reads_changes_or_deletes_the_secret(
    vault: Vault, colleague: Account, clients: contextlib.ExitStack
) -> None:
    """Not even with every right that IAM can give."""
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    administrator = Account(
        vault.sim,
        vault.sim.environ_of("administrator", {"Version": "2012-10-17", "Statement": [everything]}),
        clients,
    )
    for account in (colleague, administrator):
        secrets, named = account.client("secretsmanager"), {"SecretId": vault.secret_id}
        current = next(
            version
            for version, stages in secrets.describe_secret(**named)["VersionIdsToStages"].items()
            if "AWSCURRENT" in stages
        )
        stage = {"VersionStage": "AWSCURRENT", "RemoveFromVersionId": current}
        assert refused(secrets.get_secret_value, **named)
        assert refused(secrets.put_secret_value, **named, SecretString="{}")
        assert refused(secrets.update_secret, **named, SecretString="{}")
        assert refused(secrets.update_secret_version_stage, **named, **stage)
        assert refused(secrets.put_resource_policy, **named, ResourcePolicy="{}")
        assert refused(secrets.delete_resource_policy, **named)
        assert refused(secrets.tag_resource, **named, Tags=[{"Key": "a", "Value": "b"}])
        assert refused(secrets.delete_secret, **named, ForceDeleteWithoutRecovery=True)


def test_others_stop_it_and_neither_start_nor_destroy_it(
    vault: Vault, owner: Account, colleague: Account
) -> None:
    bucket, credentials = vault.bucket, {}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        credentials[name] = vault.colleague[name]
    run_id = Deployment(Aws(REGION), bucket, CLUSTER).run().run_id  # type: ignore[union-attr]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials.items():
            patch.setenv(name, value)
        workspace = Workspace.load()
        theirs = Deployment(workspace.aws, bucket, CLUSTER)
        with pytest.raises(ClusterPrivate, match="destroy it"):
            workspace.destroy_cluster(CLUSTER)
        assert theirs.status().state == "running"
        assert theirs.stop(wait_seconds=HANG_SECONDS) is False
        with pytest.raises(ClusterPrivate, match="start it"):
            theirs.start()
        assert theirs.run() is None
    assert members(owner, vault) == set()
    # They plant a class for the creator's next start.
    s3 = colleague.client("s3")
    genuine = s3.get_object(**vault.key("cluster.json"))["Body"].read()
    planted = {**json.loads(genuine), "worker": {"class": "planted.Class"}}
    s3.put_object(**vault.key("cluster.json"), Body=json.dumps(planted).encode())
    with pytest.raises(DocumentChanged, match=r"cluster\.json"):
        Deployment(Aws(REGION), bucket, CLUSTER).start()
    s3.put_object(**vault.key("cluster.json"), Body=genuine)
    # The keys are there still, and their creator's.
    secret = json.loads(
        owner.client("secretsmanager").get_secret_value(SecretId=vault.secret_id)["SecretString"]
    )
    assert secret["run_id"] == run_id
    mine = Deployment(Aws(REGION), bucket, CLUSTER)
    assert mine.start().run_id != run_id
    assert mine.stop(wait_seconds=HANG_SECONDS) is True
