"""Operations of the other services become the permissions that AWS asks for; the pages are named
where they say so.
"""

from __future__ import annotations

from tests.unit.iam_requests import ACCOUNT, EC2, REGION, SmallWorld, asked, call, context, query

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping import context_of, needs_of

LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:"
IAM = f"arn:aws:iam::{ACCOUNT}:"


# https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters.html
def test_parameters():
    own = call("ssm", "GetParameters", Names=["/a", "b"])
    assert asked(own) == [
        ("ssm:GetParameters", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/{name}") for name in "ab"
    ]
    public = call("ssm", "GetParameter", Name="/aws/service/ami/x")
    assert asked(public) == [
        ("ssm:GetParameter", f"arn:aws:ssm:{REGION}::parameter/aws/service/ami/x")
    ]


# https://docs.aws.amazon.com/service-authorization/latest/reference/list_budgets.html
def test_budgets():
    arn = f"arn:aws:budgets::{ACCOUNT}:budget/month"
    of_month, tags = {"BudgetName": "month"}, [{"Key": "w", "Value": "a"}]
    assert asked(call("budgets", "DescribeNotificationsForBudget", **of_month)) == [
        ("budgets:ViewBudget", arn)
    ]
    for operation, parameters in (
        ("CreateBudget", {"Budget": of_month}),
        ("UpdateBudget", {"NewBudget": of_month}),
        ("DeleteNotification", of_month),
    ):
        assert asked(call("budgets", operation, **parameters)) == [("budgets:ModifyBudget", arn)]
    assert asked(call("budgets", "CreateBudget", Budget=of_month, ResourceTags=tags)) == [
        ("budgets:ModifyBudget", arn),
        ("budgets:TagResource", arn),
    ]
    assert asked(call("budgets", "ListTagsForResource", ResourceARN=arn)) == [
        ("budgets:ListTagsForResource", arn)
    ]
    assert asked(call("budgets", "DescribeBudgets")) == [
        ("budgets:ViewBudget", f"arn:aws:budgets::{ACCOUNT}:budget/*")
    ]


# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html
def test_logs():
    assert asked(call("logs", "CreateLogStream", logGroupName="/t/a", logStreamName="s")) == [
        ("logs:CreateLogStream", f"{LOGS}/t/a:log-stream:s")
    ]
    create = call("logs", "CreateLogGroup", logGroupName="/t/a", tags={"w": "a"})
    assert asked(create) == [
        ("logs:CreateLogGroup", f"{LOGS}/t/a:log-stream:"),
        ("logs:TagResource", f"{LOGS}/t/a"),
    ]
    assert asked(call("logs", "ListTagsForResource", resourceArn=f"{LOGS}/t/a")) == [
        ("logs:ListTagsForResource", f"{LOGS}/t/a")
    ]
    assert asked(call("logs", "DescribeLogGroups")) == [("logs:DescribeLogGroups", "*")]


# https://docs.aws.amazon.com/sns/latest/api/API_CreateTopic.html
def test_a_topic_carries_the_tags_that_it_is_made_with():
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:ends"
    tags = {"Tags__member__1__Key": "w", "Tags__member__1__Value": "a"}
    create = query("sns", "CreateTopic", Name="ends", **tags)
    assert asked(create) == [("sns:CreateTopic", topic), ("sns:TagResource", topic)]
    carried = {"aws:RequestTag/w": ("a",), "aws:TagKeys": ("w",)}
    assert [context(create, number=number) for number in (0, 1)] == [carried, carried]
    tag = query("sns", "TagResource", ResourceArn=topic, **tags)
    assert context(tag) == carried
    untag = query("sns", "UntagResource", ResourceArn=topic, TagKeys__member__1="w")
    assert context(untag) == {"aws:TagKeys": ("w",)}


def test_roles_and_profiles():
    tags = {"Tags__member__1__Key": "w", "Tags__member__1__Value": "a"}
    create = query(
        "iam",
        "CreateRole",
        RoleName="new",
        Path="/t/",
        PermissionsBoundary=f"{IAM}policy/edge",
        **tags,
    )
    assert asked(create) == [
        ("iam:CreateRole", f"{IAM}role/t/new"),
        ("iam:TagRole", f"{IAM}role/t/new"),
    ]
    assert context(create) == {
        "aws:RequestTag/w": ("a",),
        "aws:TagKeys": ("w",),
        "iam:PermissionsBoundary": (f"{IAM}policy/edge",),
    }
    add = query("iam", "AddRoleToInstanceProfile", InstanceProfileName="p", RoleName="there")
    assert asked(add) == [
        ("iam:AddRoleToInstanceProfile", f"{IAM}instance-profile/p"),
        ("iam:PassRole", f"{IAM}role/there"),
    ]
    attach = query(
        "iam",
        "AttachRolePolicy",
        RoleName="there",
        PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess",
    )
    assert context(attach)["iam:PolicyARN"] == ("arn:aws:iam::aws:policy/AdministratorAccess",)
    put = query("iam", "PutRolePolicy", RoleName="there-bounded", PolicyName="x")
    assert context(put) == {"iam:PermissionsBoundary": (f"{IAM}policy/edge",)}


# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
def test_managed_policies_lie_under_their_path():
    tags = {"Tags__member__1__Key": "w", "Tags__member__1__Value": "a"}
    create = query(
        "iam", "CreatePolicy", PolicyName="hosts", Path="/t/a/", PolicyDocument="{}", **tags
    )
    assert asked(create) == [
        ("iam:CreatePolicy", f"{IAM}policy/t/a/hosts"),
        ("iam:TagPolicy", f"{IAM}policy/t/a/hosts"),
    ]
    assert context(create) == {"aws:RequestTag/w": ("a",), "aws:TagKeys": ("w",)}
    arn = f"{IAM}policy/t/a/hosts"
    for name in (
        "GetPolicy",
        "GetPolicyVersion",
        "ListPolicyVersions",
        "CreatePolicyVersion",
        "DeletePolicyVersion",
        "DeletePolicy",
    ):
        assert asked(query("iam", name, PolicyArn=arn, VersionId="v1")) == [(f"iam:{name}", arn)]
    untag = query("iam", "UntagPolicy", PolicyArn=arn, TagKeys__member__1="w")
    assert asked(untag) == [("iam:UntagPolicy", arn)]
    assert context(untag) == {"aws:TagKeys": ("w",)}


# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_iam-condition-keys.html
def test_the_boundary_of_a_role_is_the_one_that_it_gets_or_else_has():
    other = f"{IAM}policy/other"
    for name, parameters, boundary in (
        ("PutRolePermissionsBoundary", {"PermissionsBoundary": other}, other),
        ("DeleteRolePermissionsBoundary", {}, f"{IAM}policy/edge"),
        ("DeleteRolePolicy", {"PolicyName": "x"}, f"{IAM}policy/edge"),
        ("DeleteRole", {}, f"{IAM}policy/edge"),
    ):
        operation = query("iam", name, RoleName="there-bounded", **parameters)
        assert asked(operation) == [(f"iam:{name}", f"{IAM}role/there-bounded")]
        assert context(operation) == {"iam:PermissionsBoundary": (boundary,)}
    # One without a boundary gives the key no value, so that a condition on it doesn't hold.
    assert context(query("iam", "PutRolePolicy", RoleName="there", PolicyName="x")) == {}


# https://docs.aws.amazon.com/IAM/latest/UserGuide/create-service-linked-role.html
def test_service_linked_roles():
    operation = query("iam", "CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
    assert asked(operation) == [
        (
            "iam:CreateServiceLinkedRole",
            f"{IAM}role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot",
        )
    ]
    assert context(operation) == {"iam:AWSServiceName": ("spot.amazonaws.com",)}


# https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html: no permission is
# needed.
def test_sts():
    assert asked(query("sts", "GetCallerIdentity")) == []
    assume = query(
        "sts", "AssumeRole", RoleArn=f"{IAM}role/there", RoleSessionName="s", ExternalId="e"
    )
    assert asked(assume) == [("sts:AssumeRole", f"{IAM}role/there")]
    assert context(assume) == {"sts:RoleSessionName": ("s",), "sts:ExternalId": ("e",)}


def test_services_without_a_mapping_of_their_own():
    assert asked(call("tagging", "GetResources")) == [("tag:GetResources", "*")]
    assert asked(call("pricing", "GetProducts")) == [("pricing:GetProducts", "*")]
    assert asked(call("servicequotas", "ListServiceQuotas", ServiceCode="ec2")) == [
        ("servicequotas:ListServiceQuotas", "*")
    ]
    quota = f"arn:aws:servicequotas:{REGION}:{ACCOUNT}:ec2/L-1"
    limits = call("servicequotas", "GetServiceQuota", ServiceCode="autoscaling", QuotaCode="L-1")
    assert [action for action, _ in asked(limits)] == [
        "autoscaling:DescribeAccountLimits",
        "servicequotas:GetServiceQuota",
    ]
    raised = call(
        "servicequotas",
        "RequestServiceQuotaIncrease",
        ServiceCode="ec2",
        QuotaCode="L-1",
        DesiredValue=9,
    )
    assert asked(raised) == [("servicequotas:RequestServiceQuotaIncrease", quota)]
    assert asked(call("kms", "DescribeKey", KeyId=f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1")) == [
        ("kms:DescribeKey", f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1")
    ]


def test_condition_keys_that_aws_does_not_send_are_left_out():
    assert reference.carries(
        "autoscaling:SetDesiredCapacity", "autoScalingGroup", "aws:ResourceTag/x"
    )
    assert not reference.carries("autoscaling:DescribeAutoScalingGroups", "", "aws:ResourceTag/x")
    assert not reference.carries("ec2:RunInstances", "subnet", "aws:RequestTag/x")
    assert not reference.carries("s3:GetObject", "object", "s3:prefix")


def test_a_session_is_known_by_the_tag_of_its_owner():
    for action in ("ResumeSession", "TerminateSession"):
        (need,) = needs_of(call("ssm", action, SessionId="me-0abc"), SmallWorld())
        assert need.resource == f"arn:aws:ssm:{REGION}:{ACCOUNT}:session/me-0abc"
        found = {key.lower(): value for key, value in context_of(need, {}).items()}
        assert found["ssm:resourcetag/aws:ssmmessages:session-id"] == ("AROA1:me",)


def test_a_session_needs_the_host_and_the_document():
    needs = needs_of(
        call("ssm", "StartSession", Target="i-1", DocumentName="AWS-StartPortForwardingSession"),
        SmallWorld(),
    )
    assert [(need.action, need.resource) for need in needs] == [
        ("ssm:StartSession", f"{EC2}instance/i-1"),
        ("ssm:StartSession", f"arn:aws:ssm:{REGION}::document/AWS-StartPortForwardingSession"),
    ]
    assert context_of(needs[0], {})["ssm:SessionDocumentAccessCheck"] == ("true",)
    shell = needs_of(call("ssm", "StartSession", Target="i-1"), SmallWorld())
    assert (
        shell[1].resource == f"arn:aws:ssm:{REGION}:{ACCOUNT}:document/SSM-SessionManagerRunShell"
    )
