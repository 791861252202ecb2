"""Waiting for a scheduler: keys that are written late, hosts that failed, waits that end."""

import datetime
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from terradask._aws.rate_limit import RateLimiter
from terradask._aws.s3 import as_json
from terradask._aws.translation import typed_error
from terradask._clusters import attach as attachment
from terradask._clusters.attach import attach, attachment_from_parts
from terradask._observe.documents import Descriptor, read_address
from terradask._observe.keys import Bundle, KeySet
from terradask.errors import (
    AccessDenied,
    ClusterStopped,
    DocumentChanged,
    HostFailed,
    NoCapacity,
    SchedulerMissing,
)
from terradask_host.documents import Ended, Run, sha256_of
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.launch_problem import read_problem
from terradask_host.structure import GroupEntry

DESCRIPTOR = Descriptor("default", "etl", "us-east-1", "bucket", "us-east-1a", {}, "secret", {}, {})
RUN = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2)
KEYS = KeySet("r1", "ca", *(Bundle("cert", "key") for _ in range(3)))
SCHEDULER = {
    "format": 1,
    "run_id": "r1",
    "instance_id": "i-1",
    "boot": 1,
    "private_address": "tls://10.0.0.1:8786",
    "public_address": None,
    "dashboard_port": 8787,
    "python": "3.11",
    "packages": {},
}

NO_QUOTA = (
    "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU "
    "capacity than your current vCPU limit of 0 "
    "allows for the instance bucket that the specified instance type belongs to. Launching EC2 "
    "instance failed."
)


class Secrets:
    """A secret whose version appears after some reads."""

    def __init__(self, missing_reads=0, code="ResourceNotFoundException", keys=KEYS):
        self.missing_reads = missing_reads
        self.keys = keys
        self.code = code

    def client(self, name):
        assert name == "secretsmanager"
        return self

    def get_secret_value(self, **_):
        self.missing_reads -= 1
        if self.missing_reads >= 0:
            error = ClientError({"Error": {"Code": self.code}}, "GetSecretValue")
            raise typed_error(error, "us-east-1") or error
        return {"VersionId": "v1", "SecretString": json.dumps(self.keys.to_document())}


class Objects:
    """The cluster's objects: a scheduler's address, hosts' reports."""

    def __init__(self, scheduler=None, hosts=(), run=None):
        self._scheduler = scheduler
        self._run = run
        self._hosts = {host["instance_id"]: host for host in hosts}
        self.reads = []

    def read(self, name):
        self.reads.append(name)
        if name == "scheduler.json":
            return self._scheduler
        return self._hosts.get(name.removeprefix("hosts/").removesuffix(".json"))

    def read_bytes(self, name):
        assert name == "run.json"
        return self._run

    def hosts(self, most=None):
        return list(self._hosts.values())


def groups_with(*instance_ids, failures=()):
    members = tuple(Member(instance_id, "Pending") for instance_id in instance_ids)
    return SimpleNamespace(
        failures=lambda name: list(failures),
        describe=lambda: {"scheduler": Group("scheduler", 1, 1, members)},
    )


def attached(
    aws,
    objects,
    groups=None,
    *,
    descriptor=DESCRIPTOR,
    timeout_seconds=0.0,
    on_wait=None,
    cancelled=lambda: False,
    report_seconds=3.0,
):
    record = SimpleNamespace(
        name="etl",
        aws=aws,
        objects=objects,
        groups=groups or groups_with(),
        descriptor=descriptor,
        limiter=RateLimiter(poll_interval_seconds=0.001),
    )
    return attach(
        record,
        RUN,
        timeout_seconds=timeout_seconds,
        on_wait=on_wait,
        cancelled=cancelled,
        report_seconds=report_seconds,
    )


def host(instance_id, state, at, run_id="r1"):
    return {
        "instance_id": instance_id,
        "role": "scheduler",
        "group": "scheduler",
        "state": state,
        "reason": at,
        "at": at,
        "run_id": run_id,
    }


def test_keys_may_be_written_after_the_run_was_announced():
    assert attached(Secrets(missing_reads=1), Objects(SCHEDULER)).keys == KEYS


def test_run_json_is_the_one_that_the_keys_bind():
    genuine = as_json(RUN.to_document())
    bound = Secrets(keys=replace(KEYS, sha256={"run.json": sha256_of(genuine)}))
    assert attached(bound, Objects(SCHEDULER, run=genuine)).run == RUN
    planted = as_json(replace(RUN, owner="mallory").to_document())
    with pytest.raises(DocumentChanged, match=r"run\.json of cluster 'etl'") as caught:
        attached(bound, Objects(SCHEDULER, run=planted))
    assert (caught.value.name, caught.value.cluster) == ("run.json", "etl")
    # Stopped, or started again, meanwhile.
    for other in (None, as_json(replace(RUN, run_id="r2").to_document())):
        with pytest.raises(ClusterStopped):
            attached(bound, Objects(SCHEDULER, run=other))


