"""The embedded AWS's IAM evaluator beside an independent one, @cloud-copilot/iam-simulate: the same
requests, the same decisions.

It runs as a program of its own: npm installs it here alone, and no distribution has it.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.documents import Policy
from terradask_simulator.aws.iam.evaluation import Policies, Request, evaluate
from terradask_simulator.aws.iam.mapping import context_of
from terradask_simulator.aws.iam.mapping.need import Need

from ..seeds import drawn
from .random_policies import ACCOUNT, ROLE, SESSION, USER, Case, case

FOLDER = Path(__file__).with_name("iam_simulate")
#: Keys that belong to actions; all others are in every request.
_OF_ACTIONS = ("aws:ResourceTag/", "aws:RequestTag/", "aws:TagKeys")


@pytest.fixture(scope="module")
def node() -> str:
    program = shutil.which("node")
    if program is None or not (FOLDER / "node_modules/@cloud-copilot/iam-simulate").exists():
        pytest.skip(
            "@cloud-copilot/iam-simulate is not installed: run make iam-oracle, which needs npm "
            "(or: cd tests/oracles/iam_simulate && npm ci)"
        )
    return program


def theirs(node: str, cases: Sequence[Case]) -> list[str]:
    """Return the other evaluator's decisions, or what it finds wrong with a case."""
    done = subprocess.run(
        [node, "decide.mjs"],
        cwd=FOLDER,
        input="".join(f"{one.simulation()}\n" for one in cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line)["decision"] for line in done.stdout.splitlines()]


def ours(one: Case) -> str:
    """Return our evaluator's decision, in the other's words."""
    of_action, common = {}, {}
    for key, values in one.context.items():
        is_own = key.startswith(_OF_ACTIONS) or not key.startswith("aws:")
        (of_action if is_own else common)[key] = values
    context = context_of(Need(one.action, one.resource, one.kind, context=of_action), common)
    request = Request(one.action, one.resource, context, one.principal)

    def parsed(document: dict[str, Any] | None) -> Policy | None:
        return None if document is None else Policy.parse(document)

    policies = Policies(
        identity=tuple(map(Policy.parse, one.identity)),
        boundary=parsed(one.boundary),
        session=parsed(one.session),
        resource=parsed(one.resource_policy),
    )
    decisions = [evaluate(request, policies)]
    if one.control is not None:
        # An organization's policy allows what an identity's could.
        decisions.append(evaluate(request, [Policy.parse(one.control)]))
    if all(decision.allowed for decision in decisions):
        return "Allowed"
    denied = any(not one.allowed and one.statement is not None for one in decisions)
    return "ExplicitlyDenied" if denied else "ImplicitlyDenied"


def disagreements(node: str, draws: random.Random, number: int) -> list[tuple[Case, str, str]]:
    cases = [case(draws, reference.carries) for _ in range(number)]
    answers = theirs(node, cases)
    decisions = [ours(one) for one in cases]
    assert len(answers) == number
    # What decides nothing would prove nothing.
    assert number / 5 < decisions.count("Allowed") < number * 4 / 5
    return [
        (one, decided, answer)
        for one, decided, answer in zip(cases, decisions, answers, strict=True)
        if decided != answer
    ]


@pytest.mark.life
def test_hundreds_of_random_policies_are_decided_alike(node: str) -> None:
    assert disagreements(node, drawn("policies"), 500) == []


@pytest.mark.soak
def test_twelve_thousand_random_policies_are_decided_alike(node: str) -> None:
    assert disagreements(node, drawn("policies"), 12_000) == []


def _allowing(**more: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", **more}
    return {"Version": "2012-10-17", "Statement": [statement]}


_NOTHING = _allowing(Action="s3:PutObject")


def _asked(
    *identity: dict[str, Any], principal: str = USER, context: Any = (), **more: Any
) -> Case:
    keys = {"aws:PrincipalArn": (ROLE if principal == SESSION else USER,), **dict(context)}
    keys["aws:PrincipalAccount"] = (ACCOUNT,)
    return Case("s3:GetObject", "arn:aws:s3:::lake/a", "object", principal, keys, identity, **more)


#: Random policies leave these out: name -> the case. Ours allows them all but the last.
DIFFERENT = {
    # EC2's guide has it in examples: supported-iam-actions-tagging.html
    "a star in place of a type": replace(
        _asked(_allowing(Action="ec2:CreateTags", Resource="arn:aws:ec2:*:*:*/*")),
        action="ec2:CreateTags",
        resource=f"arn:aws:ec2:us-east-1:{ACCOUNT}:volume/vol-1",
        kind="volume",
    ),
    # It isn't the one address: NotIpAddress admits all others.
    "an address of IPv4, and another of IPv6": _asked(
        _allowing(Condition={"NotIpAddress": {"aws:SourceIp": "10.1.2.3"}}),
        context={"aws:SourceIp": ("2001:db8::1",)},
    ),
    # reference_policies_variables.html#policy-vars-no-value: negated operators match then.
    "a negated operator and a variable without a value": _asked(
        _allowing(Condition={"StringNotEquals": {"aws:UserAgent": "${aws:PrincipalTag/team}"}}),
        context={"aws:UserAgent": ("boto",)},
    ),
    # access_policies.html#policies_session: a session policy doesn't limit what is granted to it.
    "a resource policy that names a session": _asked(
        principal=SESSION,
        session=_NOTHING,
        resource_policy=_allowing(Principal={"AWS": SESSION}),
    ),
    # No page forbids a tag without text.
    "a variable with an empty value": _asked(
        _allowing(Resource="arn:aws:s3:::${aws:PrincipalTag/team}lake/a"),
        context={"aws:PrincipalTag/team": ("",)},
    ),
    # access_policies_boundaries.html: an implicit denial of a role's boundary limits such a grant.
    "a grant to everybody, and a boundary": _asked(
        principal=SESSION, boundary=_NOTHING, resource_policy=_allowing(Principal="*")
    ),
}


@pytest.mark.life
def test_what_is_left_out_is_decided_otherwise(node: str) -> None:
    decided = [ours(one) for one in DIFFERENT.values()]
    assert decided == ["Allowed"] * 5 + ["ImplicitlyDenied"]
    assert theirs(node, list(DIFFERENT.values())) == ["ImplicitlyDenied"] * 5 + ["Allowed"]
