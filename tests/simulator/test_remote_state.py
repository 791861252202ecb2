"""The network's state in S3, with the real Terraform: its bucket and its lock."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._common.processes import this_user
from terradask._plans.basis import check_planned_configuration
from terradask._terraform.folder_contents import CONFIGURATION
from terradask._terraform.state.bucket import TAG, make_state_bucket
from terradask._terraform.state.lock import LockInfo
from terradask._terraform.state.s3 import S3Backend
from terradask._terraform.terraform import Terraform
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.stack_runner import StackRunner
from terradask._workspace.states import StackStates
from terradask.cli import run
from terradask.errors import InvalidInput, StateLocked, TerraformError
from terradask_simulator import Simulator

pytestmark = [pytest.mark.simulator]

BUCKET = "terradask-state-123456789012-us-east-1"


@pytest.fixture(scope="module")
def own_aws() -> Iterator[Simulator]:
    """An embedded AWS of this module's own, which this process uses."""
    with Simulator.start() as simulator, simulator.applied():
        yield simulator


@pytest.fixture(scope="module")
def s3(own_aws: Simulator) -> Iterator[Any]:
    """A client of it."""
    client = own_aws.client("s3")
    yield client
    client.close()


@pytest.fixture(autouse=True)
def folders_keep_their_own_state(monkeypatch: pytest.MonkeyPatch, s3: Any) -> None:
    monkeypatch.delenv("TERRADASK_STATE_DIR", raising=False)


def _network_state(root: Path) -> S3Backend:
    return StackStates(WorkspaceContext.load(SettingsSource(root, {}))).place("network")


