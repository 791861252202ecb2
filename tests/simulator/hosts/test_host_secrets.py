"""Secrets by reference on hosts: who has them, when they are read, and where they are not found."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from ...waiting import HANG_SECONDS
from .account import REGION, Account
from .cluster import Cluster
from .processes import family

pytestmark = pytest.mark.simulator

#: Their environments are looked at.
FRESH_DASK = True

OLD, NEW, TOKEN = "the-old-password-4711", "the-new-password-4712", "a-token-that-is-planted"
AGAIN = {"secret_fresh_seconds": 0.0}


def shown_of(pid: int) -> bytes:
    """Return what the system shows of the processes below a host program: `ps` and /proc."""
    return b"".join(
        Path(f"/proc/{each}/{what}").read_bytes()
        for each in family(pid)
        for what in ("environ", "cmdline")
    )


def put_password(account: Account, text: str) -> None:
    account.secrets.put_secret_value(
        SecretId="team/db", SecretString=json.dumps({"password": text})
    )


@pytest.fixture(scope="module")
def references(account: Account) -> dict[str, str]:
    arn = account.secrets.create_secret(Name="team/db", SecretString="{}")["ARN"]
    ssm = boto3.client(
        "ssm",
        endpoint_url=account.endpoint,
        region_name=REGION,
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    ssm.put_parameter(Name="/team/token", Value=TOKEN, Type="SecureString")
    ssm.close()
    parameter = f"arn:aws:ssm:{REGION}:123456789012:parameter/team/token"
    return {"DB_PASSWORD": f"{arn}:password", "TOKEN": parameter}


@pytest.fixture(scope="module")
def cluster(
    account: Account, references: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    put_password(account, OLD)
    cluster = Cluster(account, tmp_path_factory.mktemp("hosts"), "secrets", workers=2)
    cluster.start(secrets=references)
    try:
        for host in [cluster.scheduler(timing=AGAIN), cluster.worker(0, timing=AGAIN)]:
            host.wait_state("running")
        yield cluster
    finally:
        cluster.close()


def test_all_processes_have_them_and_new_ones_a_rotated_value(
    cluster: Cluster, account: Account
) -> None:
    def own() -> tuple[str | None, str | None]:
        return os.environ.get("DB_PASSWORD"), os.environ.get("TOKEN")

    with cluster.client() as client:
        assert client.run_on_scheduler(own) == (OLD, TOKEN)
        assert list(client.run(own).values()) == [(OLD, TOKEN)]
        put_password(account, NEW)
        assert list(client.run(own).values()) == [(OLD, TOKEN)]
        # Its nanny starts another process.
        client.restart(timeout=HANG_SECONDS)
        assert list(client.run(own).values()) == [(NEW, TOKEN)]
        assert client.run_on_scheduler(own) == (OLD, TOKEN)


def test_neither_processes_show_them_nor_files_hold_them(cluster: Cluster) -> None:
    files = [path for path in cluster.folder.rglob("*") if path.is_file()]
    found = b"".join(shown_of(host.process.pid) for host in cluster.hosts)
    found += b"".join(path.read_bytes() for path in files)
    assert b"TERRADASK_SECRETS_SOCKET" in found, "or this proves little"
    assert [each for each in (OLD, NEW, TOKEN) if each.encode() in found] == []


def test_a_secret_that_is_missing_is_the_reason_of_running_and_of_new_hosts(
    cluster: Cluster, account: Account, references: dict[str, str]
) -> None:
    account.secrets.put_secret_value(SecretId="team/db", SecretString="{}")
    running = cluster.hosts[1]
    # The newest of its processes is the worker's: its nanny starts another one.
    os.kill(family(running.process.pid)[-1], signal.SIGKILL)
    running.wait_state("failed")
    reason = running.report()["reason"]
    assert "The secret for DB_PASSWORD can't be read: it has no such key: 'password'." in reason
    assert f"given: {references['DB_PASSWORD'].removesuffix(':password')}\n" in reason
    new = cluster.worker(1, timing=AGAIN)
    new.wait_state("failed")
    # It hasn't installed anything.
    assert new.states() == ["booting", "failed"]
    assert new.report()["reason"] == reason
