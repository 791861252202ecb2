"""Limits of one caller's own, as IAM evaluates them; keys that a request lacks included."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from terradask._aws.known_types import known_types
from terradask_modules.caller_policies import (
    CallerLimits,
    CallerScope,
    caller_policies,
    caller_statements,
)
from terradask_modules.caller_policies._limits import ACCELERATED
from terradask_modules.errors import InvalidInput
from terradask_modules.iam import MAX_POLICY_CHARACTERS, characters
from terradask_modules.names import role_name

from .caller_scopes import ACCOUNT, EC2, FULL, OF_CLUSTER, OF_WORKSPACE, carries, gets, may, scope

GROUP = (
    f"arn:aws:autoscaling:eu-west-1:{ACCOUNT}:autoScalingGroup:*:autoScalingGroupName/"
    "terradask-team-etl-workers"
)
MAKE, CHANGE = "autoscaling:CreateAutoScalingGroup", "autoscaling:UpdateAutoScalingGroup"
SIZE, MIN = "autoscaling:MaxSize", "autoscaling:MinSize"
TYPES, TEMPLATE = "autoscaling:InstanceTypes", "autoscaling:LaunchTemplateVersionSpecified"


def limited(**limits: Any) -> CallerScope:
    return scope(limits=CallerLimits(**limits))


def make(given: CallerScope, **keys: Any) -> bool:
    return may("user", MAKE, GROUP, given, **gets(OF_CLUSTER), **keys)


def change(given: CallerScope, **keys: Any) -> bool:
    return may("user", CHANGE, GROUP, given, **carries(OF_WORKSPACE), **keys)


def test_no_group_is_made_or_changed_beyond_its_size() -> None:
    given = limited(max_workers=50)
    for named in ({TEMPLATE: "true"}, {TYPES: ("m7i.large",), TEMPLATE: "true"}):
        assert make(given, **{SIZE: "50", MIN: "0"}, **named)
        assert not make(given, **{SIZE: "51", MIN: "0"}, **named)
        # Auto Scaling always gets one; without the key IAM refuses.
        assert not make(given, **named)
    assert change(given, **{SIZE: "50"})
    assert not change(given, **{SIZE: "51"})
    assert not change(given, **{SIZE: "500", MIN: "0"})
    # Another change, such as a stop's of the minimum, has no maximum.
    assert change(given, **{MIN: "0"})
    assert not change(given, **{MIN: "1"})
    assert make(scope(), **{SIZE: "500"}, **{TEMPLATE: "true"})
    assert change(scope(), **{SIZE: "500"})


@pytest.mark.parametrize("given", [scope(), limited(max_workers=50)], ids=["plain", "limited"])
def test_a_group_that_no_list_of_clusters_and_no_limit_would_see_is_not_made(
    given: CallerScope,
) -> None:
    keys: dict[str, Any] = {SIZE: "9", MIN: "0", TEMPLATE: "true"}
    workspace, cluster = OF_CLUSTER
    assert may("user", MAKE, GROUP, given, **gets(OF_CLUSTER), **keys)
    for tags in (
        OF_WORKSPACE,
        {cluster: "etl"},
        # IAM finds a tag in any case; list, limits and sweep look for the one that was documented.
        {workspace.title(): "team", cluster: "etl"},
        {workspace: "team", cluster.upper(): "etl"},
    ):
        assert not may("user", MAKE, GROUP, given, **gets(tags), **keys), tags


def test_a_tag_of_another_case_which_could_decide_instead_is_not_added() -> None:
    tag, own = "autoscaling:CreateOrUpdateTags", carries(OF_CLUSTER)
    assert may("user", tag, GROUP, scope(), **gets({"team": "blue"}), **own)
    for key in OF_CLUSTER:
        for written in (key, key.title(), key.upper()):
            assert not may("user", tag, GROUP, scope(), **gets({written: "x"}), **own)


def test_a_pool_which_has_no_bound_is_not_for_callers_with_a_limit() -> None:
    keys = carries(OF_WORKSPACE)
    for action in ("PutWarmPool", "DeleteWarmPool", "PutLifecycleHook"):
        assert may("user", f"autoscaling:{action}", GROUP, scope(), **keys)
        assert not may("user", f"autoscaling:{action}", GROUP, limited(max_workers=50), **keys)


def test_a_schedule_sets_no_size_either() -> None:
    for given in (scope(), limited(max_workers=50)):
        keys = carries(OF_WORKSPACE)
        action = "autoscaling:PutScheduledUpdateGroupAction"
        assert may("user", action, GROUP, given, **keys)
        assert not may("user", action, GROUP, given, **keys, **{SIZE: "10"})
        batch = "autoscaling:BatchPutScheduledUpdateGroupAction"
        assert not may("user", batch, GROUP, given, **keys)


@pytest.mark.parametrize(
    ("limits", "allowed", "refused"),
    [
        (
            {"types": ("m6i.*", "c7i.large")},
            ("m6i.large", "m6i.32xlarge", "c7i.large"),
            ("m6id.large", "c7i.xlarge", "g5.xlarge", "p5.48xlarge"),
        ),
        (
            {"gpus": False},
            ("m6i.large", "c8g.large", "r7i.large", "t3.micro"),
            ("g5.xlarge", "gr6.4xlarge", "p5.48xlarge", "trn1.2xlarge", "inf2.xlarge", "dl1.24xl"),
        ),
        (
            {"types": ("*.large", "*.xlarge"), "gpus": False},
            ("m6i.large", "c7i.xlarge"),
            ("m6i.2xlarge", "g5.xlarge"),
        ),
    ],
)
def test_only_these_types_are_in_groups_and_launches(
    limits: dict[str, Any], allowed: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    given, template = limited(**limits), {TEMPLATE: "true"}
    assert make(given, **{TYPES: allowed}, **template)
    assert change(given, **{TYPES: allowed}, **template)
    # Overrides alone, of the template that the group has.
    assert change(given, **{TYPES: allowed})
    for one in refused:
        for types in ((one,), (*allowed, one), (one, *allowed)):
            assert not make(given, **{TYPES: types}, **template)
            assert not change(given, **{TYPES: types}, **template)
            assert not change(given, **{TYPES: types})
    # A template names its type where no condition sees it: so do groups by attributes.
    assert not make(given, **template)
    assert not change(given, **template)
    # A change of numbers names neither.
    assert change(given, **{SIZE: "500"})
    assert not make(given, **{SIZE: "500"})
    launch = {
        **gets(OF_WORKSPACE),
        "ec2:LaunchTemplate": f"{EC2}launch-template/lt-1",
    }
    for one in allowed:
        named = {"ec2:InstanceType": one}
        assert may("user", "ec2:RunInstances", f"{EC2}instance/*", given, **launch, **named)
    for one in refused:
        named = {"ec2:InstanceType": one}
        assert not may("user", "ec2:RunInstances", f"{EC2}instance/*", given, **launch, **named)
        assert may("user", "ec2:RunInstances", f"{EC2}instance/*", scope(), **launch, **named)
    assert not may("user", "ec2:RunInstances", f"{EC2}instance/*", given, **launch)
    for part in ("volume", "network-interface"):
        assert may("user", "ec2:RunInstances", f"{EC2}{part}/*", given, **launch)


def test_size_and_types_count_together() -> None:
    given = limited(max_workers=50, types=("m6i.*",))
    both = {TYPES: ("m6i.large",), TEMPLATE: "true"}
    assert make(given, **both, **{SIZE: "50"})
    assert not make(given, **both, **{SIZE: "51"})
    assert change(given, **both, **{SIZE: "50"})
    assert not change(given, **both, **{SIZE: "51"})
    assert not change(given, **{SIZE: "51"})


def test_accelerated_types_are_known_by_their_names() -> None:
    """Of all types that botocore knows, the patterns match these families alone."""
    found = {one for one in known_types() if one.startswith(ACCELERATED)}
    families = {"".join(itertools.takewhile(str.isalpha, one)) for one in found}
    assert families == {"cg", "dl", "f", "g", "gr", "inf", "p", "trn", "vt"}


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"max_workers": 0}, "fewer than one"),
        ({"types": ("m6i",)}, "no instance type has such a name"),
        ({"types": ("M6I.*",)}, "no instance type has such a name"),
        ({"types": ("m6i.large,c7i.large",)}, "no instance type has such a name"),
        ({"types": ("${aws:username}.*",)}, "no instance type has such a name"),
        ({"types": ("g5.*",), "gpus": False}, "have GPUs or other accelerators"),
        ({"types": ("m6i.*", "p*"), "gpus": False}, "have GPUs or other accelerators"),
    ],
)
def test_limits_that_leave_nothing_are_refused(limits: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        CallerLimits(**limits)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("m6i", "write m6i.* for all sizes"),
        ("M6I", "write m6i.* for all sizes"),
        ("M6I.large", "write m6i.large"),
        ("C7*", "write c7*"),
        ("m6i large", None),
    ],
)
def test_a_name_that_is_no_types_is_told_the_one_that_is(given: str, advice: str | None) -> None:
    with pytest.raises(InvalidInput, match="in small letters") as caught:
        CallerLimits(types=(given,))
    assert caught.value.advice == advice


def test_they_bind_who_has_them_alone_and_fit_into_policies() -> None:
    whole = CallerLimits(max_workers=50, types=("m6i.*",), gpus=False)
    given = scope(limits=whole)
    names = [one["Sid"] for one in caller_statements(given, "user")]
    assert len(names) == len(set(names))
    assert "ChangeTypesOfGroups" in names
    assert "MakeGroups" not in names
    assert caller_statements(scope(limits=CallerLimits()), "user") == caller_statements(
        scope(), "user"
    )
    many = tuple(f"m{number}i.large" for number in range(200))
    for limits in (whole, CallerLimits(types=many, gpus=False)):
        printed = caller_policies(scope(limits=limits), "user", name="team-a")
        assert set(printed) == {f"terradask-team-user-team-a-{n + 1}" for n in range(len(printed))}
        assert all(characters(one) <= MAX_POLICY_CHARACTERS for one in printed.values())
    too_many = CallerLimits(types=tuple(f"m{number}i.large" for number in range(500)))
    with pytest.raises(InvalidInput, match="longer than a policy may be"):
        caller_policies(scope(limits=too_many), "user")
    with pytest.raises(InvalidInput, match="can't have this name"):
        caller_policies(FULL, "user", name="Team A")


# ---- clusters ------------------------------------------------------------------------------------


def own(*names: str, **fields: Any) -> CallerScope:
    return scope(isolated=True, limits=CallerLimits(clusters=names), **fields)


TEAM = own("team-a-*", "etl")
OURS, THEIRS = ("team-a-x", "etl"), ("team-a", "team-ab", "team-b-x", "etl-2", "et", "ml")
BUCKET = f"arn:aws:s3:::terradask-team-{ACCOUNT}-eu-west-1"
RUN = "20261124T080000Z-1f3a9c"
SECRETS = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:terradask/team/"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/terradask/team/terradask-team."
PROFILE = ROLE.replace("role/", "instance-profile/")
BOUND = f"arn:aws:iam::{ACCOUNT}:policy/terradask/team/terradask-team-hosts"


def acts(cluster: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return what changes, starts or reads keys of a cluster: action, resource, keys."""
    tags = {"terradask:workspace": "team", "terradask:cluster": cluster}
    group = GROUP.replace("etl", cluster).replace(":*:", ":0f-1:")
    asked, has = gets(tags), carries(tags)
    kept = {**has, "aws:TagKeys": ("terradask:run:id",)}
    bound = {"iam:PermissionsBoundary": BOUND}
    born = {"ec2:LaunchTemplate": f"{EC2}launch-template/lt-1"}
    to_ec2 = {"iam:PassedToService": "ec2.amazonaws.com"}
    object_, secret = {"aws:ResourceAccount": ACCOUNT}, f"{SECRETS}{cluster}-a1B2c3"
    return [
        (MAKE, group, {**asked, TEMPLATE: "true"}),
        *(
            (f"autoscaling:{name}", group, has)
            for name in (
                "UpdateAutoScalingGroup",
                "DeleteAutoScalingGroup",
                "SetDesiredCapacity",
                "SuspendProcesses",
                "PutScheduledUpdateGroupAction",
            )
        ),
        ("autoscaling:CreateOrUpdateTags", group, kept),
        ("ec2:TerminateInstances", f"{EC2}instance/i-1", has),
        ("ec2:RunInstances", f"{EC2}launch-template/lt-1", has),
        ("ec2:RunInstances", f"{EC2}instance/*", {**asked, **born}),
        ("ec2:CreateLaunchTemplate", f"{EC2}launch-template/*", asked),
        ("ec2:CreateLaunchTemplateVersion", f"{EC2}launch-template/lt-1", has),
        ("ec2:DeleteSecurityGroup", f"{EC2}security-group/sg-1", has),
        ("ec2:CreatePlacementGroup", f"{EC2}placement-group/*", asked),
        ("secretsmanager:GetSecretValue", secret, {}),
        ("secretsmanager:PutSecretValue", secret, {}),
        ("secretsmanager:CreateSecret", secret, {}),
        ("secretsmanager:PutResourcePolicy", secret, {}),
        ("secretsmanager:TagResource", secret, asked),
        ("s3:PutObject", f"{BUCKET}/clusters/{cluster}/run.json", object_),
        ("s3:DeleteObject", f"{BUCKET}/clusters/{cluster}/terraform.tfstate", object_),
        ("s3:PutObject", f"{BUCKET}/applied/clusters/{cluster}.json", object_),
        ("s3:PutObject", f"{BUCKET}/reports/{cluster}/events.json", object_),
        ("s3:PutObject", f"{BUCKET}/accounts/{RUN}/{cluster}.json", object_),
        ("iam:PassRole", f"{ROLE}{cluster}-worker", to_ec2),
        ("iam:CreateRole", f"{ROLE}{cluster}-worker", {**asked, **bound}),
        ("iam:PutRolePolicy", f"{ROLE}{cluster}-scheduler", bound),
        ("iam:DeleteRole", f"{ROLE}{cluster}-scheduler", {}),
        ("iam:AddRoleToInstanceProfile", f"{PROFILE}{cluster}-worker", {}),
        ("iam:CreateInstanceProfile", f"{PROFILE}{cluster}-worker", asked),
    ]


