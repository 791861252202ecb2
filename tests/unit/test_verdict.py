"""The verdict on a cluster: every kind of trouble has its words and its next command."""

from __future__ import annotations

import dataclasses
import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from terradask._clusters.overview import ClusterOverview
from terradask._network.baseline import Baseline
from terradask._observe.live_view import live_view
from terradask._observe.notes import facts_of
from terradask._observe.problems import LaunchFailures, launch_problems, problems_of
from terradask._observe.status import DeploymentStatus
from terradask._observe.verdict import KINDS, Facts, Problem, Verdict, clock, judge
from terradask._workspace.surroundings import unapplied_settings, version_gap
from terradask.cli._deployments import _row, status_text, verdict_lines
from terradask.cli._folders import _cluster
from terradask_host.documents import Ended, HostReport, LifetimePolicy, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.launch_problem import LaunchProblem, read_problem
from terradask_host.scaling_policy import ScalingPolicy
from terradask_stacks.settings import Settings

from .group_facts import descriptor

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def ago(**spans: float) -> str:
    return (NOW - datetime.timedelta(**spans)).isoformat().replace("+00:00", "Z")


RUN = Run("r1", ago(minutes=30), "arn", "v1", "3.11", {}, 3)
SCHEDULER = SchedulerAddress("r1", "i-s", 1, "tls://10.0.0.1:8786", None, 8787, "3.11", {})
CAPACITY = read_problem(
    "We currently do not have sufficient m6i.xlarge capacity in the Availability Zone you "
    "requested (us-east-1a). Launching EC2 instance failed."
)


def report(name: str, state: str = "running", **facts: Any) -> HostReport:
    role, group = ("scheduler", "scheduler") if name == "i-s" else ("worker", "workers")
    given = {"reason": None, "at": ago(minutes=20), "run_id": "r1", **facts}
    return HostReport(instance_id=name, role=role, group=group, state=state, **given)


def verdict(
    instances: tuple[str, ...] = ("i-1", "i-2", "i-3"),
    *reports: HostReport,
    desired: int = 3,
    state: str = "running",
    run: Run | None = RUN,
    scheduler: SchedulerAddress | None = SCHEDULER,
    failures: dict[str, LaunchFailures] | None = None,
    standby: int = 0,
    **changed: Any,
) -> Verdict:
    """Return the verdict on a cluster whose group of workers has these instances."""
    member = [Member(each, "InService") for each in instances]
    groups = {
        "scheduler": Group("scheduler", 1, 1, (Member("i-s", "InService"),)),
        "workers": Group("workers", desired, 8, tuple(member)),
        "gpu": Group("gpu", 0, 5),
    }
    for key, facts in changed.items():
        groups[key] = dataclasses.replace(groups[key], **facts)
    hosts = reports or (report("i-s"), *(report(each) for each in instances))
    problems = problems_of(
        descriptor(),
        groups,
        run=run,
        scheduler=scheduler,
        reports=hosts,
        failures=failures or {},
    )
    facts = facts_of(
        state,
        groups,
        run,
        scheduler,
        hosts=hosts,
        problems=problems,
        cluster="etl",
        standby=standby,
    )
    return judge(facts)


def short(*problems: LaunchProblem, minutes: float = 10) -> LaunchFailures:
    return LaunchFailures(problems, NOW - datetime.timedelta(minutes=minutes))


def test_a_cluster_as_it_should_be_is_good_and_needs_nothing() -> None:
    found = verdict()
    assert found == Verdict("good", "3 workers run")
    assert verdict((), desired=0).text == "no workers requested"
    assert verdict(("i-1",), desired=1).text == "1 worker runs"
    booting = verdict(("i-1", "i-2", "i-3"), report("i-s"), report("i-1"), report("i-2", "booting"))
    assert booting == Verdict(
        "waiting", "1 of 3 workers, 2 booting", "terradask status etl --watch"
    )


def test_the_line_of_the_page_at_night() -> None:
    found = verdict(
        ("i-1", "i-2", "i-3"),
        desired=8,
        scheduler=dataclasses.replace(SCHEDULER, boot=2),
        failures={"workers": short(CAPACITY)},
    )
    since = clock(NOW - datetime.timedelta(minutes=10), NOW)
    assert found.text == (
        f"3 of 8 workers: no capacity in us-east-1a since {since}; scheduler replaced once"
    )
    assert (found.level, found.command) == ("trouble", "terradask plan --refresh etl")


