"""What a plan does to clusters that run, and what a report says in a word."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._plans.impact import RunningCluster, impacts, may_affect, refuse_while_running
from terradask._plans.policy.findings import Waived
from terradask._plans.policy.values import UNKNOWN, AttributeChange
from terradask._plans.summary import Change
from terradask.errors import InUse

from .report_data import FINDING, of_changes, report, whole

RUNNING = RunningCluster("etl", "running", {"scheduler": 1, "workers": 12})


def _group(name: str, action: str, limit: int | None = None) -> Change:
    attributes = () if limit is None else (AttributeChange("max_size", 200, limit),)
    return Change(
        f"aws_autoscaling_group.{name}", "aws_autoscaling_group", action, None, attributes
    )


def _moved(name: str, to: list[str] | None, *more: AttributeChange) -> Change:
    after = AttributeChange(
        "vpc_zone_identifier", ["subnet-a"], UNKNOWN if to is None else to, known=to is not None
    )
    return Change(
        f"aws_autoscaling_group.{name}", "aws_autoscaling_group", "update", None, (after, *more)
    )


BALANCING = AttributeChange("suspended_processes", None, ["AZRebalance"])
TEMPLATE = AttributeChange(
    "mixed_instances_policy[0].launch_template[0].launch_template_specification[0].version",
    "1",
    "2",
)
REFUSED = "; apply refuses it before `terradask stop etl`"
WHOLE = "stop and start the cluster to move it completely"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            _moved("scheduler", ["subnet-b"]),
            f"its scheduler stays in subnet-a, the next one starts in subnet-b: {WHOLE}",
        ),
        (
            _moved("workers", None),
            (
                "its 12 workers stay in subnet-a, new ones start in a subnet known after the "
                f"apply, perhaps in another zone: {WHOLE}"
            ),
        ),
        (
            _moved("workers", ["subnet-b"], BALANCING),
            (
                "its 12 workers are replaced, from subnet-a to subnet-b, with the results that "
                "they "
                "hold"
            ),
        ),
        (
            _moved("scheduler", ["subnet-b"], BALANCING),
            (
                "its scheduler is replaced, from subnet-a to subnet-b: every client loses the "
                "cluster "
                "with its results"
            ),
        ),
        (
            _group("workers", "replace"),
            f"its 12 workers end, with the results that they hold{REFUSED}",
        ),
        (
            _group("workers", "delete"),
            f"its 12 workers end, with the results that they hold{REFUSED}",
        ),
        (
            _group("scheduler", "replace"),
            f"its scheduler ends, and every client loses the cluster with its results{REFUSED}",
        ),
        (
            _group("workers", "update", 5),
            "7 of its 12 workers end, since the group may have 5 at most",
        ),
        (
            Change("aws_secretsmanager_secret.keys", "aws_secretsmanager_secret", "replace"),
            f"hosts and clients lose their keys{REFUSED}",
        ),
        (
            Change("aws_iam_role.worker", "aws_iam_role", "replace"),
            f"its hosts can't do without it{REFUSED}",
        ),
    ],
)
def test_a_running_cluster_is_hit(change: Change, text: str):
    summary = of_changes(change, stack="etl").summary
    assert may_affect(summary)
    assert [(d.kind, d.text) for d in impacts(summary, [RUNNING])] == [
        ("running", f"cluster etl is running: {text}")
    ]
    assert impacts(summary, []) == ()


@pytest.mark.parametrize(
    "change",
    [
        _group("workers", "update", 12),
        _group("scheduler", "update", 1),
        _group("workers", "create"),
        _moved("workers", ["subnet-a", "subnet-b"]),
        Change(
            "aws_autoscaling_group.workers", "aws_autoscaling_group", "update", None, (TEMPLATE,)
        ),
        Change("aws_s3_object.descriptor", "aws_s3_object", "update"),
        Change("aws_s3_object.descriptor", "aws_s3_object", "replace"),
    ],
)
def test_a_running_cluster_is_left_alone(change: Change):
    assert impacts(of_changes(change, stack="etl").summary, [RUNNING]) == ()


def test_workers_that_are_not_there_stay_nowhere():
    for more in ((), (BALANCING,)):
        summary = of_changes(_moved("workers", ["subnet-b"], *more), stack="etl").summary
        assert impacts(summary, [RunningCluster("etl", "starting", {})]) == ()


def test_only_the_workers_of_a_group_end_with_it():
    running = RunningCluster("etl", "running", {"scheduler": 1, "workers": 0, "workers-spot": 12})
    summary = of_changes(
        _group("workers-spot", "delete"), _group("workers", "delete"), stack="etl"
    ).summary
    assert [d.text for d in impacts(summary, [running])] == [
        f"cluster etl is running: its 12 workers end, with the results that they hold{REFUSED}"
    ]
    assert running.as_dict() == {"name": "etl", "state": "running", "workers": 12}


def test_a_network_names_what_it_loses():
    lost = [Change(f"aws_subnet.s{number}", "aws_subnet", "replace") for number in range(5)]
    found = impacts(of_changes(*lost).summary, [RUNNING, RunningCluster("ml", "starting", {})])
    assert [d.text for d in found] == [
        (
            f"cluster {name} is {state}, with {n} workers, on a network that loses aws_subnet.s0, "
            f"aws_subnet.s1, aws_subnet.s2 and 2 more; apply refuses it before `terradask stop "
            f"{name}`"
        )
        for name, state, n in (("etl", "running", 12), ("ml", "starting", 0))
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "aws_vpc",
        "aws_subnet",
        "aws_security_group",
        "aws_internet_gateway",
        "aws_route_table",
        "aws_iam_role",
        "aws_iam_instance_profile",
        "aws_s3_bucket",
    ],
)
@pytest.mark.parametrize("action", ["replace", "delete"])
@pytest.mark.parametrize("stack", ["network", "etl"])
def test_what_running_clusters_stand_on_stays(stack: str, action: str, kind: str):
    summary = of_changes(
        Change(f"{kind}.it", kind, action), Change("aws_eip.nat", "aws_eip", "replace"), stack=stack
    ).summary
    with pytest.raises(InUse, match="resources of running clusters") as caught:
        refuse_while_running(summary, [RUNNING])
    assert caught.value.problem.startswith(f"the plan of {stack} deletes")
    assert caught.value.given == f"{kind}.it; etl is running with 12 workers"
    for said in (f"{kind}.it", "etl is running with 12 workers", "terradask stop etl"):
        assert said in str(caught.value)
    refuse_while_running(summary, [])


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ((_group("workers", "replace"),), True),
        ((_group("scheduler", "delete"),), True),
        ((_group("gpu", "delete"),), False),
        ((_group("workers", "update", 5),), False),
        ((_moved("scheduler", ["subnet-b"]),), False),
        ((Change("aws_vpc.vpc", "aws_vpc", "update"),), False),
        ((Change("aws_vpc_endpoint.s3", "aws_vpc_endpoint", "delete"),), False),
    ],
)
def test_a_running_clusters_own_groups_stay(changes: tuple[Change, ...], refused: bool):
    summary = of_changes(*changes, stack="etl").summary
    if not refused:
        refuse_while_running(summary, [RUNNING])
        return
    with pytest.raises(InUse, match=r"aws_autoscaling_group\."):
        refuse_while_running(summary, [RUNNING])


def test_every_cluster_that_a_plan_would_hit_is_named():
    summary = of_changes(Change("aws_vpc.vpc", "aws_vpc", "replace")).summary
    others = [RunningCluster("ml", "starting", {}), RUNNING]
    with pytest.raises(InUse, match="terradask stop etl; terradask stop ml") as caught:
        refuse_while_running(summary, others)
    assert caught.value.clusters == ("etl", "ml")
    assert str(caught.value.given).endswith(
        "; etl is running with 12 workers, ml is starting with 0 workers"
    )


def test_nobody_is_asked_what_runs_where_nothing_can_be_hit():
    assert not may_affect(report("create").summary)
    assert may_affect(report("change").summary)


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ({"name": "change", "findings": (FINDING,)}, "blocked"),
        ({"name": "change", "findings": (FINDING.waive(Waived("r", "2026-12-31")),)}, "dangerous"),
        ({"name": "change"}, "dangerous"),
        ({"name": "clean"}, "no changes"),
    ],
)
def test_verdicts(parts: dict[str, Any], verdict: str):
    made = report(**parts)
    assert made.verdict == made.as_dict()["verdict"] == verdict
    assert whole(made, of_changes()).verdict == verdict
    assert whole(made, failed={"etl": "x"}).verdict == "failed"


def test_json_of_a_workspace_has_every_stack():
    data = whole(
        report(), report("create", stack="etl"), unchanged=("ml",), waiting=("bi",)
    ).as_dict()
    assert (data["format"], list(data["stacks"]), data["unchanged"], data["waiting"]) == (
        1,
        ["network", "etl"],
        ["ml"],
        ["bi"],
    )
    assert data["counts"] == {"create": 11, "update": 3, "replace": 2, "delete": 1, "imports": 0}
    assert data["context"]["commit"].endswith("-dirty")
    assert data["stacks"]["network"]["expires_at"] == "2026-11-21T05:30:19Z"