def test_only_ones_own_clusters_are_made_changed_and_used() -> None:
    anybody, wrong = scope(isolated=True), []
    for cluster in (*OURS, *THEIRS):
        for action, resource, keys in acts(cluster):
            assert may("user", action, resource, anybody, **keys), (action, resource)
            if may("user", action, resource, TEAM, **keys) is not (cluster in OURS):
                wrong.append((cluster, action, resource))
    assert wrong == []
    # Others are still listed.
    for action in ("autoscaling:DescribeAutoScalingGroups", "ec2:DescribeInstances"):
        assert may("user", action, "*", TEAM, **{"aws:RequestedRegion": "eu-west-1"})
    object_ = {"aws:ResourceAccount": ACCOUNT}
    for seen in ("clusters/ml/cluster.json", f"accounts/{RUN}/ml.json", "accounts/starting.json"):
        assert may("user", "s3:GetObject", f"{BUCKET}/{seen}", TEAM, **object_)
    # Starts of all clusters take turns by one object.
    for given in (TEAM, anybody):
        assert may("user", "s3:PutObject", f"{BUCKET}/accounts/starting.json", given, **object_)
        assert not may("user", "s3:PutObject", f"{BUCKET}/accounts/other", given, **object_)


def test_sessions_lead_to_ones_own_schedulers() -> None:
    given = own("team-a-*", session_manager=True)
    for cluster, allowed in (("team-a-x", True), ("ml", False)):
        tags = {"workspace": "team", "role": "scheduler", "cluster": cluster}
        keys = {f"ssm:resourceTag/terradask:{key}": value for key, value in tags.items()}
        assert may("user", "ssm:StartSession", f"{EC2}instance/i-1", given, **keys) is allowed


