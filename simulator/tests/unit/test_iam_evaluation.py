"""Policies decide as AWS documents.

The pages are those of the IAM user guide, https://docs.aws.amazon.com/IAM/latest/UserGuide/, where
no other is named.
"""

import pytest

from terradask_simulator.iam import MalformedPolicy, Policy, Request, evaluate

from .iam_documents import allow, allowed, asks, deny, policy


# reference_policies_evaluation-logic_AccessPolicyLanguage_Interplay.html
def test_nothing_is_allowed_until_something_allows_it():
    decision = evaluate(asks("s3:GetObject", "arn:aws:s3:::b/k"), [policy()])
    assert not decision.allowed
    assert (
        decision.why("s3:GetObject")
        == "because no identity-based policy allows the s3:GetObject action"
    )


def test_an_explicit_deny_wins():
    decision = evaluate(
        asks("s3:GetObject", "arn:aws:s3:::b/k"),
        [policy(allow("*")), policy(deny("s3:*", Sid="NoS3"))],
    )
    assert not decision.allowed
    assert decision.statement.sid == "NoS3"
    assert decision.why("s3:GetObject") == "with an explicit deny in an identity-based policy"


def test_a_decision_names_the_statement():
    decision = evaluate(
        asks("s3:GetObject", "arn:aws:s3:::b/k"),
        [policy(allow("ec2:*"), allow("s3:Get*", Sid="Read"))],
    )
    assert (decision.allowed, decision.statement.sid) == (True, "Read")


# reference_policies_elements_action.html: names know no case; wildcards match several actions of a
# service.
@pytest.mark.parametrize(
    ("pattern", "action", "expected"),
    [
        ("iam:*AccessKey*", "iam:CreateAccessKey", True),
        ("IAM:listaccesskeys", "iam:ListAccessKeys", True),
        ("s3:Get?bject", "s3:GetObject", True),
        ("s3:GetObject", "s3:GetObjectVersion", False),
        ("s3.*", "s3:GetObject", False),
    ],
)
def test_actions(pattern, action, expected):
    assert allowed(asks(action), allow(pattern)) is expected


# reference_policies_elements_notaction.html: everything but deleting a bucket, in S3; denying all
# but IAM without MFA.
def test_not_action():
    statement = {"Effect": "Allow", "NotAction": "s3:DeleteBucket", "Resource": "arn:aws:s3:::*"}
    assert allowed(asks("s3:ListBucket", "arn:aws:s3:::b"), statement)
    assert not allowed(asks("s3:DeleteBucket", "arn:aws:s3:::b"), statement)
    without_mfa = {
        "Effect": "Deny",
        "NotAction": ["iam:*"],
        "Resource": "*",
        "Condition": {"BoolIfExists": {"aws:MultiFactorAuthPresent": "false"}},
    }
    assert not allowed(asks("ec2:RunInstances"), allow("*"), without_mfa)
    assert allowed(asks("iam:ListUsers"), allow("*"), without_mfa)
    assert allowed(
        asks("ec2:RunInstances", context={"aws:MultiFactorAuthPresent": "true"}),
        allow("*"),
        without_mfa,
    )


# reference_policies_elements_notresource.html
def test_not_resource():
    own = ["arn:aws:s3:::HRBucket/Payroll", "arn:aws:s3:::HRBucket/Payroll/*"]
    statement = {"Effect": "Deny", "Action": "s3:*", "NotResource": own}
    assert allowed(
        asks("s3:GetObject", "arn:aws:s3:::HRBucket/Payroll/2026"), allow("*"), statement
    )
    assert not allowed(asks("s3:GetObject", "arn:aws:s3:::HRBucket/Bonuses"), allow("*"), statement)


# reference_policies_elements_resource.html
@pytest.mark.parametrize(
    ("pattern", "resource", "expected"),
    [
        (
            "arn:aws:s3:::amzn-s3-demo-bucket/*/test/*",
            "arn:aws:s3:::amzn-s3-demo-bucket/1/2/test/3/object.jpg",
            True,
        ),
        (
            "arn:aws:s3:::amzn-s3-demo-bucket/*/test/*",
            "arn:aws:s3:::amzn-s3-demo-bucket/test/object.jpg",
            False,
        ),
        (
            "arn:aws:iam::123456789012:user/*",
            "arn:aws:iam::123456789012:user/accounting/anika",
            True,
        ),
        ("arn:aws:ec2:*:*:instance/*", "arn:aws:ec2:us-east-1:123456789012:volume/vol-1", False),
        ("arn:aws:s3:::B/*", "arn:aws:s3:::b/k", False),
        (
            "arn:aws:autoscaling:us-east-1:1:autoScalingGroup:*:autoScalingGroupName/a-*",
            "arn:aws:autoscaling:us-east-1:1:autoScalingGroup:4f-2:autoScalingGroupName/a-b",
            True,
        ),
    ],
)
def test_resources(pattern, resource, expected):
    assert allowed(asks("x:Y", resource), allow("x:Y", pattern)) is expected


