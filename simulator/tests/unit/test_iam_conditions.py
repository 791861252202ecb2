"""Condition operators do what AWS documents.

The pages are those of the IAM user guide, https://docs.aws.amazon.com/IAM/latest/UserGuide/.
"""

import pytest

from terradask_simulator.aws.iam.conditions import UnknownOperator, holds
from terradask_simulator.aws.iam.documents import Condition


def check(operator, wanted, context, key="k", version="2012-10-17"):
    values = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    return holds(
        Condition(operator, key, values),
        {name.lower(): tuple(v) for name, v in context.items()},
        version,
    )


# reference_policies_elements_condition_operators.html: the table of each family.
@pytest.mark.parametrize(
    ("operator", "wanted", "value", "expected"),
    [
        ("StringEquals", "iamuser-admin", "iamuser-admin", True),
        ("StringEquals", "iamuser-admin", "IamUser-Admin", False),
        ("StringEquals", "iam*", "iamuser-admin", False),
        ("StringNotEquals", "iamuser-admin", "other", True),
        ("StringNotEquals", "iamuser-admin", "iamuser-admin", False),
        ("StringEqualsIgnoreCase", "Owner", "oWNER", True),
        ("StringNotEqualsIgnoreCase", "Owner", "oWNER", False),
        ("StringLike", "eu-*", "eu-central-1", True),
        ("StringLike", "t?.micro", "t3.micro", True),
        ("StringLike", "t?.micro", "t33.micro", False),
        ("StringLike", "a.c", "abc", False),
        ("StringNotLike", "eu-*", "us-east-1", True),
        ("NumericEquals", "10", "10.0", True),
        ("NumericNotEquals", "10", "11", True),
        ("NumericLessThan", "10", "10", False),
        ("NumericLessThanEquals", "10", "10", True),
        ("NumericGreaterThan", "10", "11", True),
        ("NumericGreaterThanEquals", "10", "9", False),
        ("NumericEquals", "10", "ten", False),
        ("DateGreaterThan", "2020-01-01T00:00:01Z", "2020-06-01T00:00:00Z", True),
        ("DateLessThan", "2020-01-01T00:00:01Z", "2020-06-01T00:00:00Z", False),
        ("DateEquals", "1577836801", "2020-01-01T00:00:01Z", True),
        ("DateNotEquals", "2020-01-01", "2020-01-02", True),
        ("DateLessThanEquals", "2020-01-01", "2020-01-01T00:00:00Z", True),
        ("DateGreaterThanEquals", "2020-01-02", "2020-01-01", False),
        ("Bool", "true", "true", True),
        ("Bool", "false", "true", False),
        ("BinaryEquals", "QmluYXJ5", "QmluYXJ5", True),
        ("IpAddress", "203.0.113.0/24", "203.0.113.7", True),
        ("IpAddress", "203.0.113.0/24", "198.51.100.7", False),
        ("IpAddress", "2001:DB8:1234:5678::/64", "2001:db8:1234:5678::1", True),
        ("IpAddress", "203.0.113.0/24", "2001:db8::1", False),
        ("NotIpAddress", "203.0.113.0/24", "198.51.100.7", True),
        (
            "ArnEquals",
            "arn:aws:sns:eu-west-1:123456789012:TOPIC",
            "arn:aws:sns:eu-west-1:123456789012:TOPIC",
            True,
        ),
        (
            "ArnLike",
            "arn:aws:ec2:*:123456789012:instance/i-*",
            "arn:aws:ec2:us-east-1:123456789012:instance/i-1",
            True,
        ),
        # Each of the six parts is checked for itself: a star reaches over no colon, but in the last
        # part.
        (
            "ArnLike",
            "arn:aws:logs:us-*:a:b",
            "arn:aws:logs:us-east-1:1:log-group:a:b",
            False,
        ),
        (
            "ArnLike",
            "arn:aws:logs:*:*:log-group*",
            "arn:aws:logs:us-east-1:1:log-group:a:log-stream:b",
            True,
        ),
        ("ArnNotLike", "arn:aws:ec2:*:*:instance/*", "arn:aws:ec2:us-east-1:1:volume/v", True),
        ("ArnNotEquals", "arn:aws:ec2:*:*:instance/*", "arn:aws:ec2:us-east-1:1:instance/i", False),
    ],
)
def test_operators(operator, wanted, value, expected):
    assert check(operator, wanted, {"k": [value]}) is expected


def test_an_operator_that_there_is_not_is_an_error():
    with pytest.raises(UnknownOperator, match="StringEqual"):
        check("StringEqual", "a", {"k": ["a"]})


def test_keys_and_operators_know_no_case():
    assert check("stringequals", "a", {"AWS:RequestedRegion": ["a"]}, key="aws:requestedregion")


# reference_policies_elements_condition_operators.html: "If the key that you specify in a policy
# condition is not present in the request context, the values do not match and the condition is
# false. If the policy condition requires that the key is not matched, such as StringNotLike or
# ArnNotLike, and the right key is not present, the condition is true."
@pytest.mark.parametrize(
    "family",
    ["StringEquals", "StringLike", "NumericEquals", "DateLessThan", "Bool", "IpAddress", "ArnLike"],
)
def test_a_missing_key_makes_a_positive_operator_false(family):
    assert not check(family, "2020-01-01", {})


