"""What keeps a cluster from being as it was asked to be, told from what AWS and hosts say."""

from __future__ import annotations

import dataclasses
import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.group_limits import WATCHDOG_MINUTES, WATCHDOG_MOVED_MINUTES
from terradask._clusters.overview import ClusterOverview
from terradask._observe.documents import Descriptor
from terradask._observe.problems import LaunchFailures, problems_of
from terradask._observe.status import (
    DeploymentStatus,
    lacking_groups,
    recent_failures,
    scheduler_text,
    watchdog_of,
)
from terradask._observe.verdict import texts
from terradask.cli._deployments import status_text
from terradask.errors import AccessDenied
from terradask_host.documents import HostReport, LifetimePolicy, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_host.timing import Timing
from terradask_modules.names import group_name, host_name, is_template_of

from .group_facts import descriptor

RUN = Run("r1", "2026-11-20T05:00:00Z", "arn", "v1", "3.11", {}, 2)
SCHEDULER = SchedulerAddress("r1", "i-scheduler", 1, "tls://10.0.0.1:8786", None, 8787, "3.11", {})
AT = "2026-11-20T05:10:00Z"


def groups(**changed: Any) -> dict[str, Group]:
    found = {
        key: Group(key, 1, entry.max_size, (Member(f"i-{key}", "InService"),))
        for key, entry in descriptor().groups.items()
    }
    return {**found, **changed}


def report(role: str, state: str, **facts: Any) -> HostReport:
    group = "scheduler" if role == "scheduler" else "workers"
    given = {"instance_id": f"i-{role}", "reason": None, "at": AT, "run_id": "r1", **facts}
    return HostReport(role=role, group=group, state=state, **given)


def told(
    found: dict[str, Group],
    *reports: HostReport,
    run: Run | None = RUN,
    scheduler: SchedulerAddress | None = SCHEDULER,
    **failures: LaunchProblem,
) -> list[str]:
    problems = problems_of(
        descriptor(),
        found,
        run=run,
        scheduler=scheduler,
        reports=reports,
        failures={group: LaunchFailures((problem,)) for group, problem in failures.items()},
    )
    return list(texts(problems))


def test_a_cluster_as_it_should_be_has_no_problem() -> None:
    assert told(groups(), report("scheduler", "running"), report("worker", "running")) == []
    zero = {key: dataclasses.replace(each, desired=0) for key, each in groups().items()}
    # A stopped cluster's groups may be suspended, and it has no documents of a run.
    stopped = {
        key: dataclasses.replace(each, suspended={"Launch": ""}) for key, each in zero.items()
    }
    assert told(stopped, run=None, scheduler=None) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"max_size": 3},
            ["workers: its maximum is 3 at AWS, but 8 was applied", "terradask apply etl"],
        ),
        ({"untagged": True}, ["the tags of the group workers were removed", "apply etl"]),
        (
            {"suspended": {"Launch": "User suspended at 2026-11-20T05:00:00Z"}},
            [
                "workers: Launch is suspended (User suspended at 2026-11-20T05:00:00Z)",
                "aws autoscaling resume-processes --auto-scaling-group-name "
                "terradask-default-etl-workers --scaling-processes Launch",
            ],
        ),
        ({"suspended": {"Terminate": ""}}, ["Terminate is suspended: the group ends nothing"]),
    ],
)
def test_what_others_changed_is_said_with_what_helps(
    changes: dict[str, Any], words: list[str]
) -> None:
    (problem,) = told(groups(workers=dataclasses.replace(groups()["workers"], **changes)))
    for each in words:
        assert each in problem


def test_its_own_suspension_of_balancing_is_no_problem() -> None:
    found = groups(workers=dataclasses.replace(groups()["workers"], suspended={"AZRebalance": "x"}))
    assert told(found) == []


def test_a_group_that_is_gone_is_named() -> None:
    found = groups()
    del found["gpu"]
    (problem,) = told(found)
    assert "AWS doesn't have the group gpu of this cluster any more" in problem
    assert "terradask apply etl" in problem


def test_deleted_documents_are_named_while_hosts_run() -> None:
    (problem,) = told(groups(), run=None, scheduler=None)
    assert problem.startswith("run.json is missing")
    assert "terradask stop etl, then terradask start etl" in problem
    (problem,) = told(groups(), report("scheduler", "running"), scheduler=None)
    assert problem.startswith("scheduler.json is missing")
    # It boots.
    assert told(groups(), report("scheduler", "starting"), scheduler=None) == []


