"""A colleague gives an archive of their own out for what a run's hosts have built, with the proof
that the keys of a run make. It reaches no private cluster of the same user.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster
from terradask_host.documents import EnvironmentArchive
from terradask_host.environment_manifest import READY, EnvironmentManifest
from terradask_simulator import Simulator

from ..simulator.acting import Account, code_of, host
from .planted_scene import BUCKET

pytestmark = [pytest.mark.simulator, pytest.mark.life]

TAR = b"what the colleague wants to run"


def run_of(account: Account, name: str) -> dict[str, Any]:
    key = f"clusters/{name}/run.json"
    found: dict[str, Any] = json.load(
        account.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"]
    )
    return found


def test_what_a_colleague_proves_of_a_run_reaches_no_private_cluster(
    sim: Simulator,
    sim_environ: dict[str, str],
    policies: dict[str, list[dict[str, Any]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    key = "environments/open/planted.tar"
    with contextlib.ExitStack() as clients:
        colleague = Account(sim, sim.environ_of("colleague", *policies["user"]), clients)
        owner = Account(sim, sim.environ, clients)
        with Cluster("open", n_workers=0):
            s3 = colleague.client("s3")
            for place in (key, "environments/env-team/a.tar", "software/team.json"):
                assert code_of(s3.put_object, Bucket=BUCKET, Key=place, Body=TAR) == "AccessDenied"
                assert code_of(s3.delete_object, Bucket=BUCKET, Key=place) == "AccessDenied"
            # With the keys, they run code on the scheduler's host, whose role may.
            scheduler = host(owner, sim, clients, "terradask-default-scheduler")
            scheduler.client("s3").put_object(Bucket=BUCKET, Key=key, Body=TAR)
            plant(colleague, "open", key)
        assert run_of_next("another", owner, private=False) == key
        assert run_of_next("vaulted", owner, private=True) is None


def plant(colleague: Account, name: str, key: str) -> None:
    """Say of a run, with the proof by its key, that its environment is this object."""
    keys = colleague.client("secretsmanager").get_secret_value(SecretId=f"terradask/default/{name}")
    secret = json.loads(keys["SecretString"])
    said = EnvironmentManifest(
        run_of(colleague, name)["run_id"],
        secret["sha256"]["software.lock"],
        READY,
        EnvironmentArchive(key, len(TAR), hashlib.sha256(TAR).hexdigest()),
    ).proven(secret["scheduler"]["key"].encode())
    colleague.client("s3").put_object(
        Bucket=BUCKET,
        Key=f"clusters/{name}/environment.json",
        Body=json.dumps(said.to_document()).encode(),
    )


def run_of_next(name: str, owner: Account, *, private: bool) -> str | None:
    """Return which archive the next run of the same user names."""
    with Cluster(name, n_workers=0, private_to_creator=private):
        environment = run_of(owner, name)["environment"]
    return None if environment is None else str(environment["key"])
