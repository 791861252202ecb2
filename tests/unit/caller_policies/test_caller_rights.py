"""What the policies of callers allow, as IAM evaluates them."""

from __future__ import annotations

import pytest

from terradask_modules.caller_policies import (
    Caller,
    CallerScope,
    caller_policies,
    caller_statements,
)
from terradask_simulator.iam import Policies, Policy, Request, evaluate

from .caller_scopes import (
    ACCOUNT,
    EC2,
    EVERY_CALLER,
    FULL,
    ISOLATED,
    OF_CLUSTER,
    OF_WORKSPACE,
    allowed,
    carries,
    gets,
    may,
    scope,
)

AUTOSCALING = (
    f"arn:aws:autoscaling:eu-west-1:{ACCOUNT}:autoScalingGroup:0f-1:autoScalingGroupName/terradask-"
)
LONGER = {"terradask:workspace": "team-b"}
#: What a call carries that names a launch template, as such or with types of instances.
OF_A_TEMPLATE = (
    {"autoscaling:LaunchTemplateVersionSpecified": "false"},
    {"autoscaling:InstanceTypes": ("m7i.large",)},
)


@pytest.mark.parametrize("given", [scope(), ISOLATED], ids=["shared", "isolated"])
@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_groups_and_machines_are_made_with_the_tag_and_changed_by_it(
    caller: Caller, given: CallerScope
) -> None:
    """Names of the workspace ``team-b`` begin like those of ``team``: the tag alone tells, from
    birth, and no right changes it.
    """
    own, longer = f"{AUTOSCALING}team-etl-workers", f"{AUTOSCALING}team-b-etl-workers"
    make = "autoscaling:CreateAutoScalingGroup"
    for template in OF_A_TEMPLATE:
        assert may(caller, make, own, given, **gets(OF_CLUSTER), **template)
        assert not may(caller, make, own, given, **template)
        assert not may(caller, make, own, given, **gets({**OF_CLUSTER, **LONGER}), **template)
    # Of an instance, any user's, or of a launch configuration.
    assert not may(caller, make, own, given, **gets(OF_CLUSTER))
    configuration = {"autoscaling:LaunchConfigurationName": "anybodys"}
    assert not may(caller, make, own, given, **gets(OF_CLUSTER), **configuration)
    for action in (
        "SetDesiredCapacity",
        "DeleteAutoScalingGroup",
        "UpdateAutoScalingGroup",
    ):
        assert may(caller, f"autoscaling:{action}", own, given, **carries(OF_WORKSPACE))
        assert not may(caller, f"autoscaling:{action}", own, given)
        assert not may(caller, f"autoscaling:{action}", longer, given, **carries(LONGER))
    for action in ("CreateOrUpdateTags", "DeleteTags"):
        tagging = f"autoscaling:{action}"
        assert may(
            caller,
            tagging,
            own,
            given,
            **carries(OF_WORKSPACE),
            **{"aws:TagKeys": ("terradask:run:id",)},
        )
        assert not may(
            caller,
            tagging,
            own,
            given,
            **carries(OF_WORKSPACE),
            **{"aws:TagKeys": ("team", "terradask:workspace")},
        )
        assert not may(caller, tagging, own, given, **carries(OF_WORKSPACE))
        assert not may(
            caller, tagging, longer, given, **carries(LONGER), **{"aws:TagKeys": ("team",)}
        )
        assert not may(caller, tagging, longer, given, **{"aws:TagKeys": ("terradask:workspace",)})
    for kind in ("instance", "volume", "network-interface"):
        one = f"{EC2}{kind}/x-1"
        delete = {
            "instance": "TerminateInstances",
            "volume": "DeleteVolume",
            "network-interface": "DeleteNetworkInterface",
        }[kind]
        assert may(caller, f"ec2:{delete}", one, given, **carries(OF_WORKSPACE))
        assert not may(caller, f"ec2:{delete}", one, given)
        assert not may(caller, f"ec2:{delete}", one, given, **carries(LONGER))
        # Tagged at birth alone: what exists can't be claimed, and then removed.
        assert not may(caller, "ec2:CreateTags", one, given, **gets(OF_WORKSPACE))
        assert may(
            caller,
            "ec2:CreateTags",
            one,
            given,
            **gets(OF_WORKSPACE),
            **{"ec2:CreateAction": "RunInstances"},
        )
        assert not may(
            caller,
            "ec2:CreateTags",
            one,
            given,
            **gets(LONGER),
            **{"ec2:CreateAction": "RunInstances"},
        )


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_a_group_and_a_secret_stay_the_clusters_that_they_were_made_for(caller: Caller) -> None:
    """Others could not stop it any more, and a sweep would take its groups for orphans."""
    group = f"{AUTOSCALING}team-etl-workers"
    own = carries(OF_CLUSTER)
    for tag in ("terradask:cluster", "terradask:role", "terradask:group", "terradask:workspace"):
        named = {"aws:TagKeys": ("team", tag)}
        for action in ("CreateOrUpdateTags", "DeleteTags"):
            assert not may(caller, f"autoscaling:{action}", group, scope(), **own, **named)
    secret = f"{SECRETS}etl-AbCdEf"
    tag, untag = (f"secretsmanager:{verb}Resource" for verb in ("Tag", "Untag"))
    # As it is made: the request's tags may count as its own.
    assert may(caller, tag, secret, scope(), **gets(OF_CLUSTER))
    assert may(caller, tag, secret, scope(), **gets(OF_CLUSTER), **own)
    others = {**OF_WORKSPACE, "terradask:cluster": "ml"}
    assert not may(caller, tag, secret, scope(), **gets(others), **own)
    assert not may(caller, tag, secret, scope(), **gets({"terradask:cluster": "ml"}), **own)
    assert not may(caller, untag, secret, scope(), **own, **{"aws:TagKeys": "terradask:cluster"})
    for action in (tag, untag):
        assert may(caller, action, secret, scope(), **own, **{"aws:TagKeys": ("team",)})


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_no_group_gets_a_minimum_that_keeps_it_from_zero(caller: Caller) -> None:
    group = f"{AUTOSCALING}team-etl-workers"
    made, own = {**gets(OF_CLUSTER), **OF_A_TEMPLATE[0]}, carries(OF_WORKSPACE)
    for name, facts in (
        ("CreateAutoScalingGroup", made),
        ("UpdateAutoScalingGroup", own),
        ("PutScheduledUpdateGroupAction", own),
    ):
        action = f"autoscaling:{name}"
        assert may(caller, action, group, scope(), **facts)
        assert may(caller, action, group, scope(), **facts, **{"autoscaling:MinSize": "0"})
        assert not may(caller, action, group, scope(), **facts, **{"autoscaling:MinSize": "1"})
    later = {**own, "autoscaling:MaxSize": "9"}
    assert not may(caller, "autoscaling:PutScheduledUpdateGroupAction", group, scope(), **later)


