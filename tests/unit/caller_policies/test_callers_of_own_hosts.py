"""What callers may do where clusters have roles, firewalls and templates of their own."""

from __future__ import annotations

import pytest

from terradask_modules.caller_policies import (
    CALLERS,
    Caller,
    CallerScope,
    caller_statements,
)
from terradask_modules.names import ROLES, clusters_role_path, role_name

from .caller_scopes import (
    ACCOUNT,
    BOUNDARY,
    EC2,
    EVERY_CALLER,
    ISOLATED,
    ISOLATED_FULL,
    ISOLATED_GIVEN,
    OF_CLUSTER,
    OF_WORKSPACE,
    OWN_BOUNDARY,
    OWN_PATH,
    OWN_TEMPLATES,
    allowed,
    carries,
    gets,
    may,
    reference,
    scope,
)

#: Actions that isolation adds to those of callers who change clusters, each with what calls it.
ADDED: dict[str, str] = {
    "ec2:AuthorizeSecurityGroupEgress": "a rule of a cluster's firewall",
    "ec2:AuthorizeSecurityGroupIngress": "the same",
    "ec2:CreateLaunchTemplate": "a cluster's template",
    "ec2:CreateLaunchTemplateVersion": "its change",
    "ec2:CreateSecurityGroup": "a cluster's firewall",
    "ec2:DeleteLaunchTemplate": "its end",
    "ec2:DeleteSecurityGroup": "the same",
    "ec2:DeleteTags": "fewer workspace.tags",
    "ec2:DescribeLaunchTemplates": "plan",
    "ec2:DescribeNetworkInterfaces": "before a security group is removed",
    "ec2:DescribeSecurityGroupRules": "plan",
    "ec2:DescribeSecurityGroups": "plan",
    "ec2:ModifyLaunchTemplate": "the newest version becomes the default",
    "ec2:ModifySecurityGroupRules": "a rule's change",
    "ec2:RevokeSecurityGroupEgress": "a rule's end; the one that AWS makes with each group",
    "ec2:RevokeSecurityGroupIngress": "a rule's end",
    "iam:AddRoleToInstanceProfile": "a cluster's instance profile",
    "iam:CreateInstanceProfile": "the same",
    "iam:CreateRole": "a cluster's role",
    "iam:DeleteInstanceProfile": "its end",
    "iam:DeleteRole": "its end",
    "iam:DeleteRolePolicy": "its end",
    "iam:DetachRolePolicy": "its end, where others have attached policies to it",
    "iam:GetInstanceProfile": "plan",
    "iam:GetRole": "plan",
    "iam:GetRolePolicy": "plan",
    "iam:ListAttachedRolePolicies": "plan",
    "iam:ListInstanceProfilesForRole": "before a role is removed",
    "iam:ListRolePolicies": "plan",
    "iam:PutRolePermissionsBoundary": "another boundary is given",
    "iam:PutRolePolicy": "a cluster's role",
    "iam:RemoveRoleFromInstanceProfile": "an instance profile's end",
    "iam:TagInstanceProfile": "tags",
    "iam:TagRole": "tags",
    "iam:UntagInstanceProfile": "fewer workspace.tags",
    "iam:UntagRole": "the same",
}
#: The same of the caller who makes the network: what Terraform calls for a managed policy.
ADDED_TO_SETUP = {
    "iam:CreatePolicy",
    "iam:CreatePolicyVersion",
    "iam:DeletePolicy",
    "iam:DeletePolicyVersion",
    "iam:GetPolicy",
    "iam:GetPolicyVersion",
    "iam:ListPolicyVersions",
    "iam:ListRoles",
    "iam:TagPolicy",
    "iam:UntagPolicy",
}
READ = {"Read", "List"}


@EVERY_CALLER
def test_isolation_adds_exactly_what_is_called_for(caller: Caller) -> None:
    plain, isolated = (allowed(caller_statements(given, caller)) for given in (scope(), ISOLATED))
    assert plain <= isolated
    added = isolated - plain
    if caller == "setup":
        assert added == ADDED_TO_SETUP
    elif caller == "ci":
        assert {reference(action)[0][3] for action in added} <= READ
    else:
        sees_more = (
            {"iam:GetPolicy", "iam:GetPolicyVersion", "iam:ListRoles"}
            if caller == "ongoing"
            else set()
        )
        assert added == (ADDED.keys() | sees_more) - plain


