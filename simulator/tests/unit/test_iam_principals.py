"""Whose policies count: boundaries, sessions, and policies of resources and roles."""

import pytest

from terradask_simulator.iam import Policies, evaluate

from .iam_documents import ACCOUNT, ROLE, SESSION, USER, allow, asks, deny, policy


# access_policies_boundaries.html: Shirley's boundary is S3, CloudWatch and EC2; her policy allows
# iam:CreateUser.
def test_a_boundary_grants_nothing_and_narrows():
    boundary = policy(allow(["s3:*", "cloudwatch:*", "ec2:*"]))
    own = (policy(allow("iam:CreateUser")),)
    decision = evaluate(asks("iam:CreateUser"), Policies(own, boundary))
    assert (
        decision.why("iam:CreateUser")
        == "because no permissions boundary allows the iam:CreateUser action"
    )
    assert not evaluate(asks("s3:GetObject"), Policies(own, boundary)).allowed
    assert evaluate(asks("s3:GetObject"), Policies((policy(allow("s3:*")),), boundary)).allowed
    denying = policy(allow("*"), deny("s3:*"))
    assert (
        evaluate(asks("s3:GetObject"), Policies((policy(allow("s3:*")),), denying)).why(
            "s3:GetObject"
        )
        == "with an explicit deny in a permissions boundary"
    )


# access_policies.html#policies_session
def test_a_session_policy_narrows():
    own = (policy(allow("s3:*")),)
    session = policy(allow("s3:GetObject"))
    assert evaluate(asks("s3:GetObject", principal=SESSION), Policies(own, session=session)).allowed
    decision = evaluate(asks("s3:PutObject", principal=SESSION), Policies(own, session=session))
    assert (
        decision.why("s3:PutObject") == "because no session policy allows the s3:PutObject action"
    )


def grants(principal, action="s3:GetObject", resource="arn:aws:s3:::b/*"):
    return policy(
        {"Effect": "Allow", "Principal": principal, "Action": action, "Resource": resource}
    )


# reference_policies_evaluation-logic_policy-eval-basics-single-account.html: within an account
# either kind of policy is enough.
@pytest.mark.parametrize(
    ("principal", "named", "expected"),
    [
        (USER, {"AWS": USER}, True),
        (USER, "*", True),
        (USER, {"AWS": "*"}, True),
        (SESSION, {"AWS": ROLE}, True),
        (SESSION, {"AWS": SESSION}, True),
        (USER, {"AWS": ["arn:aws:iam::123456789012:user/nikhil"]}, False),
        (USER, {"Service": "ec2.amazonaws.com"}, False),
        # The account's name only lets the account's own policies decide.
        (USER, {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, False),
        (USER, {"AWS": ACCOUNT}, False),
        ("", "*", True),
        ("", {"AWS": USER}, False),
    ],
)
def test_a_bucket_policy_grants(principal, named, expected):
    request = asks("s3:GetObject", "arn:aws:s3:::b/k", principal)
    assert evaluate(request, Policies(resource=grants(named))).allowed is expected


def test_a_bucket_policy_denies():
    tls = policy(
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    )
    own = (policy(allow("s3:*")),)
    open_wire = asks("s3:GetObject", "arn:aws:s3:::b/k", context={"aws:SecureTransport": "false"})
    assert (
        evaluate(open_wire, Policies(own, resource=tls)).why("s3:GetObject")
        == "with an explicit deny in a resource-based policy"
    )
    assert evaluate(
        asks("s3:GetObject", "arn:aws:s3:::b/k", context={"aws:SecureTransport": "true"}),
        Policies(own, resource=tls),
    ).allowed


# reference_policies_elements_notprincipal.html
def test_everybody_but_one_is_denied():
    statement = {
        "Effect": "Deny",
        "NotPrincipal": {"AWS": USER},
        "Action": "s3:*",
        "Resource": "arn:aws:s3:::b/*",
    }
    own = (policy(allow("s3:*")),)
    assert evaluate(
        asks("s3:GetObject", "arn:aws:s3:::b/k"), Policies(own, resource=policy(statement))
    ).allowed
    assert not evaluate(
        asks("s3:GetObject", "arn:aws:s3:::b/k", SESSION), Policies(own, resource=policy(statement))
    ).allowed


# access_policies_boundaries.html#access_policies_boundaries-eval-logic: an implicit deny of a
# boundary doesn't reach what a resource's policy grants to a user or to a session by name; it does
# reach what is granted to a role.
@pytest.mark.parametrize(
    ("principal", "named", "expected"),
    [(USER, USER, True), (SESSION, SESSION, True), (SESSION, ROLE, False)],
)
def test_boundaries_and_resource_policies(principal, named, expected):
    held = Policies(boundary=policy(allow("ec2:*")), resource=grants({"AWS": named}))
    assert evaluate(asks("s3:GetObject", "arn:aws:s3:::b/k", principal), held).allowed is expected


# reference_policies_evaluation-logic_policy-eval-basics-single-account.html: a role's trust policy
# must allow, whatever else does.
def test_a_trust_policy_must_allow():
    own = (policy(allow("*")),)
    request = asks("sts:AssumeRole", ROLE)

    def trusting(principal):
        return policy({"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"})

    assert not evaluate(
        request, Policies(own, resource=trusting({"Service": "ec2.amazonaws.com"}))
    ).allowed
    assert evaluate(
        request, Policies(own, resource=trusting({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}))
    ).allowed
    assert not evaluate(
        request, Policies(resource=trusting({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}))
    ).allowed
    assert evaluate(request, Policies(resource=trusting({"AWS": USER}))).allowed


# reference_policies_evaluation-logic-cross-account.html: a role of another account needs its trust
# policy and a policy of the caller's account.
def test_another_accounts_role_needs_the_policies_of_both_accounts():
    there = "arn:aws:iam::210987654321:role/dask"
    request, own = asks("sts:AssumeRole", there), (policy(allow("sts:AssumeRole", there)),)

    def trusting(principal):
        return policy({"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"})

    for trusted in (USER, f"arn:aws:iam::{ACCOUNT}:root"):
        both = Policies(own, resource=trusting({"AWS": trusted}))
        assert evaluate(request, both).allowed
        theirs = evaluate(request, Policies(resource=trusting({"AWS": trusted})))
        assert theirs.why("sts:AssumeRole").startswith("because no identity-based policy allows")
    mine = evaluate(request, Policies(own, resource=trusting({"AWS": there})))
    assert mine.why("sts:AssumeRole").startswith("because no resource-based policy allows")