GENUINE = as_json(RUN.to_document())
BOUND = replace(KEYS, sha256={"run.json": sha256_of(GENUINE)}).to_document()
ADDRESS = read_address(SCHEDULER)


@pytest.mark.parametrize(
    ("other", "belongs"),
    [
        ({}, True),
        ({"content": as_json(replace(RUN, owner="mallory").to_document())}, False),
        ({"secret": ("v2", BOUND)}, False),
        ({"secret": ("v1", {"format": 1})}, False),
        ({"secret": None}, False),
        ({"scheduler": replace(ADDRESS, run_id="r0")}, False),
        ({"scheduler": replace(ADDRESS, ended=Ended("2026-11-20T05:20:00Z", "idle"))}, False),
        ({"scheduler": None}, False),
    ],
    ids=[
        "all there",
        "another document",
        "another version",
        "no keys",
        "not to be read",
        "another run's scheduler",
        "ended",
        "not up",
    ],
)
def test_what_is_read_at_once_is_taken_only_if_it_belongs_together(other, belongs):
    read = {"content": GENUINE, "scheduler": ADDRESS, "secret": ("v1", BOUND), **other}
    found = attachment_from_parts(SimpleNamespace(descriptor=DESCRIPTOR), RUN, **read)
    assert (found is not None) == belongs
    if found is not None:
        assert (found.run, found.scheduler) == (RUN, ADDRESS)
        assert found.keys.to_document() == BOUND


def test_who_may_not_read_the_keys_learns_it_at_once():
    with pytest.raises(AccessDenied):
        attached(
            Secrets(missing_reads=1, code="AccessDeniedException"), Objects(), timeout_seconds=60
        )


def test_of_several_failed_hosts_the_latest_is_told():
    hosts = [
        host("i-1", "failed", "2026-11-20T05:17:00Z"),
        host("i-2", "failed", "2026-11-20T05:16:00Z"),
    ]
    with pytest.raises(HostFailed) as caught:
        attached(
            Secrets(),
            Objects(hosts=hosts),
            groups_with("i-1", "i-2"),
            timeout_seconds=60,
            report_seconds=0,
        )
    assert caught.value.instance_id == "i-1"


def test_a_failed_host_that_came_and_went_unseen_is_told_in_the_end():
    with pytest.raises(HostFailed):
        attached(Secrets(), Objects(hosts=[host("i-1", "failed", "2026-11-20T05:17:00Z")]))


@pytest.mark.parametrize("sent", [{}, {"array": {"chunk-size": "7 MiB"}}])
def test_a_failed_host_that_has_the_callers_configuration_is_told_how_to_do_without(
    sent, monkeypatch
):
    monkeypatch.setitem(globals(), "RUN", replace(RUN, dask_config=sent))
    with pytest.raises(HostFailed) as caught:
        attached(Secrets(), Objects(hosts=[host("i-1", "failed", "2026-11-20T05:17:00Z")]))
    assert ("send_dask_config=False" in caught.value.advice) == bool(sent)


def test_workers_that_boot_meanwhile_cost_nothing():
    workers = [
        {**host(f"i-{n}", "booting", "2026-11-20T05:17:00Z"), "role": "worker"} for n in range(1000)
    ]
    objects = Objects(hosts=[*workers, host("i-s", "booting", "2026-11-20T05:17:00Z")])
    told = []

    def tell(status):
        assert status.groups["scheduler"]["instances"] == 1
        told.append([report.instance_id for report in status.hosts])
        if len(told) == 3:
            objects._scheduler = SCHEDULER

    found = attached(
        Secrets(),
        objects,
        groups_with("i-s"),
        timeout_seconds=60,
        report_seconds=0,
        on_wait=tell,
    )
    assert found.run == RUN
    assert told == [["i-s"]] * 3
    first, *reads = objects.reads
    assert first == "scheduler.json"
    assert reads == ["scheduler.json", "hosts/i-s.json"] * 3 + ["scheduler.json"]


def test_a_scheduler_is_looked_for_ever_more_rarely():
    pauses = [attachment._pause_seconds(waited) for waited in (0, 2, 10, 40, 600)]
    assert pauses == [0.1, 0.1, 0.5, 2, 2]