@EVERY_CALLER
def test_nobody_reaches_a_workspace_whose_name_begins_alike(caller: Caller) -> None:
    bucket = f"arn:aws:s3:::terradask-team-b-{ACCOUNT}-eu-west-1"
    secret = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:terradask/team-b/etl-AbCdEf"
    for action in ("GetSecretValue", "PutSecretValue", "DeleteSecret", "DescribeSecret"):
        assert not may(caller, f"secretsmanager:{action}", secret, scope())
    for action in ("GetObject", "PutObject", "DeleteObject", "DeleteObjectVersion"):
        assert not may(caller, f"s3:{action}", f"{bucket}/clusters/etl/run.json", scope())
    for action in ("ListBucket", "PutBucketPolicy", "DeleteBucket"):
        assert not may(caller, f"s3:{action}", bucket, scope())
    for role in (
        f"arn:aws:iam::{ACCOUNT}:role/terradask-team-b-worker",
        f"arn:aws:iam::{ACCOUNT}:role/admin",
    ):
        for action in (
            "PassRole",
            "PutRolePolicy",
            "DeleteRole",
            "UpdateAssumeRolePolicy",
            "AttachRolePolicy",
        ):
            assert not may(
                caller,
                f"iam:{action}",
                role,
                scope(),
                **{"iam:PassedToService": "ec2.amazonaws.com"},
            )


SECRETS = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:terradask/team/"


@EVERY_CALLER
@pytest.mark.parametrize("given", [scope(), FULL, ISOLATED], ids=["plain", "full", "isolated"])
def test_what_a_secret_allows_opens_it_to_nobody_but_users(
    caller: Caller, given: CallerScope
) -> None:
    """A policy on a secret can name a caller, who may have put it there."""
    me = f"arn:aws:iam::{ACCOUNT}:role/{caller}"
    opened = {"Effect": "Allow", "Principal": {"AWS": me}, "Action": "*", "Resource": "*"}
    own = {"Version": "2012-10-17", "Statement": caller_statements(given, caller)}
    held = Policies((Policy.parse(own),), resource=Policy.parse({"Statement": opened}))
    context = {"aws:PrincipalArn": (me,), "aws:PrincipalAccount": (ACCOUNT,)}
    read = Request("secretsmanager:GetSecretValue", f"{SECRETS}etl-AbCdEf", context, me)
    # `setup` and `ci` can put no such policy.
    assert evaluate(read, held).allowed is (caller != "ongoing")
    put = "secretsmanager:PutResourcePolicy"
    if caller in ("setup", "ci"):
        assert not may(caller, put, f"{SECRETS}etl-AbCdEf", given)


