"""The state of a cluster, told from what AWS, the bucket and the hosts say."""

import dataclasses
import datetime
import json
from types import SimpleNamespace

import pytest

from terradask._clusters.overview import ClusterOverview
from terradask._observe.documents import Descriptor, derive_state
from terradask._observe.status import (
    DeploymentStatus,
    _ssh_command,
    dial_address,
    hosts_by_state,
    status_of,
)
from terradask._observe.verdict import Facts, judge
from terradask.cli._deployments import _HEADS, _row, status_text
from terradask_host.documents import PREPARED, Ended, HostReport, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_stacks.settings import ClusterSettings


def run(age):
    at = (datetime.datetime.now(datetime.UTC) - age).isoformat(timespec="seconds")
    return Run("r1", at, "arn", "v1", "3.11", {}, 2)


SCHEDULER = SchedulerAddress(
    "r1", "i-1", 1, "tls://10.0.0.1:8786", "tls://3.0.0.1:8786", 8787, "3.11", {}
)
OVER = dataclasses.replace(SCHEDULER, ended=Ended("2026-11-20T05:15:00Z", "idle for 20 minutes"))
UP = {
    "scheduler": Group("scheduler", 1, 1, (Member("i-1", "InService"),)),
    "workers": Group("workers", 2, 9),
}
GOING = {
    "scheduler": Group("scheduler", 0, 1, (Member("i-1", "Terminating"),)),
    "workers": Group("workers", 0, 9),
}
ZERO = {"scheduler": Group("scheduler", 0, 1), "workers": Group("workers", 0, 9)}
NOW, HOUR = datetime.timedelta(), datetime.timedelta(hours=1)


def host(role, state):
    return HostReport("i-1", role, role, state, None, "2026-11-20T05:15:00Z", "r1")


@pytest.mark.parametrize(
    ("groups", "age", "scheduler", "hosts", "closing", "state"),
    [
        (ZERO, None, None, (), False, "stopped"),
        (ZERO, NOW, None, (), False, "starting"),
        (ZERO, HOUR, None, (), False, "ended"),
        (ZERO, HOUR, SCHEDULER, (), False, "ended"),
        (ZERO, NOW, OVER, (), False, "ended"),
        (UP, NOW, OVER, (), False, "stopping"),
        (UP, NOW, None, (), False, "starting"),
        (UP, HOUR, SCHEDULER, (), False, "running"),
        (GOING, HOUR, SCHEDULER, (), False, "stopping"),
        (UP, NOW, None, (host("scheduler", "failed"),), False, "failed"),
        (UP, NOW, SCHEDULER, (host("worker", "failed"),), False, "running"),
        (ZERO, None, None, (), True, "closing"),
        (ZERO, HOUR, SCHEDULER, (), True, "closing"),
        # Its hosts marked it; what matters is why.
        (ZERO, HOUR, OVER, (), True, "ended"),
    ],
)
def test_state(groups, age, scheduler, hosts, closing, state):
    assert (
        derive_state(groups, None if age is None else run(age), scheduler, hosts, closing=closing)
        == state
    )


def test_prepared_hosts_of_all_groups_of_workers_count():
    settings = {"standby": 1, "worker_groups": {"gpu": {"standby": 2, "max_workers": 4}}}
    descriptor = Descriptor(
        "default", "etl", "us-east-1", "bucket", "us-east-1a", {}, "secret", settings, {}
    )
    record = SimpleNamespace(name="etl", descriptor=descriptor)
    groups = ZERO | {"workers": dataclasses.replace(ZERO["workers"], prepared=1)}
    found = status_of(record, [groups, None, None, (), False])
    assert "1 of 3 prepared hosts" in found.verdict.text


@pytest.mark.parametrize(("number", "state"), [(1, "prepared"), (0, "left")])
def test_a_host_that_aws_keeps_is_prepared_and_not_gone(number, state):
    descriptor = Descriptor(
        "default", "etl", "us-east-1", "bucket", "us-east-1a", {}, "secret", {}, {}
    )
    record = SimpleNamespace(name="etl", descriptor=descriptor)
    groups = UP | {"workers": dataclasses.replace(UP["workers"], prepared=number)}
    kept = dataclasses.replace(host("workers", "left"), instance_id="i-2", reason=PREPARED)
    other = dataclasses.replace(kept, instance_id="i-3", reason="idle")
    found = status_of(record, [groups, run(HOUR), SCHEDULER, (kept, other), False])
    assert [one.state for one in found.hosts] == [state, "left"]
    # Of two requested workers none reports.
    assert hosts_by_state(found.groups, found.hosts) == {
        key: n for key, n in {"launched": 1, "requested": 2, "prepared": number}.items() if n
    }