@EVERY_CALLER
def test_without_what_makes_clusters_nothing_is_added(caller: Caller) -> None:
    """Who leaves out the statements that end so can run clusters, and make neither roles nor
    firewalls.
    """
    if caller == "setup":
        return
    left = [
        statement
        for statement in caller_statements(ISOLATED, caller)
        if not statement["Sid"].endswith("OfClusters")
    ]
    shared = {statement["Sid"]: statement for statement in caller_statements(scope(), caller)}
    differing = {
        statement["Sid"] for statement in left if statement != shared.get(statement["Sid"])
    }
    assert differing <= {"PassRolesOfHosts", "SeeBoundary"}


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_roles_of_clusters_are_made_within_the_boundary_alone(caller: Caller) -> None:
    role = f"{OWN_PATH}terradask-team.etl-worker"
    for action in (
        "iam:CreateRole",
        "iam:PutRolePolicy",
        "iam:DeleteRolePolicy",
        "iam:DetachRolePolicy",
        "iam:PutRolePermissionsBoundary",
    ):
        tags = gets(OF_CLUSTER)
        assert may(caller, action, role, **tags, **{"iam:PermissionsBoundary": OWN_BOUNDARY})
        assert not may(caller, action, role, **tags)
        assert not may(caller, action, role, **tags, **{"iam:PermissionsBoundary": BOUNDARY})
    for action in (
        "iam:DeleteRolePermissionsBoundary",
        "iam:AttachRolePolicy",
        "iam:UpdateAssumeRolePolicy",
    ):
        assert not may(caller, action, role, **{"iam:PermissionsBoundary": OWN_BOUNDARY})
    # The network's roles, and those of a workspace whose name begins alike.
    for other in (
        f"arn:aws:iam::{ACCOUNT}:role/terradask-team-worker",
        f"arn:aws:iam::{ACCOUNT}:role/terradask/team-b/terradask-team-b.x-worker",
    ):
        assert not may(
            caller, "iam:PutRolePolicy", other, **{"iam:PermissionsBoundary": OWN_BOUNDARY}
        )
        assert not may(caller, "iam:DeleteRole", other)


def test_a_given_boundary_is_the_one_that_is_demanded() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/platform/terradask/team/acme-terradask-team.etl-worker"
    for boundary in (BOUNDARY, OWN_BOUNDARY):
        given = {**gets(OF_CLUSTER), "iam:PermissionsBoundary": boundary}
        assert may("user", "iam:CreateRole", role, ISOLATED_FULL, **given) == (boundary == BOUNDARY)
    # It is the company's: nobody here makes or changes it.
    assert not any(
        "iam:CreatePolicy" in allowed(caller_statements(ISOLATED_FULL, caller))
        for caller in CALLERS
    )


def test_only_setup_changes_the_boundary() -> None:
    for caller in CALLERS:
        assert may(caller, "iam:CreatePolicyVersion", OWN_BOUNDARY) == (caller == "setup")
        assert may(caller, "iam:GetPolicyVersion", OWN_BOUNDARY) == (caller != "user")
    assert not may("setup", "iam:CreatePolicyVersion", f"arn:aws:iam::{ACCOUNT}:policy/other")


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_only_roles_of_clusters_reach_instances(caller: Caller) -> None:
    to_instances = {"iam:PassedToService": "ec2.amazonaws.com"}
    assert may(caller, "iam:PassRole", f"{OWN_PATH}terradask-team.etl-worker", **to_instances)
    assert not may(
        caller,
        "iam:PassRole",
        f"{OWN_PATH}terradask-team.etl-worker",
        **{"iam:PassedToService": "lambda.amazonaws.com"},
    )
    for other in ("terradask-team-worker", "admin", "terradask/team-b/terradask-team-b.etl-worker"):
        assert not may(
            caller, "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/{other}", **to_instances
        )