def test_a_schedulers_host_that_runs_and_never_reported_is_named_when_the_run_is_not_young() -> (
    None
):
    (problem,) = told(groups(), scheduler=None)
    assert problem.startswith("the scheduler's host i-scheduler runs and has reported nothing")
    assert "S3, the key or the network refuses it" in problem
    assert "terradask logs etl scheduler" in problem
    now = datetime.datetime.now(datetime.UTC).isoformat()
    assert told(groups(), scheduler=None, run=dataclasses.replace(RUN, started_at=now)) == []
    # The next one, in the place of a scheduler that reported.
    other = dataclasses.replace(SCHEDULER, instance_id="i-before")
    (problem,) = told(
        groups(), report("scheduler", "lost", instance_id="i-before"), scheduler=other
    )
    assert "i-scheduler runs and has reported nothing" in problem


HOST_TIMES = Timing()


@pytest.mark.parametrize(
    ("silent_minutes", "life", "is_told"),
    [
        (0, None, False),
        # As long as it takes until it is put off again, and until a second try.
        (11, None, False),
        (13, None, True),
        (29, None, True),
        # It is never put off beyond the end of the cluster's lifetime.
        (13, LifetimePolicy(max_lifetime_seconds=47 * 60), False),
        (13, LifetimePolicy(max_lifetime_seconds=60 * 60), True),
    ],
)
def test_a_schedulers_host_that_hangs_is_told_by_the_watchdog_schedule(
    silent_minutes: float, life: LifetimePolicy | None, *, is_told: bool
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    began = (now - datetime.timedelta(minutes=30)).isoformat(timespec="seconds")
    heard = now - datetime.timedelta(minutes=silent_minutes)
    fires = heard + datetime.timedelta(seconds=HOST_TIMES.watchdog_ahead_seconds)
    problems = problems_of(
        descriptor(),
        groups(),
        run=dataclasses.replace(RUN, started_at=began, life=life),
        scheduler=dataclasses.replace(SCHEDULER, started_at=began),
        reports=[],
        failures={},
        fires_at=fires,
    )
    found = texts(problems)
    assert len(found) == is_told
    if is_told:
        assert "the scheduler's host i-scheduler runs according to AWS" in found[0]
        assert f"last renewed its watchdog at {heard:%H:%M} UTC" in found[0]
        assert f"AWS sets all groups to 0 at {fires:%H:%M} UTC" in found[0]
        assert "terradask stop etl, then terradask start etl" in found[0]


def test_clients_know_how_hosts_put_the_watchdog_schedule_off() -> None:
    assert HOST_TIMES.watchdog_ahead_seconds == 60 * WATCHDOG_MINUTES
    assert HOST_TIMES.watchdog_move_seconds == 60 * WATCHDOG_MOVED_MINUTES


class Schedules:
    """Auto Scaling as it tells when a group's watchdog schedule fires, or refuses to."""

    def __init__(self, at: datetime.datetime | None) -> None:
        self.at = at

    def client(self, service: str) -> Schedules:
        return self

    def can_paginate(self, method: str) -> bool:
        return False

    def describe_scheduled_actions(self, **asked: str) -> dict[str, Any]:
        if self.at is None:
            raise AccessDenied("autoscaling:DescribeScheduledActions", "no")
        name = f"{asked['AutoScalingGroupName']}-dead-man"
        return {
            "ScheduledUpdateGroupActions": [{"ScheduledActionName": name, "StartTime": self.at}]
        }


def test_the_schedule_is_read_of_schedulers_that_are_old_enough_and_by_this_machines_clock() -> (
    None
):
    def read(at: datetime.datetime | None, age_minutes: float) -> datetime.datetime | None:
        began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=age_minutes)
        scheduler = dataclasses.replace(SCHEDULER, started_at=began.isoformat())
        aws = SimpleNamespace(client=Schedules(at).client, clock_ahead_seconds=600.0)
        record: Any = SimpleNamespace(aws=aws, descriptor=descriptor())
        return watchdog_of(record, [groups(), RUN, scheduler])

    at = datetime.datetime(2026, 11, 20, 5, tzinfo=datetime.UTC)
    assert read(at, 30) == at + datetime.timedelta(minutes=10)
    assert read(at, 5) is None
    assert read(None, 30) is None


def test_a_group_that_was_given_up_is_said_with_the_last_hosts_reason_until_hosts_come() -> None:
    note = (AT, "workers", "given up", "10 in a row ended without having joined")
    watching = report("scheduler", "running", notes=(note,))
    before = "2026-11-20T05:09:00Z"
    failed = report(
        "worker", "failed", reason="no access\nto run.json", history=(("booting", before),)
    )
    (problem,) = told(groups(), watching, failed)
    assert problem == (
        "workers: 10 in a row ended without having joined. The last one's reason: no access to "
        "run.json"
    )
    # S3 or the key refuses hosts: none of them could report.
    (problem,) = told(groups(), watching)
    assert "No host has reported a reason: S3, the key or the network" in problem
    assert "terradask logs etl workers" in problem
    later = report("worker", "booting", history=(("booting", "2026-11-20T05:11:00Z"),))
    assert told(groups(), watching, failed, later) == []


