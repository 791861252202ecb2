"""From a log of requests: that a policy is enough, and that nothing in it is too many."""

import pytest

from terradask_simulator import Simulator, SimulatorError, SimulatorInfo
from terradask_simulator.aws.iam.log import RequestLog
from terradask_simulator.iam import (
    LoggedRequest,
    Request,
    denied_by,
    entries,
    minus_action,
    needless,
)

TAGGED = {"aws:ResourceTag/w": ("a",)}
POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Sid": "Read",
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject"],
            "Resource": "arn:aws:s3:::b/*",
        },
        {"Sid": "See", "Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"},
        {
            "Sid": "End",
            "Effect": "Allow",
            "Action": "ec2:TerminateInstances",
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:ResourceTag/w": "a"}},
        },
        {
            "Sid": "Never",
            "Effect": "Deny",
            "Action": "s3:PutObject",
            "Resource": "arn:aws:s3:::b/state",
        },
    ],
}
GET = Request("s3:GetObject", "arn:aws:s3:::b/k")
PUT = Request("s3:PutObject", "arn:aws:s3:::b/k")
SEE = Request("ec2:DescribeInstances")
END = Request("ec2:TerminateInstances", "arn:aws:ec2:us-east-1:1:instance/i-1", TAGGED)


def test_what_a_policy_denies():
    state = Request("s3:PutObject", "arn:aws:s3:::b/state")
    foreign = Request(
        "ec2:TerminateInstances",
        "arn:aws:ec2:us-east-1:1:instance/i-2",
        {"aws:ResourceTag/w": ("b",)},
    )
    assert denied_by(POLICY, [GET, PUT, state, SEE, END, foreign]) == [state, foreign]
    assert denied_by([{"Statement": []}, POLICY], GET) == []
    assert denied_by({"Statement": []}, GET) == [GET]


def test_taking_an_action_away_leaves_denials_and_the_policy_itself_alone():
    without = minus_action(POLICY, "s3:PutObject")
    assert [statement["Sid"] for statement in without["Statement"]] == [
        "Read",
        "See",
        "End",
        "Never",
    ]
    assert without["Statement"][0]["Action"] == ["s3:GetObject"]
    assert POLICY["Statement"][0]["Action"] == ["s3:GetObject", "s3:PutObject"]
    assert [
        statement["Sid"] for statement in minus_action(POLICY, "ec2:Describe*")["Statement"]
    ] == ["Read", "End", "Never"]


def test_what_is_needless():
    assert list(entries(POLICY)) == [
        (0, "Read", "s3:GetObject"),
        (0, "Read", "s3:PutObject"),
        (1, "See", "ec2:Describe*"),
        (2, "End", "ec2:TerminateInstances"),
    ]
    assert needless(POLICY, [GET, PUT, SEE, END]) == []
    assert needless(POLICY, [GET, SEE]) == [
        ("Read", "s3:PutObject"),
        ("End", "ec2:TerminateInstances"),
    ]


def test_what_two_statements_or_policies_allow_is_needless_in_either():
    double = {
        "Statement": [
            *POLICY["Statement"],
            {"Sid": "Again", "Effect": "Allow", "Action": "s3:Get*", "Resource": "*"},
        ]
    }
    assert needless(double, [GET, PUT, SEE, END]) == [
        ("Read", "s3:GetObject"),
        ("Again", "s3:Get*"),
    ]
    assert needless(
        POLICY,
        [GET, PUT, SEE, END],
        others=[{"Statement": [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}]}],
    ) == [
        ("See", "ec2:Describe*"),
        ("End", "ec2:TerminateInstances"),
    ]


def test_an_action_that_only_a_refused_request_needs_is_needless():
    other = Request("s3:PutObject", "arn:aws:s3:::other/k")
    assert ("Read", "s3:PutObject") in needless(POLICY, [GET, SEE, END, other])


def test_the_log_keeps_a_request_once_and_counts_it():
    log = RequestLog()
    for moment in ("1", "2"):
        log.record(
            "role",
            "s3:GetObject",
            Request("s3:GetObject", "arn:aws:s3:::b/k", {"aws:EpochTime": (moment,)}),
            allowed=True,
        )
    log.record("", "s3:GetObject", GET, allowed=True)
    assert log.by_principal() == {
        "role": [
            LoggedRequest(
                Request("s3:GetObject", "arn:aws:s3:::b/k", {}, "role"), "s3:GetObject", True, 2
            )
        ],
        "": [LoggedRequest(GET, "s3:GetObject", True, 1)],
    }
    again = LoggedRequest.from_dict(log.by_principal()["role"][0].as_dict())
    assert again == log.by_principal()["role"][0]
    log.reset()
    assert log.by_principal() == {}


def test_a_simulator_that_does_not_ask_policies_has_no_log():
    info = SimulatorInfo(
        1,
        0.0,
        1,
        "http://127.0.0.1:1",
        "us-east-1",
        "1",
        "127.64.0.0/16",
        "127.128.0.0/16",
        "/nowhere",
        True,
    )
    with pytest.raises(SimulatorError, match="enforce_iam"):
        Simulator(info, None, owns_state=False).requests()