def test_another_runs_scheduler_and_hosts_do_not_count():
    hosts = [host("i-1", "failed", "2026-11-20T05:17:00Z", run_id="r0")]
    with pytest.raises(SchedulerMissing, match="has not reported yet"):
        attached(Secrets(), Objects({**SCHEDULER, "run_id": "r0"}, hosts))


@pytest.mark.parametrize(
    ("at", "text", "instances", "expected"),
    [
        ("2026-11-20T05:15:03+00:00", NO_QUOTA, 0, "Running On-Demand Standard"),
        ("2026-11-20T05:15:03+00:00", NO_QUOTA, 1, None),
        ("2026-11-20T05:14:03+00:00", NO_QUOTA, 0, None),
        (
            "2026-11-20T05:15:03+00:00",
            "Invalid IAM Instance Profile name. Launching EC2 instance failed.",
            0,
            None,
        ),
    ],
    ids=["quota", "there all the same", "an earlier run's", "AWS tries again"],
)
def test_a_scheduler_that_aws_does_not_launch_is_told(at, text, instances, expected):
    failures = [(datetime.datetime.fromisoformat(at), read_problem(text))] * 2
    groups = groups_with(*(f"i-{n}" for n in range(instances)), failures=failures)
    entry = GroupEntry(autoscaling_group="g", role="scheduler", max_size=1)
    descriptor = replace(
        DESCRIPTOR, groups={"scheduler": entry}, lock={"scheduler_instance_types": ["m6i.xlarge"]}
    )
    with pytest.raises(NoCapacity if expected else SchedulerMissing) as caught:
        attached(Secrets(), Objects(), groups, descriptor=descriptor)
    if expected:
        assert str(caught.value).count("VcpuLimitExceeded") == 1
        assert expected in str(caught.value)
        assert "scheduler_vm_types" not in str(caught.value)


@pytest.mark.parametrize(
    ("desired", "claim_seconds", "expected"),
    [(0, 0.0, ClusterStopped), (0, 60.0, SchedulerMissing), (1, 0.0, SchedulerMissing)],
    ids=["at 0", "not raised yet", "raised"],
)
def test_a_group_that_went_to_0_is_not_waited_for(desired, claim_seconds, expected, monkeypatch):
    monkeypatch.setattr(attachment, "CLAIM_SECONDS", claim_seconds)
    groups = groups_with()
    groups.describe = lambda: {"scheduler": Group("scheduler", desired, 1, ())}
    objects = Objects()
    objects.read = lambda name: RUN.to_document() if name == "run.json" else None
    with pytest.raises(expected) as caught:
        attached(Secrets(), objects, groups, timeout_seconds=1.0, report_seconds=0)
    assert ("set by hand" in str(caught.value)) == (expected is ClusterStopped)


def test_a_scheduler_that_aws_does_not_launch_is_not_waited_for():
    failures = [
        (datetime.datetime.fromisoformat("2026-11-20T05:15:03+00:00"), read_problem(NO_QUOTA))
    ]
    entry = GroupEntry(autoscaling_group="g", role="scheduler", max_size=1)
    descriptor = replace(
        DESCRIPTOR, groups={"scheduler": entry}, lock={"scheduler_instance_types": ["m6i.xlarge"]}
    )
    with pytest.raises(NoCapacity):
        attached(
            Secrets(),
            Objects(),
            groups_with(failures=failures),
            descriptor=descriptor,
            timeout_seconds=60,
            report_seconds=0,
        )


@pytest.mark.parametrize(
    ("groups", "now"),
    [
        ({}, None),
        ({"scheduler": Group("scheduler", 0, 1, ())}, None),
        ({"scheduler": Group("scheduler", 1, 1, (Member("i-2", "InService"),))}, "r2"),
    ],
    ids=["destroyed", "stopped", "started again"],
)
def test_a_cluster_that_another_client_has_ended_is_not_waited_for(groups, now):
    objects = Objects(hosts=[host("i-2", "booting", "2026-11-20T05:17:00Z", run_id="r2")])
    read = objects.read
    documents = {"run.json": replace(RUN, run_id=now).to_document() if now else None}
    objects.read = lambda name: documents[name] if name in documents else read(name)
    known = SimpleNamespace(failures=lambda name: [], describe=lambda: groups)
    with pytest.raises(ClusterStopped):
        attached(Secrets(), objects, known, timeout_seconds=2, report_seconds=0)


def test_a_cancelled_wait_ends():
    with pytest.raises(InterruptedError):
        attached(Secrets(), Objects(), timeout_seconds=60, cancelled=lambda: True)
