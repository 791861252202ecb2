"""Hosts that get none of what they are to run: their reports name the run that they are of."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .authority import RUN_ID
from .cluster import Cluster

pytestmark = pytest.mark.simulator

QUICK = {"run_deadline_seconds": 1.0}


def test_a_host_that_finds_the_secret_rotated_reports_that_as_its_runs(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = lonely(workers=1)
    cluster.account.secrets.put_secret_value(
        SecretId=cluster.secret_id, SecretString=json.dumps({"rotated": "by a policy"})
    )
    host = cluster.worker(0, timing=QUICK)
    assert host.wait_exit() == 1
    report = host.report()
    assert (report["state"], report["run_id"]) == ("failed", RUN_ID)
    assert f"the secret {cluster.secret_id} isn't what terradask writes" in report["reason"]
    assert "such as a rotation of secrets" in report["reason"]


def test_a_host_that_finds_no_run_reports_that_as_its_runs(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = lonely(workers=1)
    cluster.account.s3.delete_object(
        Bucket="terradask-hosts-123456789012-us-east-1", Key=f"clusters/{cluster.name}/run.json"
    )
    host = cluster.worker(0, timing=QUICK)
    assert host.wait_exit() == 1
    report = host.report()
    assert (report["state"], report["run_id"]) == ("failed", RUN_ID)
    assert "no run.json" in report["reason"]
