"""A sweep that is refused, interrupted, or kept out by a lock; on moto, and so without
Terraform.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from terradask._common.processes import this_machine, this_user
from terradask._terraform.folder_lock import FolderLock
from terradask._workspace.applier import Applier
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.stack_runner import StackRunner
from terradask._workspace.workspace import Workspace
from terradask.errors import AccessDenied, FolderBusy, TerraformCancelled

from .swept_account import BUCKET, DEAD, GRACE, STACK, Account, keys, swept


def test_while_somebody_holds_the_state_nothing_of_the_cluster_goes(
    workspace: Workspace, account: Account
) -> None:
    group = account.group("made", "terradask-default-made-workers")
    lock = {
        "ID": "1",
        "Who": "ana@laptop",
        "Created": "2026-11-20T05:00:00Z",
        "Operation": "OperationTypeApply",
    }
    account.put("clusters/made/terraform.tfstate.tflock", json.dumps(lock))
    found = workspace.strays(grace_seconds=GRACE)
    assert {stray.held for stray in found.strays} == {
        "its state is locked by ana@laptop since 2026-11-20T05:00:00Z (apply)"
    }
    done = workspace.sweep(found)
    assert (done.removed, done.failed, len(done.kept)) == ((), {}, 2)
    assert account.groups() == {group}
    assert account.keys() == ["clusters/made/terraform.tfstate.tflock"]


def test_the_lock_of_a_command_that_was_killed_here_is_broken_and_written_down(
    root: Path, workspace: Workspace, account: Account
) -> None:
    group = account.group("made", "terradask-default-made-workers")
    now = datetime.datetime.now(datetime.UTC)
    who = this_user()
    lock = {"ID": "1", "Who": who, "Created": now.isoformat().replace("+00:00", "Z"), "Path": "b/k"}
    account.put("clusters/made/terraform.tfstate.tflock", json.dumps(lock))
    folder = root / STACK
    folder.parent.mkdir(parents=True)
    note = {
        **this_machine(),
        "pid": DEAD,
        "child": DEAD,
        "child_started": "7",
        "command": "terraform apply",
        "started_at": now.timestamp() - 1,
    }
    folder.with_name(".made.lock").write_text(json.dumps(note))
    found = workspace.strays(grace_seconds=GRACE)
    assert keys(found) == {("lock", "made"), ("group", group), ("objects", "clusters/made/")}
    done = workspace.sweep(found)
    assert ({stray.key for stray in done.removed}, done.failed) == (keys(found), {})
    assert account.groups() == set()
    (record,) = map(json.loads, (root / ".terradask/unlocks.jsonl").read_text().splitlines())
    assert record["stack"] == "made"
    assert record["reason"].startswith("terraform apply (process ")
    assert account.keys() == [f"unlocks/{record['at']}.json"]


def test_a_sweep_that_is_killed_leaves_a_lock_that_the_next_one_breaks(
    root: Path, workspace: Workspace, account: Account
) -> None:
    group, lock = (
        account.group("made", "terradask-default-made-workers"),
        "clusters/made/terraform.tfstate.tflock",
    )
    context = WorkspaceContext.load(SettingsSource(root, {}), aws=workspace.aws)
    with StackRunner(context).holding_state("made"):
        held = account.s3.get_object(Bucket=BUCKET, Key=lock)["Body"].read()
        note = (root / STACK).with_name(".made.lock")
        noted = json.loads(note.read_text())
        # Nobody else may deploy it meanwhile.
        with pytest.raises(FolderBusy), FolderLock((root / STACK), limit_seconds=0):
            pass
    assert account.keys() == []
    # As if that process had ended there.
    account.put(lock, held.decode())
    note.write_text(json.dumps({**noted, "pid": DEAD, "child": DEAD}))
    assert {stray.key for stray in swept(workspace).removed} == {
        ("lock", "made"),
        ("group", group),
        ("objects", "clusters/made/"),
    }
    left = account.keys()
    assert [key.partition("/")[0] for key in left] == ["unlocks"]


def test_what_may_not_be_looked_at_is_said_and_the_rest_goes(
    workspace: Workspace, account: Account, refuse: Callable[..., None]
) -> None:
    machine = account.instance("gone")
    account.secret("gone")
    account.volume("terradask-default-worker")
    refuse("ec2", "DescribeVolumes")
    refuse("secretsmanager", "ListSecrets")
    refuse("iam", "ListRoles")
    found = workspace.strays(grace_seconds=GRACE)
    assert keys(found) == {("instance", machine)}
    assert {one.action for one in found.unseen} == {
        "ec2:DescribeVolumes",
        "secretsmanager:ListSecrets",
        "iam:ListRoles",
    }
    # Nobody guesses a price.
    assert found.hourly_usd(found.strays[0]) is None
    assert [stray.id for stray in workspace.sweep(found).removed] == [machine]


def test_without_the_groups_no_machine_of_a_living_cluster_is_judged(
    workspace: Workspace, account: Account, refuse: Callable[..., None]
) -> None:
    account.put("clusters/live/cluster.json")
    account.instance("live", "a-group")
    refuse("autoscaling", "DescribeAutoScalingGroups")
    found = workspace.strays(grace_seconds=GRACE)
    assert (found.strays, [one.action for one in found.unseen]) == (
        (),
        ["autoscaling:DescribeAutoScalingGroups"],
    )


def test_without_the_bucket_nobody_knows_what_lives(
    workspace: Workspace, account: Account, refuse: Callable[..., None]
) -> None:
    account.instance("gone")
    refuse("s3", "ListObjectsV2")
    with pytest.raises(AccessDenied):
        workspace.strays(grace_seconds=GRACE)


def test_what_cant_be_removed_keeps_no_other_cluster(
    workspace: Workspace, account: Account, refuse: Callable[..., None]
) -> None:
    for name in ("a", "b"):
        account.secret(name)
    account.group("a", "terradask-default-a-workers")
    refuse("autoscaling", "DeleteAutoScalingGroup")
    done = swept(workspace)
    assert {stray.id for stray in done.removed} == {"terradask/default/b"}
    assert {stray.id: why for stray, why in done.failed.items()} == {
        "terradask-default-a-workers": "AWS refuses autoscaling:DeleteAutoScalingGroup",
        "terradask/default/a": "a resource that uses it could not be removed",
    }
    assert account.keys() == []


def test_ctrl_c_during_a_destruction_ends_the_sweep(
    workspace: Workspace, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        account.put(f"clusters/{name}/cluster.json")
        account.put(f"clusters/{name}/closing.json")
    begun: list[str] = []

    def cancelled(_applier: Applier, name: str) -> None:
        begun.append(name)
        raise TerraformCancelled("cancelled")

    monkeypatch.setattr(Applier, "destroy_cluster", cancelled)
    with pytest.raises(TerraformCancelled):
        swept(workspace)
    assert begun == ["a"]