def test_init_makes_a_bucket_that_two_workspaces_share(
    tmp_path: Path, s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "terradask.toml").write_text(
            f'[workspace]\nname = "{name}"\ntags = {{ team = "data" }}\n'
        )
        assert run(["-C", str(tmp_path / name), "init", "--state", "s3", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["state_bucket"] == BUCKET
    assert s3.get_bucket_versioning(Bucket=BUCKET)["Status"] == "Enabled"
    assert set(
        s3.get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"].values()
    ) == {True}
    assert s3.get_bucket_ownership_controls(Bucket=BUCKET)["OwnershipControls"]["Rules"] == [
        {"ObjectOwnership": "BucketOwnerEnforced"}
    ]
    encryption = s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"][
        "Rules"
    ]
    assert encryption[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    (statement,) = json.loads(s3.get_bucket_policy(Bucket=BUCKET)["Policy"])["Statement"]
    assert (statement["Effect"], statement["Condition"]) == (
        "Deny",
        {"Bool": {"aws:SecureTransport": "false"}},
    )
    (rule,) = s3.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 90}
    tags = {tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(Bucket=BUCKET)["TagSet"]}
    assert tags == {"team": "data", TAG: "true"}

    blue, green = (_network_state(tmp_path / name).name for name in ("blue", "green"))
    assert blue == f"s3://{BUCKET}/workspaces/blue/network.tfstate"
    assert green == f"s3://{BUCKET}/workspaces/green/network.tfstate"


def test_a_bucket_that_is_not_terradasks_keeps_its_settings(s3: Any) -> None:
    s3.create_bucket(Bucket="platform-states")
    told: list[str] = []
    aws = Aws("us-east-1")
    assert not make_state_bucket(
        aws, "platform-states", tags={}, kms_key_arn=None, own_name=False, warn=told.append
    )
    assert len(told) == 2
    assert "its settings are not changed" in told[1]
    assert "Status" not in s3.get_bucket_versioning(Bucket="platform-states")
    s3.create_bucket(
        Bucket="states-abroad", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    with pytest.raises(InvalidInput, match="eu-west-1"):
        make_state_bucket(
            aws, "states-abroad", tags={}, kms_key_arn=None, own_name=False, warn=told.append
        )


APPLY = """
    import sys
    from pathlib import Path
    from terradask._terraform.terraform import Terraform
    Terraform(Path(sys.argv[1]), on_event=lambda e: print(e.type, flush=True)).destroy()
"""


class Network:
    """A workspace whose network is one resource that costs nothing: what is tried here is where its
    state lies.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "cdktf.out/stacks/network"
        self.folder.mkdir(parents=True)
        self.key = "workspaces/small/network.tfstate"

    def synthesise(self) -> None:
        """Write the settings and the stack."""
        (self.root / "terradask.toml").write_text(
            '[workspace]\nname = "small"\n[state]\nlock_timeout_seconds = 1\n'
        )
        remote = {
            "bucket": BUCKET,
            "key": self.key,
            "region": "us-east-1",
            "encrypt": True,
            "use_lockfile": True,
        }
        # Its removal takes a while.
        slow = {"local-exec": {"when": "destroy", "command": "sleep 30"}}
        resource = {"terraform_data": {"a": {"input": "one", "provisioner": slow}}}
        (self.folder / CONFIGURATION).write_text(
            json.dumps({"terraform": {"backend": {"s3": remote}}, "resource": resource})
        )

    def plan(self, told: list[str]) -> Any:
        """Plan as the commands do."""
        context = WorkspaceContext.load(
            SettingsSource(self.root, {}),
            progress=lambda event: told.append(getattr(event, "text", "")),
        )
        with StackRunner(context).locked("network") as stack:
            stack.terraform.init()
            return stack.terraform.plan(self.root / "p.tfplan")


def test_a_dead_owners_lock_is_broken_and_no_other(
    tmp_path: Path, s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    network = Network(tmp_path)
    told: list[str] = []
    network.synthesise()
    Terraform(network.folder).apply(network.plan(told))
    before = s3.get_object(Bucket=BUCKET, Key=network.key)["Body"].read()
    assert not network.plan(told).changed

    # Terraform takes our lock for one of its own.
    remote = _network_state(tmp_path)
    with (
        remote.held(network.folder, None, told.append),
        pytest.raises(StateLocked) as caught,
    ):
        Terraform(network.folder, state_lock_seconds=0).plan(tmp_path / "q.tfplan")
    assert (caught.value.holder, caught.value.given) == (this_user(), f"{BUCKET}/{network.key}")

    # Somebody works there: whoever waits is told who; killed, the owner is provably gone.
    process = _destroying(network, tmp_path)
    other = shutil.copytree(network.folder, tmp_path / "elsewhere/network")
    with pytest.raises(StateLocked, match=r"terradask unlock network"):
        Terraform(other, on_wait=told.append, state_lock_seconds=1).plan(tmp_path / "q.tfplan")
    assert told[-1].startswith("waiting up to 1 s: the state is locked by ")
    assert run(["-C", str(tmp_path), "unlock"]) == 5
    assert "works in" in capsys.readouterr().err
    _kill(process, network.folder)
    assert run(["-C", str(tmp_path), "unlock", "--json"]) == 0
    broken = json.loads(capsys.readouterr().out)["unlocked"]
    assert broken["reason"].startswith("terraform apply (process ")
    assert not broken["forced"]
    record = s3.get_object(Bucket=BUCKET, Key=f"unlocks/{broken['at']}.json")["Body"].read()
    assert (
        json.loads(record)
        == json.loads((tmp_path / ".terradask/unlocks.jsonl").read_text())
        == broken
    )
    assert run(["-C", str(tmp_path), "unlock"]) == 0
    assert "not locked" in capsys.readouterr().err

    # A lock of which nothing is known here stays.
    s3.put_object(
        Bucket=BUCKET,
        Key=f"{network.key}.tflock",
        Body=json.dumps({"ID": "theirs", "Who": "ana@laptop"}),
    )
    assert run(["-C", str(tmp_path), "unlock"]) == 5
    assert "--force theirs" in capsys.readouterr().err
    assert run(["-C", str(tmp_path), "unlock", "--force", "theirs", "--yes"]) == 0

    state = s3.get_object(Bucket=BUCKET, Key=network.key)["Body"].read()
    assert not network.plan(told).changed
    assert json.loads(state)["lineage"] == json.loads(before)["lineage"]


def test_a_lock_that_somebody_deletes_meanwhile_costs_no_state(tmp_path: Path, s3: Any) -> None:
    make_state_bucket(
        Aws("us-east-1"), BUCKET, tags={}, kms_key_arn=None, own_name=True, warn=print
    )
    network = Network(tmp_path)
    network.key = "workspaces/unlocked/network.tfstate"
    network.synthesise()
    # While it is made: its creation takes as long as the deletion of the lock.
    gone = tmp_path / "gone"
    slow = {
        "local-exec": {
            "command": f"touch {tmp_path}/begun; until test -e {gone}; do sleep 0.05; done"
        }
    }
    configuration = json.loads((network.folder / CONFIGURATION).read_text())
    configuration["resource"] = {"terraform_data": {"a": {"input": "one", "provisioner": slow}}}
    (network.folder / CONFIGURATION).write_text(json.dumps(configuration))
    terraform = Terraform(network.folder)
    terraform.init()
    plan = terraform.plan(tmp_path / "p.tfplan")
    # Its backend is the stack's.
    check_planned_configuration(plan.path, network.folder)
    with ThreadPoolExecutor(1) as pool:
        applying = pool.submit(terraform.apply, plan)
        while not (tmp_path / "begun").exists() and not applying.done():
            time.sleep(0.05)
        s3.delete_object(Bucket=BUCKET, Key=f"{network.key}.tflock")
        gone.touch()
        with pytest.raises(TerraformError, match=r"(?i)unlock|lock"):
            applying.result()
    state = json.loads(s3.get_object(Bucket=BUCKET, Key=network.key)["Body"].read())
    assert [resource["type"] for resource in state["resources"]] == ["terraform_data"]
    # The next command isn't in anybody's way.
    assert not terraform.plan(tmp_path / "q.tfplan").changed


def test_a_lock_that_was_taken_without_hearing_so_is_in_nobodys_way(
    tmp_path: Path, own_aws: Simulator, s3: Any
) -> None:
    make_state_bucket(
        Aws("us-east-1"), BUCKET, tags={}, kms_key_arn=None, own_name=True, warn=print
    )
    network = Network(tmp_path)
    network.key = "workspaces/unheard/network.tfstate"
    network.synthesise()
    removed: list[tuple[LockInfo, str]] = []

    def break_lock(lock: LockInfo, why: str) -> None:
        removed.append((lock, why))
        terraform.force_unlock(str(lock.id))

    terraform = Terraform(network.folder, state_lock_seconds=0, break_lock=break_lock)
    terraform.init()
    with own_aws.drop_answers("s3:PutObject", times=1):
        plan = terraform.plan(tmp_path / "p.tfplan")
    with own_aws.drop_answers("s3:PutObject", times=1):
        assert terraform.apply(plan)["add"] == 1
    assert [lock.operation for lock, _ in removed] == ["OperationTypePlan", "OperationTypeApply"]
    assert all(
        re.fullmatch(
            r"terraform (plan|apply) \(process \d+\) took it without getting the answer, "
            "and has ended",
            why,
        )
        for _, why in removed
    )
    assert [
        entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET, Prefix=network.key)["Contents"]
    ] == [network.key]


def test_the_lock_on_a_clusters_state(
    tmp_path: Path, s3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "terradask.toml").write_text('[workspace]\nname = "locked"\n')
    assert run(["-C", str(tmp_path), "unlock", "etl"]) == 6
    assert "terradask apply network" in capsys.readouterr().err
    bucket = "terradask-locked-123456789012-us-east-1"
    s3.create_bucket(Bucket=bucket)
    lock = json.dumps(
        {
            "ID": "theirs",
            "Who": "ana@laptop",
            "Created": "2026-11-20T05:00:00Z",
            "Operation": "OperationTypePlan",
        }
    )
    s3.put_object(Bucket=bucket, Key="clusters/etl/terraform.tfstate.tflock", Body=lock)
    assert run(["-C", str(tmp_path), "unlock", "etl", "--json"]) == 5
    assert "terradask unlock etl --force theirs" in json.loads(capsys.readouterr().err)["advice"]
    assert run(["-C", str(tmp_path), "unlock", "etl", "--force", "theirs"]) == 2
    assert run(["-C", str(tmp_path), "unlock", "etl", "--force", "theirs", "--yes"]) == 0
    assert "locked by ana@laptop since 2026-11-20T05:00:00Z: forced" in capsys.readouterr().err
    assert [
        entry["Key"].split("/")[0] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]
    ] == ["unlocks"]


def _destroying(network: Network, tmp_path: Path) -> subprocess.Popen[str]:
    """A process in the middle of removing something."""
    (tmp_path / "apply.py").write_text(textwrap.dedent(APPLY))
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "apply.py"), str(network.folder)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert any("provision_start" in line for line in process.stdout)
    return process


def _kill(process: subprocess.Popen[str], folder: Path) -> None:
    """Kill it and its Terraform, as the end of a machine's memory does."""
    noted = json.loads(folder.with_name(f".{folder.name}.lock").read_text())
    process.kill()
    os.killpg(noted["child"], signal.SIGKILL)
    process.communicate()