def test_the_address_to_dial():
    assert dial_address(SCHEDULER, public=True) == "tls://3.0.0.1:8786"
    assert dial_address(SCHEDULER, public=False) == "tls://10.0.0.1:8786"
    assert dial_address(None, public=True) is None


def test_a_host_whose_instance_is_gone_is_lost_unless_it_left_in_order():
    assert host("worker", "running").lost().state == "lost"
    assert "running" in host("worker", "running").lost().reason
    assert host("worker", "failed").lost() == host("worker", "failed")


def story(status):
    return status_text(ClusterOverview("default", status.name, status.state, status=status), status)


def status(**facts):
    known = {
        "run_id": "r1",
        "owner": "arn",
        "started_at": "2026-11-20T05:00:00Z",
        "scheduler_address": None,
        "groups": {},
        "hosts": (),
    }
    return DeploymentStatus(name="etl", max_workers=9, **known, **facts)


def test_why_a_cluster_has_ended_is_told_to_people_and_scripts():
    idle = status(state="ended", ended=OVER.ended)
    assert "idle for 20 minutes" in next(
        line for line in story(idle).splitlines() if line.startswith("ended")
    )
    assert json.loads(json.dumps(idle.as_dict()))["ended"] == {
        "at": "2026-11-20T05:15:00Z",
        "reason": "idle for 20 minutes",
    }
    assert "watchdog schedule" in next(
        line for line in story(status(state="ended")).splitlines() if line.startswith("ended")
    )
    for state in ("running", "stopped"):
        assert status(state=state).why_ended is None
        assert "ended" not in story(status(state=state))
        assert status(state=state).as_dict()["ended"] is None


def test_the_command_to_log_in_names_the_host_that_counts():
    group = Group("g", 1, 1, (Member("i-old", "Terminating"), Member("i-new", "InService")))
    opened = ClusterSettings(allow_ssh=True, allow_ssh_from=["10.0.0.0/8"])
    command = _ssh_command(opened, group)
    assert command == "aws ec2-instance-connect ssh --instance-id i-new --os-user ec2-user"
    assert _ssh_command(ClusterSettings(allow_ssh=False), group) is None
    assert _ssh_command(opened, None) is None
    running = status(state="running", ssh_command=command)
    assert f"log in     {command}" in story(running).splitlines()
    assert "log in" not in story(status(state="running"))


def failed(name, reason, at, tail=("a line",)):
    found = host("worker", "failed")
    return dataclasses.replace(found, instance_id=name, reason=reason, at=at, log_tail=tail)


def test_hosts_that_failed_alike_are_one_row_with_the_log_of_the_last():
    hosts = (
        failed("i-1", "no such package: torch", "2026-11-20T05:01:00Z"),
        failed("i-2", "no such package: torch", "2026-11-20T05:03:00Z", ("pip's last line",)),
        failed("i-3", "no such package: torch", "2026-11-20T05:02:00Z"),
        failed("i-4", "the disk is full", "2026-11-20T05:02:00Z", ()),
        dataclasses.replace(host("worker", "running"), instance_id="i-5"),
        dataclasses.replace(host("worker", "running"), instance_id="i-6"),
    )
    told = story(dataclasses.replace(status(state="running"), hosts=hosts))
    rows = [line for line in told.splitlines() if line.startswith("i-")]
    assert [line.split()[0] for line in rows] == ["i-2", "i-4", "i-5", "i-6"]
    assert rows[0].endswith("no such package: torch; 2 other hosts too")
    assert rows[1].endswith("the disk is full")
    assert told.count("the end of the log of") == 1
    assert "the end of the log of i-2:\n  pip's last line" in told


def test_list_has_the_workers_that_run_like_the_verdict():
    groups = {"workers": {"desired": 3, "instances": 3, "max_size": 9}}
    facts = Facts("etl", "starting", wanted=3, running=1, booting=2)
    known = dataclasses.replace(status(state="starting"), groups=groups, verdict=judge(facts))
    one = ClusterOverview("default", "etl", "starting", workers=(3, 3), status=known)
    assert dict(zip(_HEADS[1:], _row(one), strict=True))["workers"] == "1/3"
    by_groups = ClusterOverview("default", "etl", "starting", workers=(2, 3))
    assert dict(zip(_HEADS[1:], _row(by_groups), strict=True))["workers"] == "2/3"