@pytest.mark.parametrize(
    "family",
    [
        "StringNotEquals",
        "StringNotEqualsIgnoreCase",
        "StringNotLike",
        "NumericNotEquals",
        "DateNotEquals",
        "NotIpAddress",
        "ArnNotLike",
    ],
)
def test_a_missing_key_makes_a_negated_operator_true(family):
    assert check(family, "2020-01-01", {})


# Same page, "...IfExists condition operators".
def test_if_exists_evaluates_as_true_without_the_key():
    types = ["t1.*", "t2.*", "m3.*"]
    assert check("StringLikeIfExists", types, {}, key="ec2:InstanceType")
    assert check(
        "StringLikeIfExists", types, {"ec2:InstanceType": ["t2.micro"]}, key="ec2:InstanceType"
    )
    assert not check(
        "StringLikeIfExists", types, {"ec2:InstanceType": ["c5.large"]}, key="ec2:InstanceType"
    )


# Same page, "Condition operator to check existence of condition keys".
def test_null_checks_whether_a_key_is_there():
    key = "aws:TokenIssueTime"
    assert check("Null", "true", {}, key=key)
    assert not check("Null", "true", {key: ["2020-01-01"]}, key=key)
    assert check("Null", "false", {key: ["2020-01-01"]}, key=key)
    assert not check("Null", "false", {}, key=key)


# reference_policies_condition-logic-multiple-context-keys-or-values.html: values are OR for
# positive, NOR for negated operators.
def test_several_values_of_a_policy():
    assert check("StringEquals", ["a", "b"], {"k": ["b"]})
    assert check("StringNotEquals", ["a", "b"], {"k": ["c"]})
    assert not check("StringNotEquals", ["a", "b"], {"k": ["b"]})


# reference_policies_condition-single-vs-multi-valued-context-keys.html and
# reference_policies_condition_examples-multi-valued-context-keys.html
@pytest.mark.parametrize(
    ("operator", "wanted", "values", "expected"),
    [
        ("ForAllValues:StringEquals", ["environment", "cost-center"], ["environment"], True),
        (
            "ForAllValues:StringEquals",
            ["environment", "cost-center"],
            ["environment", "owner"],
            False,
        ),
        ("ForAllValues:StringLike", ["key1*"], ["key1-a", "key1-b"], True),
        ("ForAllValues:StringNotEquals", ["workspace"], ["owner", "cost"], True),
        ("ForAllValues:StringNotEquals", ["workspace"], ["owner", "workspace"], False),
        (
            "ForAnyValue:StringEquals",
            ["environment", "cost-center"],
            ["environment", "owner"],
            True,
        ),
        ("ForAnyValue:StringEquals", ["environment", "cost-center"], ["owner"], False),
        ("ForAnyValue:StringNotEquals", ["workspace"], ["owner", "workspace"], True),
    ],
)
def test_sets_of_values(operator, wanted, values, expected):
    assert check(operator, wanted, {"aws:TagKeys": values}, key="aws:TagKeys") is expected


def test_for_all_values_is_true_and_for_any_value_false_without_the_key():
    assert check("ForAllValues:StringEquals", ["a"], {})
    assert check("ForAllValues:StringNotEquals", ["a"], {})
    assert not check("ForAnyValue:StringEquals", ["a"], {})
    assert not check("ForAnyValue:StringNotEquals", ["a"], {})
    assert check("ForAnyValue:StringEqualsIfExists", ["a"], {})


# reference_policies_variables.html
@pytest.mark.parametrize(
    ("wanted", "context", "expected"),
    [
        ("${aws:username}/*", {"aws:username": ["anika"], "k": ["anika/plan"]}, True),
        ("${aws:username}/*", {"aws:username": ["anika"], "k": ["nikhil/plan"]}, False),
        ("${aws:username}/*", {"k": ["anika/plan"]}, False),
        # What a variable holds is no wildcard.
        ("${aws:username}", {"aws:username": ["*"], "k": ["anika"]}, False),
        (
            "${aws:PrincipalTag/team, 'company-wide'}",
            {"aws:PrincipalTag/team": ["yellow"], "k": ["yellow"]},
            True,
        ),
        ("${aws:PrincipalTag/team, 'company-wide'}", {"k": ["company-wide"]}, True),
        ("${aws:PrincipalTag/team, 'company-wide'}", {"k": ["yellow"]}, False),
        ("a${*}b${?}c${$}", {"k": ["a*b?c$"]}, True),
        ("a${*}b${?}c${$}", {"k": ["axbycz"]}, False),
    ],
)
def test_variables(wanted, context, expected):
    assert check("StringLike", wanted, context) is expected


def test_variables_in_operators_without_wildcards():
    context = {"aws:PrincipalTag/Project": ["blue"], "aws:ResourceTag/Project": ["blue"]}
    assert check(
        "StringEquals", "${aws:PrincipalTag/Project}", context, key="aws:ResourceTag/Project"
    )
    assert check(
        "StringEqualsIgnoreCase",
        "${aws:PrincipalTag/Project}",
        context,
        key="aws:ResourceTag/Project",
    )


def test_variables_are_plain_text_in_the_older_language():
    context = {"aws:username": ["anika"], "k": ["anika"]}
    assert not check("StringEquals", "${aws:username}", context, version="2008-10-17")
    assert check(
        "StringEquals", "${aws:username}", {"k": ["${aws:username}"]}, version="2008-10-17"
    )
