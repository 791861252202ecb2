"""What real runs have cost, by the command: while they go on, and when their clusters are gone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask import Deployment, Workspace
from terradask._aws.listing import listed_instances
from terradask._observe.run_costs.account import Account, AccountGroup, Use
from terradask._observe.run_costs.book import AccountBook
from terradask.errors import AccessDenied
from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import eventually

pytestmark = [pytest.mark.simulator]

TAGS = {"project": "forecast of the bill"}
#: Cluster -> SHA-256 of the plan that it was deployed from.
HASHES: dict[str, str] = {}


@pytest.fixture(scope="module")
def ada(
    sim: Simulator, sim_environ: dict[str, str], policies: dict[str, list[dict[str, Any]]]
) -> dict[str, str]:
    return sim.environ_of("ada", *policies["user"])


@pytest.fixture(scope="module")
def deployed(
    sim: Simulator, sim_environ: dict[str, str], policies: dict[str, list[dict[str, Any]]]
) -> Iterator[Deployment]:
    with sim.acting_as("ada", *policies["user"]):
        workspace = Workspace.load(cluster={"tags": TAGS})
        plan = workspace.plan_cluster("bill", max_workers=3)
        deployment = workspace.apply(plan)
        assert isinstance(deployment, Deployment)
        HASHES["bill"] = plan.hash
        yield deployment
        if deployment.objects.names():
            workspace.destroy_cluster("bill")


def costs(environ: dict[str, str], folder: Path, *arguments: str) -> dict[str, Any]:
    shown = in_this_process("cost", "--json", *arguments, environ=environ, folder=folder)
    assert shown.returncode == 0, shown.stderr
    return dict(json.loads(shown.stdout))


def row_of(run_id: str, environ: dict[str, str], folder: Path) -> dict[str, Any]:
    (found,) = [row for row in costs(environ, folder)["rows"] if row["run"] == run_id] or [
        {"instances": 0}
    ]
    return found


def run_seconds(sim: Simulator, run_id: str) -> float:
    """Return for how long AWS's own instances of a run have lived."""
    lives = sim.history()["instances"].values()
    return sum(
        life["ended"] - life["born"]
        for life in lives
        if life["tags"].get("terradask:run:id") == run_id
    )


@pytest.mark.life
def test_an_account_outlives_its_cluster_and_nobody_else_is_blamed(
    deployed: Deployment, sim: Simulator, ada: dict[str, str], tmp_path: Path
) -> None:
    run = deployed.start(n_workers=1)
    deployed.attach(timeout_seconds=100)

    def row_of_both() -> dict[str, Any] | None:
        found = row_of(run.run_id, ada, tmp_path)
        return found if found["instances"] == 2 else None

    row = eventually(row_of_both)
    assert (row["owner"], row["is_going_on"], row["ended_at"]) == (run.owner, True, None)
    assert run.owner.endswith(":assumed-role/ada/ada")
    assert row["unpriced_seconds"] == 0
    reports = eventually(lambda: reports if len(reports := deployed.reports()) == 2 else None)
    ids = [one.instance_id for one in reports]
    described = listed_instances(sim.client("ec2"), InstanceIds=ids)
    assert {one.instance_id: one.instance_type for one in reports} == {
        one["InstanceId"]: one["InstanceType"] for one in described
    }
    # What is left of it is the account: no cluster, no group, no document.
    Workspace.load().destroy_cluster("bill")
    assert deployed.objects.names() == []
    book = AccountBook(deployed.aws, deployed.bucket)
    (kept,) = book.read_all([f"{run.run_id}/bill.json"])
    assert kept.is_settled
    assert len(kept.uses) == 2
    after = row_of(run.run_id, ada, tmp_path)
    assert (after["instances"], after["is_going_on"], after["owner"]) == (2, False, run.owner)
    # Those lived for seconds, and AWS bills a minute at least.
    assert after["instance_seconds"] >= max(120, run_seconds(sim, run.run_id) - 4)
    shown = costs(ada, tmp_path, "--by", "tag:project")["rows"]
    (project,) = [one for one in shown if one["tag:project"] == TAGS["project"]]
    assert project["usd"] == after["usd"]
    assert float(after["usd"]) > 0
    table = in_this_process("cost", environ=ada, folder=tmp_path)
    (line,) = [line.split() for line in table.stdout.splitlines() if line.startswith(run.run_id)]
    assert line[1:5] == ["bill", "ada/ada", after["ended_at"], "2"]
    assert "made-up prices, not Amazon's" in table.stderr
    values = in_this_process("cost", "--csv", "--by", "owner", environ=ada, folder=tmp_path)
    owners = {one["owner"]: one for one in csv.DictReader(io.StringIO(values.stdout))}
    assert owners[run.owner]["instances"] == "2"
    assert costs(ada, tmp_path, "--until", "1d")["rows"] == []
    # And what else was done, by whom.
    told = in_this_process("history", "--json", environ=ada, folder=tmp_path)
    assert told.returncode == 0, told.stderr
    entries = [one for one in json.loads(told.stdout) if one["stack"] == "bill"]
    assert [(one["what"], one["by"], one["run_id"]) for one in entries] == [
        ("applied", run.owner, None),
        ("started", run.owner, run.run_id),
        ("ended", None, run.run_id),
        ("destroyed", run.owner, None),
    ]
    assert [one["reason"] is None for one in entries] == [True, True, False, True]
    assert entries[2]["reason"].startswith("destroyed by arn:")
    assert entries[0]["plan_sha256"] == HASHES["bill"]
    assert entries[0]["changes"]["add"] > 3
    network = [one for one in json.loads(told.stdout) if one["stack"] == "network"]
    assert network[0]["what"] == "applied"
    assert network[0]["by"].endswith("/setup")
    shown = in_this_process("history", environ=ada, folder=tmp_path).stdout
    assert [line.split()[1:4] for line in shown.splitlines() if " bill " in line] == [
        ["applied", "bill", "ada/ada"],
        ["started", "bill", "ada/ada"],
        ["ended", "bill", "-"],
        ["destroyed", "bill", "ada/ada"],
    ]


def test_a_pipeline_that_plans_reads_no_accounts(
    sim: Simulator, sim_environ: dict[str, str], policies: dict[str, list[dict[str, Any]]]
) -> None:
    run_id, at = "20260101T000000Z-1f3a9c", 1_767_225_600
    use = Use("i-0123456789abcdef0", "workers", None, None, None, at, at + 3_600)
    groups = {"workers": AccountGroup("on-demand")}
    workspace = Workspace.load()
    account = Account(run_id, "old", "ada", at, groups, {}, at + 3_600, at, {use.instance_id: use})
    AccountBook(workspace.aws, workspace.bucket).write(account)
    key = {"Bucket": workspace.bucket, "Key": f"accounts/{run_id}/old.json"}
    try:
        with sim.acting_as("ci", *policies["ci"]), pytest.raises(AccessDenied) as denied:
            Workspace.load().costs()
        assert denied.value.action == "s3:GetObject"
        with sim.acting_as("ongoing", *policies["ongoing"]):
            rows = Workspace.load().costs(by="cluster").rows
        # A type that is known no more is no reason to guess a price.
        (row,) = [row for row in rows if row.key == "old"]
        assert (row.usd, row.unpriced_seconds) == (0, 3_600)
        shown = in_this_process("cost", "--until", "2026-01-02", environ=sim.environ)
        assert shown.stdout.splitlines()[1].split()[-3:] == ["1", "1.00", "?"]
        assert "1.00 of 1.00 instance-hours have no price" in shown.stderr
    finally:
        sim.client("s3").delete_object(**key)