@pytest.mark.parametrize("caller", ["ongoing", "user"])
@pytest.mark.parametrize(
    ("kind", "make", "change"),
    [
        (
            "launch-template",
            "CreateLaunchTemplate",
            ("CreateLaunchTemplateVersion", "ModifyLaunchTemplate", "DeleteLaunchTemplate"),
        ),
        (
            "security-group",
            "CreateSecurityGroup",
            (
                "AuthorizeSecurityGroupIngress",
                "AuthorizeSecurityGroupEgress",
                "RevokeSecurityGroupEgress",
                "DeleteSecurityGroup",
            ),
        ),
        ("security-group-rule", "AuthorizeSecurityGroupIngress", ("ModifySecurityGroupRules",)),
    ],
)
def test_firewalls_and_templates_belong_to_a_cluster(
    caller: Caller, kind: str, make: str, change: tuple[str, ...]
) -> None:
    new, one = f"{EC2}{kind}/*", f"{EC2}{kind}/x-1"
    others = {"terradask:workspace": "team-b", "terradask:cluster": "etl"}
    at_birth = {"ec2:CreateAction": make}
    assert may(caller, f"ec2:{make}", new, **gets(OF_CLUSTER))
    assert may(caller, "ec2:CreateTags", new, **gets(OF_CLUSTER), **at_birth)
    for wrong in ({}, OF_WORKSPACE, others):
        assert not may(caller, f"ec2:{make}", new, **gets(wrong))
        assert not may(caller, "ec2:CreateTags", new, **gets(wrong), **at_birth)
    for action in change:
        assert may(caller, f"ec2:{action}", one, **carries(OF_CLUSTER))
        # The network's own, and another workspace's.
        assert not may(caller, f"ec2:{action}", one, **carries(OF_WORKSPACE))
        assert not may(caller, f"ec2:{action}", one, **carries(others))


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_tags_that_rights_hang_on_never_change(caller: Caller) -> None:
    group = f"{EC2}security-group/sg-1"
    for action in ("ec2:CreateTags", "ec2:DeleteTags"):
        assert may(caller, action, group, **carries(OF_CLUSTER), **{"aws:TagKeys": "team"})
        for key in OF_CLUSTER:
            assert not may(
                caller, action, group, **carries(OF_CLUSTER), **{"aws:TagKeys": ("team", key)}
            )
        # The network's own would be a cluster's from then on.
        assert not may(
            caller, action, group, **carries(OF_WORKSPACE), **{"aws:TagKeys": "terradask:cluster"}
        )
    # DeleteTags without tags takes every one:
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteTags.html
    assert not may(caller, "ec2:DeleteTags", group, **carries(OF_CLUSTER))


@pytest.mark.parametrize("caller", ["ongoing", "user"])
@pytest.mark.parametrize(
    ("kind", "make", "suffix"),
    [("role", "iam:CreateRole", "Role"), ("instance-profile", "", "InstanceProfile")],
)
def test_roles_are_made_with_the_tags_that_say_whose_they_are(
    caller: Caller, kind: str, make: str, suffix: str
) -> None:
    one = f"{OWN_PATH}terradask-team.etl-worker".replace(":role/", f":{kind}/")
    tag, untag = f"iam:Tag{suffix}", f"iam:Untag{suffix}"
    bounded = {"iam:PermissionsBoundary": OWN_BOUNDARY}
    others = {"terradask:workspace": "team-b", "terradask:cluster": "etl"}
    another = {**OF_CLUSTER, "terradask:cluster": "ml"}
    for tags in (OF_CLUSTER, {}, OF_WORKSPACE, others):
        made = may(caller, f"iam:Create{suffix}", one, **gets(tags), **(bounded if make else {}))
        assert made == (tags == OF_CLUSTER)
        assert may(caller, tag, one, **gets(tags)) == (tags == OF_CLUSTER)
    # AWS may count the tags of a request to make something among those of the resource.
    assert may(caller, tag, one, **gets(OF_CLUSTER), **carries(OF_CLUSTER))
    # A role is a cluster's for good, by either tag.
    for request in (another, others, {"terradask:workspace": "team-b"}):
        assert not may(caller, tag, one, **gets(request), **carries(OF_CLUSTER))
    assert not may(caller, tag, one, **gets(OF_CLUSTER), **carries(others))
    for action in (tag, untag):
        assert may(caller, action, one, **carries(OF_CLUSTER), **{"aws:TagKeys": "team"})
        for key in OF_CLUSTER:
            keys = {"aws:TagKeys": ("team", key)}
            assert not may(caller, action, one, **carries(OF_CLUSTER), **keys)


def test_firewalls_of_clusters_are_made_in_the_workspaces_vpc() -> None:
    assert may("user", "ec2:CreateSecurityGroup", f"{EC2}vpc/vpc-9", **carries(OF_WORKSPACE))
    assert not may("user", "ec2:CreateSecurityGroup", f"{EC2}vpc/vpc-9")
    assert may("user", "ec2:CreateSecurityGroup", f"{EC2}vpc/vpc-1", ISOLATED_GIVEN)
    assert not may("user", "ec2:CreateSecurityGroup", f"{EC2}vpc/vpc-9", ISOLATED_GIVEN)