@pytest.mark.parametrize(
    ("text", "words", "command"),
    [
        (
            "VcpuLimitExceeded - You have requested more vCPU capacity than your current vCPU "
            "limit of 32 allows",
            "the quota of vCPUs is used up since",
            "terradask quotas",
        ),
        (
            "You are not authorized to perform this operation. Encoded authorization failure "
            "message: 4GIOHlTk. Launching EC2 instance failed.",
            "AWS denies the launch since",
            "terradask doctor",
        ),
        ("UnauthorizedOperation - no", "AWS denies the launch", "terradask doctor"),
        (
            "There are not enough free addresses in subnet 'subnet-1'",
            "no free addresses in the subnets of us-east-1a",
            "terradask plan network",
        ),
        (
            "Instance became unhealthy while waiting for instance to be in InService state. "
            "Termination Reason: Client.InternalError: Client error on launch",
            "Auto Scaling may not use the KMS key",
            "terradask doctor",
        ),
        ("Blocked - This account is currently blocked", "doesn't allow launches", "doctor"),
        (
            "ReservationCapacityExceeded - none left",
            "the capacity reservation is full",
            "aws ec2 describe-capacity-reservations",
        ),
        ("VolumeLimitExceeded - Maximum", "the quota of storage is used up", "quotas"),
        ("Unsupported - not here", "us-east-1a has none of the instance types", "--refresh"),
        (
            "The specified instance type is not eligible for Free Tier.",
            "Free plan has none of the instance types",
            "terradask doctor",
        ),
        ("Strange - new", "launches fail (Strange)", "terradask status etl --events"),
    ],
)
def test_every_reason_of_a_failed_launch_has_words_and_a_command(
    text: str, words: str, command: str
) -> None:
    found = verdict(("i-1",), desired=3, failures={"workers": short(read_problem(text))})
    assert found.text.startswith("1 of 3 workers: ")
    assert words in found.text
    assert command in str(found.command)
    # The sentence of the list of problems has AWS's text.
    assert "AWS launches 1 of 3 workers" in found.problems[0].text


def test_a_scheduler_that_aws_does_not_launch_comes_before_workers() -> None:
    failures = {"workers": short(CAPACITY), "scheduler": short(CAPACITY)}
    groups = {"scheduler": Group("scheduler", 1, 1), "workers": Group("workers", 3, 8)}
    problems = launch_problems(descriptor(), groups, failures)
    found = judge(Facts("etl", "starting", wanted=3, problems=tuple(problems))).problems
    assert found[0].kind == "scheduler"
    assert found[0].brief.startswith("no host for the scheduler: no capacity in us-east-1a since")
    assert found[0].text.startswith("AWS launches no scheduler: scheduler: m6i.large")


def test_failures_count_from_the_first_of_their_row() -> None:
    def at(minutes: float) -> datetime.datetime:
        return NOW - datetime.timedelta(minutes=minutes)

    row = [(at(1), CAPACITY), (at(12), CAPACITY), (at(25), CAPACITY)]
    assert LaunchFailures.of(row, RUN, NOW) == LaunchFailures((CAPACITY,), at(25))
    # Earlier ones, after a pause or of an earlier run, are others.
    assert LaunchFailures.of([row[0], (at(20), CAPACITY)], RUN, NOW).since == at(1)
    assert LaunchFailures.of([row[0], *row[1:], (at(31), CAPACITY)], RUN, NOW).since == at(25)
    assert LaunchFailures.of([(at(20), CAPACITY)], RUN, NOW) == LaunchFailures()


@pytest.mark.parametrize(
    ("changes", "text", "command"),
    [
        (
            {"workers": {"suspended": {"Launch": "AdministrativeSuspension"}}},
            "Launch of workers is suspended",
            "aws autoscaling resume-processes --auto-scaling-group-name "
            "terradask-default-etl-workers --scaling-processes Launch",
        ),
        (
            {"workers": {"max_size": 2}},
            "the maximum of workers was lowered to 2 at AWS",
            "terradask apply etl",
        ),
        (
            {"gpu": {"untagged": True}},
            "tags of the group gpu were removed",
            "terradask apply etl",
        ),
    ],
)
def test_what_others_changed_is_trouble(changes: dict[str, Any], text: str, command: str) -> None:
    found = verdict(**changes)
    assert (found.level, found.command) == ("trouble", command)
    assert found.text == f"3 workers run: {text}"


