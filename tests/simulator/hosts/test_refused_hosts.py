"""Hosts that get none of what they are to run: their reports name the run that they are of."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from terradask._clusters.attach import SchedulerHostLog
from terradask.errors import HostFailed

from ...waiting import eventually
from .account import BUCKET, LOG_GROUP, Account
from .authority import RUN_ID
from .cluster import Cluster
from .endpoint import S3_DENIED, Endpoint

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
    assert f"the secret {cluster.secret_id} isn't a document of terradask" in report["reason"]
    assert "such as a rotation of secrets" in report["reason"]


def test_a_host_that_finds_no_run_reports_that_as_its_runs(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = lonely(workers=1)
    cluster.account.s3.delete_object(Bucket=BUCKET, Key=f"clusters/{cluster.name}/run.json")
    host = cluster.worker(0, timing=QUICK)
    assert host.wait_exit() == 1
    report = host.report()
    assert (report["state"], report["run_id"]) == ("failed", RUN_ID)
    assert "no run.json" in report["reason"]


def test_a_schedulers_host_writes_an_address_anew_that_can_not_be_read(
    lonely: Callable[..., Cluster], account: Account
) -> None:
    cluster = lonely(workers=1)
    account.s3.put_object(
        Bucket=BUCKET, Key=f"clusters/{cluster.name}/scheduler.json", Body=b"no JSON"
    )
    host = cluster.scheduler()
    host.wait_state("running")
    assert "scheduler.json is not valid JSON" in host.log
    address = cluster.get("scheduler.json")
    assert address is not None
    assert (address["run_id"], address["instance_id"]) == (RUN_ID, host.instance_id)


def test_a_schedulers_host_that_s3_refuses_says_so_in_its_log_and_clients_find_it(
    lonely: Callable[..., Cluster], account: Account
) -> None:
    refusing = Endpoint(account.endpoint)
    refusing.answer = 403, S3_DENIED
    cluster = lonely(workers=1)
    record = SimpleNamespace(
        name=cluster.name,
        aws=SimpleNamespace(client=lambda name: getattr(account, name)),
        where=SimpleNamespace(workspace=LOG_GROUP.removeprefix("/terradask/")),
    )
    words = SchedulerHostLog(record, SimpleNamespace(run_id=RUN_ID))  # type: ignore[arg-type]
    try:
        host = cluster.scheduler(
            timing={"run_deadline_seconds": 8.0, "log_flush_seconds": 0.2},
            endpoints={"AWS_ENDPOINT_URL_S3": refusing.url},
        )
        told = eventually(lambda: words.check_now([host.instance_id]), explain=lambda: host.log)
        assert "s3:PutObject with an explicit deny" in str(told)
        assert host.wait_exit() == 1
    finally:
        refusing.close()
    with pytest.raises(HostFailed) as caught:
        words.check_now([host.instance_id])
    reason = str(caught.value.reason)
    assert reason.startswith("No run.json and keys of this instance's run within 8 s. AWS's last")
    assert f"given: the instance's run is {RUN_ID}" in reason
