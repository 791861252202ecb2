"""Every error keeps its fields, whatever way it travels, and says what the tree promises."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from terradask import errors
from terradask._plans.policy.findings import PolicyFinding
from terradask.errors import Diagnostic, TerradaskError

EXAMPLES: list[TerradaskError] = [
    errors.InvalidInput("a", given=1, allowed="b", advice="c"),
    errors.SettingsError([]),
    errors.NoMatchingType("a", advice="b"),
    errors.NoMatchingType(
        "a",
        given="worker_cpu=1",
        alternatives=[
            {"text": "worker_cpu=2", "change": {"worker_cpu": 2}, "types": ["m6i.large"]}
        ],
    ),
    errors.SetupError("a"),
    errors.AwsError("a"),
    errors.NoCredentials("a"),
    errors.InvalidCredentials("a"),
    errors.AccessDenied("ec2:RunInstances", "no"),
    errors.QuotaExceeded(
        "a", cluster="etl", largest={"workers": 3}, quotas=[{"code": "L-1216C47A", "limit": 64}]
    ),
    errors.RegionUnusable("a"),
    errors.EndpointUnreachable("a"),
    errors.TerraformError("a", verb="plan", diagnostics=[Diagnostic("error", "s", "d")]),
    errors.ProviderUnavailable("a"),
    errors.BackendMissing("a"),
    errors.StateConflict("a"),
    errors.StateLocked("a"),
    errors.StalePlan("a"),
    errors.TerraformCancelled("a"),
    errors.DocumentChanged("run.json", cluster="etl", advice="a"),
    errors.DocumentFormat("a", given=9, allowed="format 1"),
    errors.SoftwareNotResolved("No solution found"),
    errors.SoftwareUnusable("a", given="uv.lock: it lacks dask"),
    errors.FolderBusy("/x", pid=7, command="terraform plan", waited_seconds=3.0),
    errors.PlanChanged("a", what="file"),
    errors.PolicyViolation(
        [PolicyFinding("P2", "error", "aws_security_group.a", "lets everybody in")], stack="network"
    ),
    errors.BaselineError("a"),
    errors.NoBaseline("a"),
    errors.ClusterError("a", cluster="etl"),
    errors.ClusterNotFound("a", cluster="etl"),
    errors.ClusterPrivate(
        "etl",
        caller="arn:aws:iam::123456789012:user/bob",
        principals=["arn:aws:iam::123456789012:user/ada"],
    ),
    errors.ForeignDescriptor("a", given="'prod'", advice="remove it"),
    errors.ForeignResources(
        "a",
        cluster="etl",
        resources=[{"type": "aws_autoscaling_group", "id": "prod-web", "why": "has no tags"}],
        allowed="the cluster's tags",
        advice="terradask repair-state etl",
    ),
    errors.InUse("a", clusters=["etl"], given="aws_vpc.vpc", advice="b"),
    errors.ClusterExists("a", cluster="etl"),
    errors.ClusterClosed("a", cluster="etl"),
    errors.ClusterStopped(
        "a", cluster="etl", reason="idle for 20 minutes", at="2026-11-20T14:02:00Z"
    ),
    errors.SchedulerReplaced("a", cluster="etl"),
    errors.WorkersUntold("a", cluster="etl", workers=["i-1"]),
    errors.SchedulerUnreachable("a", cluster="etl", address="tls://10.0.0.1:8786"),
    errors.HostFailed("a", instance_id="i-1", reason="r", log_tail=["x"]),
    errors.SchedulerMissing("a", cluster="etl"),
    errors.WorkersMissing("a", wanted=4, arrived=1),
    errors.JobNotFound("etl", None, ["20261124T153000Z-1f3a9c4"]),
    errors.JobLost("etl", "20261124T153000Z-1f3a9c4", 3),
    errors.JobTimeout("etl", "20261124T153000Z-1f3a9c4", 60.0),
    errors.ReportNotFound("etl", None, ["20261120T051500Z-1f3a9c"], "its hosts are older"),
    errors.NoCapacity("a", wanted=4, problems={"workers": ["VcpuLimitExceeded: b"]}),
    errors.VersionMismatch("a", client={"dask": "1"}, hosts={"dask": "2"}),
]


def _classes() -> list[type[TerradaskError]]:
    return [getattr(errors, name) for name in dir(errors) if name != "TerradaskError"]


def test_every_class_has_an_example():
    assert {type(e).__name__ for e in EXAMPLES} == {c.__name__ for c in _classes()}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_error_survives_pickling_whole(error: TerradaskError):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
    assert again.as_dict() == error.as_dict()


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_exit_code_is_one_that_the_tree_names(error: TerradaskError):
    assert error.exit_code in {1, 2, 3, 4, 5, 6, 7, 8, 125, 130}


def test_classes_of_this_package_name_no_private_module():
    own = {c.__name__: c.__module__ for c in _classes() if c.__module__.startswith(errors.__name__)}
    assert len(own) > 30
    assert set(own.values()) == {"terradask.errors"}


def test_page_draws_every_class():
    page = (Path(__file__).parents[2] / "docs/python.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^ *- `(\w+)` \(\d+\): .", page, re.MULTILINE)
    assert sorted(drawn) == dir(errors)


def test_callers_can_catch_by_builtin_class():
    with pytest.raises(TimeoutError):
        raise errors.WorkersMissing("a")
    with pytest.raises(LookupError):
        raise errors.ClusterNotFound("a")
    with pytest.raises(ValueError, match="gpu"):
        raise errors.InvalidInput("gpu is not supported by terradask")


@pytest.mark.parametrize(
    ("action", "advice"),
    [
        ("autoscaling:CreateAutoScalingGroup", "try a smaller max_workers"),
        ("autoscaling:PutWarmPool", "leave out standby"),
        ("autoscaling:PutLifecycleHook", "leave out standby"),
        ("s3:GetObject", "ask an administrator"),
    ],
)
def test_a_refusal_names_the_limit_that_may_be_its_reason(action: str, advice: str):
    error = errors.AccessDenied(action, "no")
    assert advice in str(error.advice)
    assert ("--max-workers" in str(error.advice)) is action.startswith("autoscaling")


def test_texts_carry_the_fields():
    assert "1 of 4 workers" in str(errors.WorkersMissing("late", wanted=4, arrived=1))
    mismatch = str(
        errors.VersionMismatch("m", client={"dask": "1", "a": "1"}, hosts={"dask": "2", "a": "1"})
    )
    assert "dask: here 1, cluster 2" in mismatch
    assert "a: here" not in mismatch
    assert str(errors.HostFailed("h", log_tail=["line"])).endswith("| line")
    assert "process 7 (terraform plan)" in str(
        errors.FolderBusy("/x", pid=7, command="terraform plan", waited_seconds=3)
    )