def test_a_shortfall_is_said_in_a_line_with_its_reason_and_what_helps() -> None:
    short = LaunchProblem("InsufficientInstanceCapacity", "We currently do not have enough.")
    found = groups(workers=dataclasses.replace(groups()["workers"], desired=5))
    (problem,) = told(found, workers=short)
    assert "\n" not in problem
    assert problem.startswith("AWS launches 2 of 6 workers, and no more now: workers: m6i.xlarge")
    assert "do not have enough. To do: " in problem
    assert "InsufficientInstanceCapacity: We currently" in problem
    assert "To do: allow more instance types" in problem


def test_why_launches_fail_is_asked_of_groups_that_lack_instances_alone() -> None:
    lacking = dataclasses.replace(groups()["workers"], desired=2)
    assert lacking_groups([groups(), RUN]) == []
    assert lacking_groups([groups(workers=lacking), RUN]) == ["workers"]
    assert lacking_groups([groups(workers=lacking), None]) == []
    now = datetime.datetime.now(datetime.UTC)
    recent, old = LaunchProblem("A", "a"), LaunchProblem("B", "b")
    failures = [(now, recent), (now, recent), (now - datetime.timedelta(hours=1), old)]
    record: Any = SimpleNamespace(groups=SimpleNamespace(failures=lambda group: failures))
    assert recent_failures(record, "workers", RUN) == LaunchFailures((recent,), now)

    def refuse(group: str) -> None:
        raise OSError("no route")

    record.groups = SimpleNamespace(failures=refuse)
    assert recent_failures(record, "workers", RUN) == LaunchFailures()


def status(**facts: Any) -> DeploymentStatus:
    given = {"owner": "arn", "started_at": AT, "groups": {}, "hosts": (), "max_workers": 8}
    address = "tls://10.0.0.1:8786"
    return DeploymentStatus("etl", "running", "r1", scheduler_address=address, **given, **facts)


def test_a_replaced_scheduler_and_problems_are_shown_to_people_and_scripts() -> None:
    first = status(scheduler_boot=1, scheduler_since=AT)
    assert scheduler_text(first) == "tls://10.0.0.1:8786"
    second = status(
        scheduler_boot=2, scheduler_since=AT, problems=("workers: Launch is suspended",)
    )
    overview = ClusterOverview("default", "etl", "running", status=second)
    story = status_text(overview, second)
    assert f"number 2 of this run since {AT}: the tasks and results of earlier ones" in story
    assert "problem    workers: Launch is suspended" in story
    document = overview.as_dict()
    assert (document["scheduler_boot"], document["scheduler_since"]) == (2, AT)
    assert document["problems"] == ("workers: Launch is suspended",)


def test_a_report_without_a_run_is_of_the_present_one() -> None:
    assert report("worker", "failed", run_id=None).belongs_to("r1")
    assert report("worker", "failed").belongs_to("r1")
    assert not report("worker", "failed", run_id="r0").belongs_to("r1")


def test_a_host_that_was_leaving_has_left_when_its_instance_is_gone() -> None:
    assert report("worker", "leaving", reason="idle").lost().state == "left"
    assert report("worker", "leaving", reason="idle").lost().reason == "idle"


NAMES = ("a", "a-b", "a-worker", "a-scheduler", "b")


def test_no_launch_template_is_two_clusters_of_which_groups_could_have_one_name() -> None:
    """Whose a group without tags is follows from its name and its template's together."""
    owners: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for workspace in NAMES:
        for cluster in (*NAMES, "b-worker", "worker"):
            hosts = [
                host_name(workspace, f"{role}{special}", owner) + architecture
                for role in ("scheduler", "worker")
                for special in ("", "-gpu", "-gpu500", "-100")
                for owner in (None, cluster)
                for architecture in ("", "-arm64")
            ]
            for host in hosts:
                assert is_template_of(host, workspace, cluster)
                for key in ("scheduler", "workers", "workers-spot", "gpu"):
                    group = group_name(workspace, cluster, key)
                    owners.setdefault((group, host), set()).add((workspace, cluster))
    assert {len(each) for each in owners.values()} == {1}
    for (_, host), ((workspace, cluster),) in owners.items():
        for other in NAMES:
            if other != workspace:
                assert not is_template_of(host, other, cluster)


@pytest.mark.parametrize(
    "name", ["", "web", "terradask-a", "terradask-a-web", "terradask-a.c-worker"]
)
def test_other_launch_templates_are_of_no_cluster(name: str) -> None:
    assert not is_template_of(name, "a", "b")


def test_the_descriptor_of_these_tests_has_the_usual_groups() -> None:
    assert isinstance(descriptor(), Descriptor)
    assert descriptor().groups.keys() == {"scheduler", "workers", "gpu"}