def test_a_new_role_without_the_boundary_is_refused() -> None:
    tags = gets({"terradask:workspace": "team", "terradask:cluster": "etl"})
    for other in ({}, {"iam:PermissionsBoundary": "arn:aws:iam::aws:policy/ReadOnlyAccess"}):
        assert not may("user", "iam:CreateRole", f"{ROLE}etl-worker", TEAM, **tags, **other)


@pytest.mark.parametrize(
    ("fields", "names", "problem"),
    [
        ({}, ("team-a-*",), "share their roles"),
        (
            {"isolated": True, "permissions_boundary": BOUND},
            ("team-a-*",),
            "more than their own cluster",
        ),
        ({"isolated": True}, ("a-very-long-beginning-*",), "can't be distinguished"),
        ({"isolated": True}, ("*",), "no cluster has such a name"),
        ({"isolated": True}, ("team-*-x",), "no cluster has such a name"),
        ({"isolated": True}, ("Team",), "no cluster has such a name"),
    ],
)
def test_clusters_that_can_not_be_kept_apart_are_refused(
    fields: dict[str, Any], names: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        scope(limits=CallerLimits(clusters=names), **fields)


def test_whole_names_may_be_long() -> None:
    name = "a-very-long-name-of-a-cluster"
    given, (cut,) = own(name), [role_name("team", "worker", "", name)]
    assert "worker" not in cut
    role = f"arn:aws:iam::{ACCOUNT}:role/terradask/team/{cut}"
    assert may("user", "iam:PassRole", role, given, **{"iam:PassedToService": "ec2.amazonaws.com"})
    many = own("team-a-*", *(f"etl-{number}" for number in range(10)))
    printed = caller_policies(many, "user").values()
    assert all(characters(one) <= MAX_POLICY_CHARACTERS for one in printed)
