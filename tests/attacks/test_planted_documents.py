"""Whoever may write a cluster's objects plants what hosts would run: hosts run nothing but what the
run was started with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..simulator.hosts.authority import RUN_ID
from ..simulator.hosts.cluster import Cluster, HostProcess
from .planting import planted_config

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

LATER = "20261121T051500Z-2b4c8d"


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    """Where planted code would leave a key."""
    return tmp_path / "proof"


def refused(host: HostProcess) -> str:
    """Return why a host failed; it has written no key by then."""
    assert host.wait_exit() == 1
    report = host.report()
    assert report["state"] == "failed"
    assert not list((host.root / "run/terradask").glob("*.key"))
    return str(report["reason"])


def test_a_preload_runs_where_the_run_was_started_with_it(
    lonely: Callable[..., Cluster], proof: Path
) -> None:
    """What the other tests plant would work."""
    cluster = lonely()
    cluster.start(dask_config=planted_config(proof))
    cluster.scheduler().wait_state("running")
    assert cluster.secret["scheduler"]["key"] in proof.read_text()


def test_a_preload_planted_in_run_json_runs_on_no_host(
    lonely: Callable[..., Cluster], proof: Path
) -> None:
    cluster = lonely()
    planted = cluster.run | {"dask_config": planted_config(proof)}
    cluster.plant("run.json", json.dumps(planted).encode())
    for host in (cluster.scheduler(), cluster.worker(0)):
        assert "run.json is not the document that the cluster was started with" in refused(host)
        assert host.report()["run_id"] == RUN_ID
    assert not proof.exists()


def test_the_run_json_of_an_earlier_run_is_not_run_again(
    lonely: Callable[..., Cluster], proof: Path
) -> None:
    """The earlier run was genuine, and had a preload that its creator has taken out since; the
    attacker may tag the group as well.
    """
    cluster = lonely(workers=3)
    earlier = json.dumps(cluster.run | {"dask_config": planted_config(proof)}).encode()
    cluster.start(dask_config=planted_config(proof))
    cluster.start(run_id=LATER)
    cluster.plant("run.json", earlier)
    timing = {"run_deadline_seconds": 2.0, "run_tag_grace_seconds": 0.5}
    for number, tag in enumerate([LATER, RUN_ID, None]):
        reason = refused(cluster.worker(number, tag_run_id=tag, timing=timing))
        assert f"run.json is of {RUN_ID}" in reason
        assert LATER in reason
    assert not proof.exists()


def test_a_package_planted_in_software_lock_is_not_installed(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = lonely()
    cluster.start("probe==1.0\n")
    cluster.plant("software.lock", b"probe==1.0\nplanted==6.6\n")
    host = cluster.worker(0, python="")
    assert "software.lock is not the document that the cluster was started with" in refused(host)
    assert "uv " not in host.log


def test_a_wheel_planted_in_the_bucket_is_not_installed(lonely: Callable[..., Cluster]) -> None:
    cluster = lonely()
    key = f"wheels/{'0a' * 32}/acme-1.0-py3-none-any.whl"
    cluster.start(f"acme @ {key}\n")
    cluster.plant(key, b"planted")
    host = cluster.scheduler(python="")
    assert "not the one that the cluster was started with" in refused(host)
    assert "uv " not in host.log


def test_what_is_planted_in_cluster_json_reaches_no_host(
    lonely: Callable[..., Cluster], proof: Path
) -> None:
    """Nor does what an apply changes there while the cluster runs."""
    cluster = lonely()
    options: dict[str, Any] = {
        role: {"class": "planted.Class", "options": {"preload": ["raise SystemExit(3)"]}}
        for role in ("scheduler", "worker")
    }
    cluster.put("cluster.json", {"format": 99, "secret_id": "terradask/hosts/mine", **options})
    cluster.scheduler().wait_state("running")
    cluster.worker(0).wait_state("running")
    with cluster.client() as client:
        assert client.submit(sum, [1, 2, 3]).result() == 6


def test_the_secret_of_another_cluster_binds_nothing(
    lonely: Callable[..., Cluster], proof: Path
) -> None:
    """An attacker has a cluster of their own, whose secret they may write."""
    mine, theirs = lonely(), lonely()
    planted = {"dask_config": planted_config(proof)}
    mine.start(**planted)
    theirs.plant("run.json", json.dumps(mine.run | planted).encode())
    theirs.put("cluster.json", {"format": 1, "secret_id": mine.secret_id})
    assert "run.json is not the document" in refused(theirs.scheduler())
    assert not proof.exists()


def test_a_run_of_an_older_terradask_is_refused_with_what_to_do(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = lonely()
    cluster.account.secrets.put_secret_value(
        SecretId=cluster.secret_id, SecretString=json.dumps(cluster.secret)
    )
    reason = refused(cluster.scheduler())
    assert "older terradask" in reason
    assert "terradask stop, then start" in reason
