"""`terradask debug` on a cluster that is made in part, runs, is stopped and gone."""

from __future__ import annotations

import contextlib
import json
import zipfile
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

SETTINGS = """
[clusters.packed]
worker_cpu = 2
n_workers = 1
environ = { MODE = "plain-word-of-a-variable" }
"""
_LOCK = {
    "ID": "1",
    "Who": "ada@laptop",
    "Operation": "OperationTypePlan",
    "Info": "token=s3cr3t-of-the-lock",
    "Created": "2026-11-27T02:24:00Z",
}
_STATE = {
    "version": 4,
    "serial": 7,
    "lineage": "of-a-half",
    "terraform_version": "1.15.0",
    "outputs": {"planted": {"value": "s3cr3t-of-an-output", "type": "string"}},
    "resources": [
        {
            "mode": "managed",
            "type": "aws_secretsmanager_secret",
            "name": "keys",
            "provider": 'provider["registry.terraform.io/hashicorp/aws"]',
            "instances": [{"attributes": {"id": "arn:half", "description": "s3cr3t-of-the-state"}}],
        }
    ],
}


@pytest.fixture
def terradask(sim: Simulator, tmp_path: Path):
    (tmp_path / "terradask.toml").write_text(SETTINGS)

    def run(*arguments: str) -> str:
        done = in_this_process(*arguments, environ=sim.environ, folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def packed(terradask, tmp_path: Path):
    """Make an archive of a cluster, and return its files; none has a secret."""

    def make(name: str, *options: str) -> dict[str, str]:
        made = json.loads(terradask("debug", name, "--json", *options))
        with zipfile.ZipFile(tmp_path / made["path"]) as archive:
            found = {each.partition("/")[2]: archive.read(each) for each in archive.namelist()}
        (tmp_path / made["path"]).unlink()
        texts = {file: content.decode() for file, content in found.items()}
        for secret in ("s3cr3t", "plain-word-of-a-variable", "PRIVATE KEY"):
            assert [file for file, text in texts.items() if secret in text] == []
        return texts

    return make


def test_a_cluster_runs_is_stopped_and_gone(sim: Simulator, terradask, packed) -> None:
    terradask("apply", "packed", "--yes")
    try:
        terradask("start", "packed")
        with contextlib.closing(sim.client("s3")) as s3:
            bucket = next(
                each["Name"]
                for each in s3.list_buckets()["Buckets"]
                if each["Name"].startswith("terradask-default-")
            )
            planted = {
                "../../x": b"",
                "software.lock": b"--index-url https://me:s3cr3t-of-an-index@host/simple\n",
            }
            for key, content in planted.items():
                s3.put_object(Bucket=bucket, Key=f"clusters/packed/{key}", Body=content)
        # Hosts send their logs every few seconds.
        runs = eventually(
            lambda: found if "logs/scheduler.txt" in (found := packed("packed")) else None
        )
        status = json.loads(runs["status.json"])
        assert status["state"] == "running"
        assert "packed: " in runs["README.md"]
        assert " scheduler " in runs["logs/scheduler.txt"]
        assert "  running\n" in runs["events.txt"]
        assert "../../x" in runs["objects.json"]
        assert "https://(sensitive)@host" in runs["documents/software.lock.txt"]
        state = json.loads(runs["states/packed.json"])["state"]
        assert "aws_autoscaling_group.scheduler" in {one["address"] for one in state["resources"]}
        assert "no changes" in runs["plan.md"].lower()
        assert "MODE" in runs["settings.json"]
        terradask("stop", "packed")
        stopped = packed("packed", "--no-plan")
        assert json.loads(stopped["status.json"])["state"] == "stopped"
        assert "plan.md" not in stopped
    finally:
        terradask("destroy", "packed", "--yes")
    gone = packed("packed", "--no-plan")
    assert "There is no cluster" in gone["README.md"]
    assert gone["logs/scheduler.txt"]
    assert "destroyed" in gone["history.json"]


def test_a_cluster_is_made_in_part_and_its_state_locked(sim: Simulator, packed) -> None:
    with contextlib.closing(sim.client("s3")) as s3:
        bucket = next(
            each["Name"]
            for each in s3.list_buckets()["Buckets"]
            if each["Name"].startswith("terradask-default-")
        )
        keys = {
            "clusters/half/terraform.tfstate": _STATE,
            "clusters/half/terraform.tfstate.tflock": _LOCK,
        }
        for key, document in keys.items():
            s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(document).encode())
        try:
            half = packed("half", "--no-plan")
        finally:
            for key in keys:
                s3.delete_object(Bucket=bucket, Key=key)
    assert json.loads(half["status.json"])["state"] == "unfinished"
    found = json.loads(half["states/half.json"])
    assert found["lock"]["holder"] == "ada@laptop"
    assert found["state"]["outputs"] == ["planted"]
    assert [one["id"] for one in found["state"]["resources"]] == ["arn:half"]
