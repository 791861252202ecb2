"""Waiting for a scheduler: keys that are written late, hosts that failed, waits that end."""

import json

import pytest
from botocore.exceptions import ClientError

from terradask._runtime import attachment
from terradask._runtime.attachment import attach
from terradask._runtime.documents import Descriptor, Run
from terradask._runtime.keys import Bundle, KeySet
from terradask.errors import HostFailed, SchedulerMissing

DESCRIPTOR = Descriptor("default", "etl", "us-east-1", "bucket", "us-east-1a", {}, 9, "secret", {}, {})
RUN = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2)
KEYS = KeySet("r1", "ca", *(Bundle("cert", "key") for _ in range(3)))
SCHEDULER = {
    "format": 1, "run_id": "r1", "instance_id": "i-1", "boot": 1, "private_address": "tls://10.0.0.1:8786", "public_address": None,
    "dashboard_port": 8787, "python": "3.11", "packages": {},
}  # fmt: skip


class Secrets:
    """A secret whose version appears after some reads."""

    def __init__(self, missing_reads=0, code="ResourceNotFoundException"):
        self.missing_reads = missing_reads
        self.code = code

    def client(self, name):
        assert name == "secretsmanager"
        return self

    def get_secret_value(self, **_):
        self.missing_reads -= 1
        if self.missing_reads >= 0:
            raise ClientError({"Error": {"Code": self.code}}, "GetSecretValue")
        return {"SecretString": json.dumps(KEYS.to_document())}


class Objects:
    """The cluster's objects: a scheduler's address, hosts' reports."""

    def __init__(self, scheduler=None, hosts=()):
        self._scheduler = scheduler
        self._hosts = hosts

    def read(self, name):
        return self._scheduler

    def hosts(self):
        return list(self._hosts)


def attached(aws, objects, *, timeout_seconds=0.0, cancelled=lambda: False):
    return attach(aws, objects, DESCRIPTOR, RUN, timeout_seconds=timeout_seconds, on_wait=None, cancelled=cancelled)


def host(instance_id, state, at, run_id="r1"):
    return {"instance_id": instance_id, "role": "scheduler", "group": "scheduler", "state": state, "reason": at, "at": at, "run_id": run_id}


def test_keys_may_be_written_after_the_run_was_announced():
    assert attached(Secrets(missing_reads=1), Objects(SCHEDULER)).keys == KEYS


def test_who_may_not_read_the_keys_learns_it_at_once():
    with pytest.raises(ClientError, match="AccessDenied"):
        attached(Secrets(missing_reads=1, code="AccessDeniedException"), Objects(), timeout_seconds=60)


def test_of_several_failed_hosts_the_latest_is_told(monkeypatch):
    monkeypatch.setattr(attachment, "_REPORT_SECONDS", 0)
    hosts = [host("i-1", "failed", "2026-11-20T05:17:00Z"), host("i-2", "failed", "2026-11-20T05:16:00Z")]
    with pytest.raises(HostFailed) as caught:
        attached(Secrets(), Objects(hosts=hosts))
    assert caught.value.instance_id == "i-1"


def test_another_runs_scheduler_and_hosts_do_not_count():
    hosts = [host("i-1", "failed", "2026-11-20T05:17:00Z", run_id="r0")]
    with pytest.raises(SchedulerMissing, match="has not reported yet"):
        attached(Secrets(), Objects({**SCHEDULER, "run_id": "r0"}, hosts))


def test_a_cancelled_wait_ends():
    with pytest.raises(InterruptedError):
        attached(Secrets(), Objects(), timeout_seconds=60, cancelled=lambda: True)