# An action without resources is only allowed by a statement for all of them.
def test_an_action_without_resources_needs_a_star():
    assert allowed(asks("ec2:DescribeInstances"), allow("ec2:Describe*"))
    assert not allowed(
        asks("ec2:DescribeInstances"), allow("ec2:Describe*", "arn:aws:ec2:*:*:instance/*")
    )


# reference_policies_variables.html: home folders.
def test_variables_in_resources():
    statements = (
        allow(
            "s3:ListBucket",
            "arn:aws:s3:::b",
            Condition={"StringLike": {"s3:prefix": ["${aws:username}/*"]}},
        ),
        allow(["s3:GetObject"], "arn:aws:s3:::b/${aws:username}/*"),
    )
    anika = {"aws:username": "anika"}
    assert allowed(asks("s3:GetObject", "arn:aws:s3:::b/anika/plan", context=anika), *statements)
    assert not allowed(
        asks("s3:GetObject", "arn:aws:s3:::b/nikhil/plan", context=anika), *statements
    )
    assert not allowed(
        asks("s3:GetObject", "arn:aws:s3:::b/nikhil/plan", context={"aws:username": "*"}),
        *statements,
    )
    assert allowed(
        asks("s3:ListBucket", "arn:aws:s3:::b", context={**anika, "s3:prefix": "anika/2026"}),
        *statements,
    )
    assert not allowed(asks("s3:ListBucket", "arn:aws:s3:::b", context=anika), *statements)


# tutorial_attribute-based-access-control.html: the resource's tag is the caller's.
def test_tags_of_the_caller_and_the_resource():
    statement = allow(
        "secretsmanager:*",
        Condition={"StringEquals": {"aws:ResourceTag/project": "${aws:PrincipalTag/project}"}},
    )
    peg = {"aws:PrincipalTag/project": "peg"}
    assert allowed(
        asks("secretsmanager:GetSecretValue", context={**peg, "aws:ResourceTag/project": "peg"}),
        statement,
    )
    assert not allowed(
        asks("secretsmanager:GetSecretValue", context={**peg, "aws:ResourceTag/project": "uni"}),
        statement,
    )
    assert not allowed(
        asks("secretsmanager:GetSecretValue", context={"aws:ResourceTag/project": "peg"}), statement
    )


# reference_policies_condition-logic-multiple-context-keys-or-values.html: operators and keys are
# AND.
def test_all_lines_of_a_condition_must_hold():
    statement = allow(
        "ec2:StartInstances",
        Condition={
            "StringEquals": {
                "aws:ResourceTag/a": "1",
                "aws:RequestedRegion": ["eu-west-1", "eu-central-1"],
            },
            "Bool": {"aws:SecureTransport": "true"},
        },
    )
    whole = {
        "aws:ResourceTag/a": "1",
        "aws:RequestedRegion": "eu-central-1",
        "aws:SecureTransport": "true",
    }
    assert allowed(asks("ec2:StartInstances", context=whole), statement)
    for key in whole:
        assert not allowed(
            asks(
                "ec2:StartInstances",
                context={name: value for name, value in whole.items() if name != key},
            ),
            statement,
        )


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html: tags only
# while creating.
def test_tagging_at_creation_alone():
    statement = allow(
        "ec2:CreateTags",
        "arn:aws:ec2:*:*:*/*",
        Condition={"StringEquals": {"ec2:CreateAction": "RunInstances"}},
    )
    instance = "arn:aws:ec2:us-east-1:1:instance/*"
    assert allowed(
        asks("ec2:CreateTags", instance, context={"ec2:CreateAction": "RunInstances"}), statement
    )
    assert not allowed(
        asks("ec2:CreateTags", instance, context={"ec2:CreateAction": "CreateVolume"}), statement
    )
    assert not allowed(asks("ec2:CreateTags", instance), statement)


@pytest.mark.parametrize(
    "document",
    [
        "no JSON",
        {"Statement": [{"Effect": "allow", "Action": "*"}]},
        {"Statement": [{"Effect": "Allow"}]},
        {"Statement": [{"Effect": "Allow", "Action": "*", "NotAction": "*"}]},
        {"Statement": "Allow"},
    ],
)
def test_a_malformed_document_is_an_error(document):
    with pytest.raises(MalformedPolicy, match="grammar"):
        Policy.parse(document, "broken")


def test_a_request_survives_json():
    request = asks("s3:GetObject", "arn:aws:s3:::b/k", context={"aws:TagKeys": ["a", "b"]})
    assert Request.from_dict(request.as_dict()) == request