@pytest.mark.parametrize(
    ("names", "putting"),
    [
        ((), set()),
        (("etl",), {"etl"}),
        (("*",), {"etl", "etl-2", "ml"}),
        (tuple(f"c{n}" for n in range(40)), {"etl", "etl-2", "ml"}),
    ],
)
def test_the_pipeline_puts_policies_on_secrets_of_declared_private_clusters_alone(
    names: tuple[str, ...], putting: set[str]
) -> None:
    given, action = scope(private_clusters=names), "secretsmanager:PutResourcePolicy"
    clusters = ("etl", "etl-2", "ml")
    for caller, expected in (("ongoing", putting), ("user", set(clusters))):
        assert {
            name for name in clusters if may(caller, action, f"{SECRETS}{name}-AbCdEf", given)
        } == expected


@EVERY_CALLER
def test_sessions_are_for_users_and_lead_to_schedulers_ports_alone(caller: Caller) -> None:
    assert not [
        action
        for action in allowed(caller_statements(scope(), caller))
        if action.startswith("ssm:StartSession")
    ]
    started = [
        s
        for s in caller_statements(scope(session_manager=True), caller)
        if s["Action"] == "ssm:StartSession"
    ]
    if caller != "user":
        assert started == []
        return
    named = {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
    hosts, document = started
    assert hosts["Resource"] == [f"arn:aws:ec2:eu-west-1:{ACCOUNT}:instance/*"]
    assert hosts["Condition"] == {
        "StringEquals": {
            "ssm:resourceTag/terradask:workspace": "team",
            "ssm:resourceTag/terradask:role": "scheduler",
        },
        **named,
    }
    assert document["Resource"] == "arn:aws:ssm:eu-west-1::document/AWS-StartPortForwardingSession"
    assert document["Condition"] == named


@pytest.mark.parametrize(
    ("resource", "tags", "allowed_so"),
    [
        (
            "ec2:eu-west-1:123456789012:instance/i-1",
            {"workspace": "team", "role": "scheduler"},
            True,
        ),
        ("ec2:eu-west-1:123456789012:instance/i-1", {"workspace": "team", "role": "worker"}, False),
        (
            "ec2:eu-west-1:123456789012:instance/i-1",
            {"workspace": "team-b", "role": "scheduler"},
            False,
        ),
        ("ec2:eu-west-1:123456789012:instance/i-1", {}, False),
        (
            "ec2:eu-central-1:123456789012:instance/i-1",
            {"workspace": "team", "role": "scheduler"},
            False,
        ),
        ("ssm:eu-west-1::document/AWS-StartPortForwardingSession", {}, True),
        ("ssm:eu-west-1::document/AWS-StartPortForwardingSessionToRemoteHost", {}, False),
        ("ssm:eu-west-1::document/AWS-StartSSHSession", {}, False),
        ("ssm:eu-west-1:123456789012:document/SSM-SessionManagerRunShell", {}, False),
    ],
)
def test_a_session_is_evaluated_so(resource: str, tags: dict[str, str], allowed_so: bool) -> None:
    held = Policies(
        tuple(
            Policy.parse(document)
            for document in caller_policies(scope(session_manager=True), "user").values()
        )
    )
    context = {f"ssm:resourceTag/terradask:{name}": (value,) for name, value in tags.items()}
    request = Request(
        "ssm:StartSession",
        f"arn:aws:{resource}",
        {"ssm:SessionDocumentAccessCheck": ("true",), **context},
    )
    assert evaluate(request, held).allowed is allowed_so


@pytest.mark.parametrize(
    ("owner", "allowed_so"),
    [("AROA1:me", True), ("AROA1:you", False), ("AROA2:me", False), ("AIDA1", False)],
)
def test_only_ones_own_session_is_ended(owner: str, allowed_so: bool) -> None:
    held = Policies(
        tuple(
            Policy.parse(document)
            for document in caller_policies(scope(session_manager=True), "user").values()
        )
    )
    request = Request(
        "ssm:TerminateSession",
        f"arn:aws:ssm:eu-west-1:{ACCOUNT}:session/me-0abc",
        {
            "aws:userid": ("AROA1:me",),
            "ssm:resourceTag/aws:ssmmessages:session-id": (owner,),
        },
    )
    assert evaluate(request, held).allowed is allowed_so


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_what_was_noted_is_never_changed(caller: Caller) -> None:
    new = {"s3:if-none-match": "*"}
    for name in ("history/20261124T080000Z-1f3a9c.json", "unlocks/2026-11-24T08:00:00Z.json"):
        noted = f"arn:aws:s3:::terradask-team-{ACCOUNT}-eu-west-1/{name}"
        assert may(caller, "s3:PutObject", noted, scope(), **new)
        assert not may(caller, "s3:PutObject", noted, scope())
        for action in ("DeleteObject", "DeleteObjectVersion"):
            assert not may(caller, f"s3:{action}", noted, scope(), **new)
