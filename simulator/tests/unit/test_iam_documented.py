"""A table of what the IAM user guide says about decisions, each row with its page, decided by the
evaluator.

The families of operators, boundaries and resources' policies have tests of their own in
test_iam_conditions.py and test_iam_evaluation.py; here is what is easily got wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from terradask_simulator.aws.iam.conditions import UnknownOperator
from terradask_simulator.iam import Policies, Policy, Request, evaluate

GUIDE = "https://docs.aws.amazon.com/IAM/latest/UserGuide/"
OPERATORS, SETS = (
    "reference_policies_elements_condition_operators.html",
    "reference_policies_condition-single-vs-multi-valued-context-keys.html",
)
LOGIC, RESOURCE = (
    "reference_policies_evaluation-logic.html",
    "reference_policies_elements_resource.html",
)
VARIABLES, SEVERAL = (
    "reference_policies_variables.html",
    "reference_policies_condition-logic-multiple-context-keys-or-values.html",
)
BUCKET = "arn:aws:s3:::photos"
USER = "arn:aws:iam::123456789012:user/anika"


@dataclass(frozen=True)
class Case:
    """Statements, a request, and what comes of it."""

    page: str
    allowed: bool
    statements: tuple[dict[str, Any], ...]
    context: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    action: str = "s3:GetObject"
    resource: str = f"{BUCKET}/2026/a.jpg"
    version: str = "2012-10-17"


def allow(**more: Any) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Resource": "*",
        **({} if "NotAction" in more else {"Action": "*"}),
        **more,
    }


def deny(**more: Any) -> dict[str, Any]:
    return {**allow(**more), "Effect": "Deny"}


def only(**condition: Any) -> tuple[dict[str, Any], ...]:
    """Allow everything under one condition, with ``__`` for the colon of an operator."""
    return (
        allow(
            Condition={operator.replace("__", ":"): keys for operator, keys in condition.items()}
        ),
    )


def on(resource: str) -> tuple[dict[str, Any], ...]:
    return (allow(Resource=resource),)


CASES = {
    # Allow and deny
    "an allow is enough": Case(LOGIC, True, (allow(),)),
    "a denial beside the request changes nothing": Case(
        LOGIC, True, (allow(), deny(Action="s3:Put*"))
    ),
    "the order of statements changes nothing": Case(LOGIC, False, (deny(), allow())),
    "a denial whose condition doesn't hold changes nothing": Case(
        LOGIC,
        True,
        (allow(), deny(Condition={"Bool": {"aws:SecureTransport": "false"}})),
        {"aws:SecureTransport": "true"},
    ),
    # Actions and resources
    "NotAction doesn't deny what it names": Case(
        "reference_policies_elements_notaction.html",
        True,
        (allow(NotAction="s3:*"), allow(Action="s3:GetObject")),
    ),
    "NotResource allows every other resource": Case(
        "reference_policies_elements_notresource.html",
        True,
        ({"Effect": "Allow", "Action": "s3:*", "NotResource": f"{BUCKET}/2025/*"},),
    ),
    "a bucket is none of its objects": Case(RESOURCE, False, on(BUCKET)),
    "objects are no bucket": Case(
        RESOURCE, False, on(f"{BUCKET}/*"), resource=BUCKET, action="s3:ListBucket"
    ),
    "a star stands for slashes too": Case(RESOURCE, True, on("arn:aws:s3:::photos/*.jpg")),
    "a star stands for nothing too": Case(RESOURCE, True, on(f"{BUCKET}/2026/a.jpg*")),
    "a question mark stands for one letter": Case(RESOURCE, True, on(f"{BUCKET}/202?/a.jpg")),
    "a question mark stands for no more": Case(RESOURCE, False, on(f"{BUCKET}/20?/a.jpg")),
    "a star at the end of a part reaches over colons": Case(RESOURCE, True, on("arn:aws:s3:*")),
    "a star at the end of a part reaches over the next ones": Case(
        RESOURCE,
        True,
        on("arn:aws:ec2:us-*:instance/i-1"),
        action="ec2:StopInstances",
        resource="arn:aws:ec2:us-east-1:1:instance/i-1",
    ),
    "a star inside a part doesn't": Case(
        RESOURCE,
        False,
        on("arn:aws:ec2:u*1:instance/i-1"),
        action="ec2:StopInstances",
        resource="arn:aws:ec2:us-east-1:1:instance/i-1",
    ),
    "what follows the star must be there": Case(
        RESOURCE,
        False,
        on("arn:aws:ec2:us-*:volume/*"),
        action="ec2:StopInstances",
        resource="arn:aws:ec2:us-east-1:1:instance/i-1",
    ),
    # Values and keys
    "an address without a prefix is one address": Case(
        OPERATORS, False, only(IpAddress={"k": "203.0.113.7"}), {"k": "203.0.113.8"}
    ),
    # Keys that aren't there
    "a denial on a missing key": Case(
        OPERATORS, True, (allow(), deny(Condition={"StringEquals": {"k": "a"}}))
    ),
    "a negated denial on a missing key": Case(
        OPERATORS, False, (allow(), deny(Condition={"StringNotEquals": {"k": "a"}}))
    ),
    "a negated IfExists without the key": Case(
        OPERATORS, True, only(StringNotEqualsIfExists={"k": "a"})
    ),
    "a denial with BoolIfExists, and a key that long-term credentials don't carry": Case(
        OPERATORS,
        False,
        (allow(), deny(Condition={"BoolIfExists": {"aws:MultiFactorAuthPresent": "false"}})),
    ),
    "a denial with Bool alone lets them pass": Case(
        OPERATORS,
        True,
        (allow(), deny(Condition={"Bool": {"aws:MultiFactorAuthPresent": "false"}})),
    ),
    # Keys with several values
    "ForAllValues with a Null that forbids the lack of the key": Case(
        SETS,
        False,
        only(ForAllValues__StringEquals={"aws:TagKeys": ["a"]}, Null={"aws:TagKeys": "false"}),
    ),
    "a denial with ForAllValues acts without the key": Case(
        SETS,
        False,
        (allow(), deny(Condition={"ForAllValues:StringEquals": {"aws:TagKeys": ["a"]}})),
    ),
    "a denial with ForAnyValue acts on one": Case(
        SETS,
        False,
        (allow(), deny(Condition={"ForAnyValue:StringEquals": {"aws:TagKeys": ["a"]}})),
        {"aws:TagKeys": ("a", "b")},
    ),
    # Variables
    "a variable without a value denies nothing": Case(
        VARIABLES, True, (allow(), deny(Resource=f"{BUCKET}/${{aws:username}}*"))
    ),
    "a variable's default": Case(
        VARIABLES, True, on(f"{BUCKET}/${{aws:PrincipalTag/year, '2026'}}/*")
    ),
    "a variable's value is no pattern": Case(
        VARIABLES, False, on(f"{BUCKET}/${{aws:username}}"), {"aws:username": "*"}
    ),
    "a key with several values stands for none": Case(
        VARIABLES, False, on(f"{BUCKET}/${{aws:TagKeys}}/*"), {"aws:TagKeys": ("2026", "b")}
    ),
    "a variable in a condition on an ARN": Case(
        VARIABLES,
        True,
        only(ArnLike={"k": "arn:aws:iam::1:user/${aws:username}"}),
        {"k": "arn:aws:iam::1:user/a", "aws:username": "a"},
    ),
    "no variable in a condition on a number": Case(
        VARIABLES, False, only(NumericEquals={"k": "${l}"}), {"k": "1", "l": "1"}
    ),
    "no variable in a condition on a flag": Case(
        VARIABLES, False, only(Bool={"k": "${l}"}), {"k": "true", "l": "true"}
    ),
    "no variables in the older language": Case(
        VARIABLES,
        False,
        on(f"{BUCKET}/${{aws:username}}/*"),
        {"aws:username": "2026"},
        version="2008-10-17",
    ),
    "a star that is meant": Case(VARIABLES, False, on(f"{BUCKET}/${{*}}")),
}


@pytest.mark.parametrize("name", CASES)
def test_the_guide_says(name: str) -> None:
    case = CASES[name]
    held = Policy.parse({"Version": case.version, "Statement": list(case.statements)})
    context = {
        key: (value,) if isinstance(value, str) else value for key, value in case.context.items()
    }

    assert (
        evaluate(Request(case.action, case.resource, context, USER), [held]).allowed is case.allowed
    ), GUIDE + case.page


#: Kinds of policies, by whether each allows (True), says nothing (None) or denies (False): `how
#: they go together
#: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-basics-single-account.html>`_,
#: boundaries: ``access_policies_boundaries.html``, sessions:
#: ``access_policies.html#policies_session``.
TOGETHER = [
    # identity, boundary, session, resource (naming the user), allowed
    (True, "none", "none", None, True),
    (None, "none", "none", None, False),
    (None, "none", "none", True, True),
    (True, "none", "none", False, False),
    (False, "none", "none", True, False),
    (True, True, "none", None, True),
    (True, None, "none", None, False),
    (True, False, "none", None, False),
    (None, True, "none", None, False),
    # A resource's policy that names a user grants whatever the user's boundary leaves open, not
    # what it denies.
    (None, None, "none", True, True),
    (None, False, "none", True, False),
    (True, True, True, None, True),
    (True, True, None, None, False),
    (True, "none", False, None, False),
]


@pytest.mark.parametrize(("identity", "boundary", "session", "resource", "expected"), TOGETHER)
def test_kinds_of_policies_go_together(
    identity: Any, boundary: Any, session: Any, resource: Any, expected: bool
) -> None:
    def one(says: Any, **more: Any) -> Policy | None:
        if says == "none":
            return None
        effects = {True: ["Allow"], False: ["Allow", "Deny"], None: []}[says]
        statements = [
            {"Effect": effect, "Action": "*", "Resource": "*", **more} for effect in effects
        ]
        return Policy.parse({"Version": "2012-10-17", "Statement": statements})

    request = Request(
        "s3:GetObject",
        f"{BUCKET}/a",
        {"aws:PrincipalArn": (USER,), "aws:PrincipalAccount": ("123456789012",)},
        USER,
    )
    own = one(identity)
    assert own is not None
    policies = Policies((own,), one(boundary), one(session), one(resource, Principal={"AWS": USER}))
    assert evaluate(request, policies).allowed is expected


def test_there_is_no_null_if_exists() -> None:
    """OPERATORS: ``IfExists`` goes with every operator but ``Null``."""
    held = Policy.parse({"Statement": only(NullIfExists={"k": "true"})})
    with pytest.raises(UnknownOperator):
        evaluate(Request("s3:GetObject", "*"), [held])