def test_clusters_launch_by_their_own_templates_into_the_networks_groups() -> None:
    launch = "ec2:RunInstances"
    assert may("user", launch, f"{EC2}launch-template/lt-1", **carries(OF_CLUSTER))
    assert may("user", launch, f"{EC2}security-group/sg-1", **carries(OF_CLUSTER))
    assert may("user", launch, f"{EC2}security-group/sg-2", **carries(OF_WORKSPACE))


@EVERY_CALLER
def test_templates_of_their_own_add_exactly_what_is_called_for(caller: Caller) -> None:
    plain, own, isolated = (
        allowed(caller_statements(given, caller)) for given in (scope(), OWN_TEMPLATES, ISOLATED)
    )
    made = {
        "ec2:CreateLaunchTemplate",
        "ec2:CreateLaunchTemplateVersion",
        "ec2:DeleteLaunchTemplate",
        "ec2:ModifyLaunchTemplate",
    }
    changes = {*made, "ec2:CreateTags", "ec2:DeleteTags", "ec2:DescribeLaunchTemplates"}
    if caller in ("ongoing", "user"):
        assert own - plain == changes - plain
        assert own <= isolated
    elif caller == "setup":
        assert caller_statements(OWN_TEMPLATES, caller) == caller_statements(scope(), caller)
    else:
        assert own == plain | {"ec2:DescribeLaunchTemplates"}
    # Isolated clusters have them anyway.
    assert caller_statements(scope(isolated=True, own_templates=True), caller) == caller_statements(
        ISOLATED, caller
    )


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_templates_of_clusters_are_told_from_the_networks_by_their_tags(caller: Caller) -> None:
    template = f"{EC2}launch-template/lt-1"
    birth = {"ec2:CreateAction": "CreateLaunchTemplate"}
    assert may(caller, "ec2:CreateLaunchTemplate", template, OWN_TEMPLATES, **gets(OF_CLUSTER))
    assert may(caller, "ec2:CreateTags", template, OWN_TEMPLATES, **gets(OF_CLUSTER), **birth)
    assert not may(
        caller, "ec2:CreateLaunchTemplate", template, OWN_TEMPLATES, **gets(OF_WORKSPACE)
    )
    for action in (
        "ec2:CreateLaunchTemplateVersion",
        "ec2:ModifyLaunchTemplate",
        "ec2:DeleteLaunchTemplate",
    ):
        assert may(caller, action, template, OWN_TEMPLATES, **carries(OF_CLUSTER))
        assert not may(caller, action, template, OWN_TEMPLATES, **carries(OF_WORKSPACE))
        assert not may(caller, action, template, scope(), **carries(OF_CLUSTER))
    assert may(caller, "ec2:RunInstances", template, OWN_TEMPLATES, **carries(OF_CLUSTER))
    assert not may(
        caller,
        "ec2:CreateSecurityGroup",
        f"{EC2}security-group/sg-1",
        OWN_TEMPLATES,
        **gets(OF_CLUSTER),
    )


@pytest.mark.parametrize("given", [ISOLATED, ISOLATED_FULL], ids=["plain", "full"])
def test_names_that_clusters_get_are_within_the_patterns(given: CallerScope) -> None:
    """Long ones, too, which are cut."""
    for cluster in ("a", "c" * 32):
        for role in ROLES:
            name = role_name(given.workspace, role, given.role_name_prefix, cluster)
            path = clusters_role_path(given.workspace, given.role_path)
            tags = gets({"terradask:workspace": given.workspace, "terradask:cluster": cluster})
            bound = {"iam:PermissionsBoundary": given.clusters_boundary}
            arn = f"arn:aws:iam::{ACCOUNT}:role{path}{name}"
            assert may("user", "iam:CreateRole", arn, given, **tags, **bound)
            arn = f"arn:aws:iam::{ACCOUNT}:instance-profile{path}{name}"
            assert may("user", "iam:CreateInstanceProfile", arn, given, **tags)
            # While there is none, IAM knows what a name is asked for without its path.
            assert may("ci", "iam:GetRole", f"arn:aws:iam::{ACCOUNT}:role/{name}", given)