def test_hosts_that_fail_are_trouble_until_others_run() -> None:
    failed = report(
        "i-3", "failed", reason="pip: no matching\ndistribution", history=(("failed", ago()),)
    )
    hosts = [report("i-s"), report("i-1"), report("i-2"), failed]
    found = verdict(("i-1", "i-2", "i-3"), *hosts)
    assert found.text == "2 of 3 workers: 1 host failed: pip: no matching distribution"
    assert (found.level, found.command) == ("trouble", "terradask logs etl workers")
    found = verdict(("i-1", "i-2", "i-4"), *hosts, report("i-4"))
    assert found.text == "3 workers run; 1 failed host replaced"
    assert (found.level, found.command) == ("good", "terradask status etl --events")
    scheduler = report("i-s", "failed", reason="no access", history=(("failed", ago()),))
    found = verdict((), scheduler, state="failed", scheduler=None)
    assert found.text == "failed, 0 of 3 workers: the scheduler's host failed: no access"
    assert found.command == "terradask logs etl scheduler"
    note = (ago(), "workers", "given up", "10 in a row ended without having joined")
    found = verdict((), report("i-s", notes=(note,)), failed, desired=0)
    assert found.text == "no workers requested: hosts of workers don't join"


def test_lost_spot_hosts_and_a_near_end_are_notes() -> None:
    lost = report("i-9", "left", reason="spot interruption notice: at 05:00")
    hosts = [report("i-s"), *(report(f"i-{n}") for n in (1, 2, 3))]
    found = verdict(("i-1", "i-2", "i-3"), *hosts, lost)
    assert (found.level, found.text) == ("good", "3 workers run; AWS took 1 Spot host back")
    life = LifetimePolicy(max_lifetime_seconds=45 * 60)
    found = verdict(run=dataclasses.replace(RUN, life=life))
    end = clock(NOW + datetime.timedelta(minutes=15), NOW)
    assert found.text == f"3 workers run; ends at {end}, at its max_lifetime"
    assert found.command == "terradask dashboard etl"
    ending = Ended(
        (NOW + datetime.timedelta(minutes=8)).isoformat(), f"idle since {ago(minutes=12)}"
    )
    found = verdict(scheduler=dataclasses.replace(SCHEDULER, ending=ending))
    end, since = (clock(NOW + datetime.timedelta(minutes=m), NOW) for m in (8, -12))
    assert found.text == f"3 workers run; ends at {end}, idle since {since}"
    assert (found.level, found.command) == ("good", "terradask stop etl")


def test_prepared_hosts_are_counted_and_missing_ones_are_a_note() -> None:
    assert verdict(workers={"prepared": 2}, standby=2).text == "3 workers run, 2 prepared"
    found = verdict(workers={"prepared": 1}, standby=2)
    assert (found.level, found.text) == (
        "good",
        "3 workers run, 1 prepared; 1 of 2 prepared hosts",
    )
    note = (ago(), "workers", "unprepared", "i-9: pip failed")
    found = verdict(
        ("i-1",),
        *(report("i-s"), report("i-1"), report("i-9", "left", notes=(note,))),
        desired=1,
        workers={"prepared": 1},
    )
    assert found.text == (
        "1 worker runs, 1 prepared; 1 prepared host couldn't install everything: pip failed"
    )
    assert found.command == "terradask logs etl workers"
    # Removed since.
    reports = report("i-s"), report("i-1"), report("i-9", "left", notes=(note,))
    found = verdict(("i-1",), *reports, desired=1)
    assert found.text == "1 worker runs"
    assert judge(Facts("etl", "stopped", prepared=2)).text == "stopped, 2 prepared"


@pytest.mark.parametrize(
    ("state", "ended", "line", "command"),
    [
        ("stopped", None, "stopped", "terradask start etl"),
        ("ended", "at 02:10: idle", "ended by itself, at 02:10: idle", "terradask start etl"),
        ("closing", None, "its destruction was interrupted", "terradask destroy etl"),
        ("unfinished", None, "partly deployed or destroyed", "terradask apply etl"),
        ("unowned", None, "resources without a deployed cluster", "terradask sweep"),
        ("declared", None, "not deployed", "terradask plan etl"),
        ("starting", None, "starting, 0 of 3 workers", "terradask status etl --watch"),
    ],
)
def test_every_state_has_words_and_a_next_command(
    state: str, ended: str | None, line: str, command: str
) -> None:
    found = judge(Facts("etl", state, wanted=3, ended=ended))
    assert (found.text, found.command) == (line, command)


def test_many_problems_are_counted_and_the_gravest_comes_first() -> None:
    problems = tuple(Problem(kind, kind) for kind in reversed(KINDS))
    found = judge(Facts("etl", "running", problems=problems))
    assert (
        found.text
        == f"no workers requested: unreadable; unfinished; unowned; {len(KINDS) - 3} more"
    )
    assert [each.kind for each in found.problems] == list(KINDS)


def status(**facts: Any) -> DeploymentStatus:
    given = {"owner": "arn", "started_at": ago(hours=1), "hosts": (), "max_workers": 8, **facts}
    groups = {"workers": {"desired": 8, "instances": 3, "max_size": 8}}
    return DeploymentStatus("etl", "running", "r1", scheduler_address=None, groups=groups, **given)


def test_status_json_list_and_view_have_the_same_verdict() -> None:
    problem = Problem("capacity", "no capacity in us-east-1a since 02:24", "AWS …", "terradask x")
    known = status(
        problems=("AWS …",),
        verdict=judge(Facts("etl", "running", wanted=8, running=3, problems=(problem,))),
    )
    lock = Problem(
        "lock", "state locked by ada@host", "its state is locked", "terradask unlock etl"
    )
    one = ClusterOverview(
        "default",
        "etl",
        "running",
        hourly_usd=Decimal("0.5"),
        run_usd=Decimal("1.23456"),
        status=known,
        surroundings=(lock,),
    )
    line = "3 of 8 workers: no capacity in us-east-1a since 02:24"
    assert verdict_lines(one) == [f"etl: {line}; state locked by ada@host", "next: terradask x"]
    shown = status_text(one, known).splitlines()
    assert shown[:2] == verdict_lines(one)
    assert "problem    its state is locked" in shown
    assert "cost       $0.50 an hour, $1.23 since the start" in shown
    unpriced = status_text(dataclasses.replace(one, hourly_usd=None), known)
    assert "cost       at an unknown price, $1.23 since the start" in unpriced
    document = json.loads(json.dumps(one.as_dict(), default=str))
    assert document["verdict"]["text"] == f"{line}; state locked by ada@host"
    assert document["verdict"]["command"] == "terradask x"
    assert [each["kind"] for each in document["verdict"]["problems"]] == ["capacity", "lock"]
    assert known.as_dict()["verdict"]["text"] == line
    assert "facts" not in known.as_dict()["verdict"]
    pools = {"workers": next(iter(descriptor().pools.values()))}
    view = live_view(known, pools, now=NOW)
    assert view.verdict == known.verdict


def test_numbers_of_thousands_are_readable_in_status_and_list() -> None:
    groups = {"workers": {"desired": 1_500, "instances": 1_200, "max_size": 2_000}}
    policy = ScalingPolicy(4, 2_000)
    many = dataclasses.replace(
        status(max_workers=2_000, adapting={"workers": policy}), groups=groups
    )
    one = ClusterOverview("default", "etl", "running", workers=(1_200, 1_500), max_workers=2_000)
    shown = status_text(one, many).splitlines()
    assert [line.split() for line in shown if line.startswith("workers")] == [
        ["workers", "1,500", "1,200", "2,000"]
    ]
    assert "adapts     workers: 4 to 2,000" in shown
    assert _row(one)[2] == "1,200/1,500"
    assert "2,000" in _row(one)
    assert _cluster(one)[2:4] == ["1,200/1,500", "2,000"]


def deployed(**facts: Any) -> Baseline:
    given = {
        "format": 1,
        "terradask_version": "0.2.0",
        "vpc_id": "vpc-1",
        "vpc_cidr": "10.0.0.0/16",
        "zones": {},
        "templates": {"worker": {"x86_64": {"id": "lt-1", "version": "1"}}},
        "security_groups": {},
        "instance_profiles": {},
        "roles": {},
        "nat": "shared",
        "host": {"wheel_key": "w", "wheel_sha256": "s"},
        **dict.fromkeys(("workspace", "region", "account", "bucket"), "x"),
        **dict.fromkeys(("secrets_prefix", "log_group"), "x"),
        **facts,
    }
    return Baseline.model_validate(given)


def test_settings_of_the_network_that_are_not_applied_are_named() -> None:
    settings = Settings()
    same = {
        "nat": settings.network.nat,
        "public_schedulers": settings.network.public_schedulers,
        "public_workers": settings.network.public_workers,
    }
    assert unapplied_settings(settings, deployed(**same)) == []
    other = deployed(
        **{**same, "nat": "none" if same["nat"] != "none" else "per_zone"}, session_manager=True
    )
    assert unapplied_settings(settings, other) == ["network.session_manager", "network.nat"]
    rule = {"ports": ["8786-8787"], "cidr": "203.0.113.7/32", "description": "office"}
    settings = Settings.model_validate({"network": {"ingress": [rule]}})
    assert unapplied_settings(settings, deployed(**same, ingress=[rule])) == []
    assert unapplied_settings(settings, deployed(**same)) == ["network.ingress"]


def test_another_version_is_named_with_the_side_to_upgrade() -> None:
    assert version_gap(deployed(), "0.2.0") is None
    assert version_gap(deployed(), "0.3.0") == ("0.2.0", "terradask plan network")
    assert version_gap(deployed(), "0.1.0") == ("0.2.0", "pip install --upgrade terradask")
