"""Random requests, with policies that are close enough to them to matter: names, patterns and
conditions are drawn from a small world, so that about half of the requests are allowed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ACCOUNT = "123456789012"
USER = f"arn:aws:iam::{ACCOUNT}:user/anika"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/analyst"
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/analyst/i-1"
_HERE = f"us-east-1:{ACCOUNT}"
_ENTITIES = (USER, ROLE, ACCOUNT, f"arn:aws:iam::{ACCOUNT}:root")
_PRINCIPALS = (*_ENTITIES, SESSION, "*")
_TEAMS = ("red", "blue", "Red")

#: Action -> type of its resource, and ARNs of it.
ACTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "s3:GetObject": (
        "object",
        ("arn:aws:s3:::lake/raw/a.csv", "arn:aws:s3:::lake/b", "arn:aws:s3:::pond/raw/a"),
    ),
    "s3:PutObject": ("object", ("arn:aws:s3:::lake/raw/a.csv", "arn:aws:s3:::pond/x:y/z")),
    "s3:ListBucket": ("bucket", ("arn:aws:s3:::lake", "arn:aws:s3:::pond")),
    "ec2:TerminateInstances": (
        "instance",
        (f"arn:aws:ec2:{_HERE}:instance/i-0a1", f"arn:aws:ec2:{_HERE}:instance/i-0b2"),
    ),
    "ec2:CreateTags": (
        "volume",
        (f"arn:aws:ec2:{_HERE}:volume/vol-1", f"arn:aws:ec2:{_HERE}:volume/vol-2"),
    ),
    "ec2:DescribeInstances": ("", ("*",)),
    "autoscaling:DescribeAutoScalingGroups": ("", ("*",)),
    "autoscaling:SetDesiredCapacity": (
        "autoScalingGroup",
        (
            f"arn:aws:autoscaling:{_HERE}:autoScalingGroup:1-2:autoScalingGroupName/etl-workers",
            f"arn:aws:autoscaling:{_HERE}:autoScalingGroup:3-4:autoScalingGroupName/ml-workers",
        ),
    ),
    "iam:GetRole": (
        "role",
        (f"arn:aws:iam::{ACCOUNT}:role/analyst", f"arn:aws:iam::{ACCOUNT}:role/team/admin"),
    ),
    "logs:PutLogEvents": (
        "log-stream",
        (
            f"arn:aws:logs:{_HERE}:log-group:/etl:log-stream:i-1",
            f"arn:aws:logs:{_HERE}:log-group:/ml/a:log-stream:i-2",
        ),
    ),
    "secretsmanager:GetSecretValue": (
        "Secret",
        (
            f"arn:aws:secretsmanager:{_HERE}:secret:etl/key-AbCdEf",
            f"arn:aws:secretsmanager:{_HERE}:secret:ml/key-GhIjKl",
        ),
    ),
    "sns:Publish": ("topic", (f"arn:aws:sns:{_HERE}:ended", f"arn:aws:sns:{_HERE}:alarms")),
    "ssm:GetParameter": ("parameter", (f"arn:aws:ssm:{_HERE}:parameter/etl/size",)),
}
#: Those whose resources have policies of their own, and whose policies decide as others' do.
_WITH_POLICY = ("s3:", "secretsmanager:", "sns:")

_Draw = Callable[[random.Random], str]


def _one_of(*values: str) -> _Draw:
    return lambda draws: draws.choice(values)


_STRINGS = ("StringEquals", "StringEqualsIgnoreCase", "StringLike")
_NUMBERS = ("NumericEquals", "NumericLessThan", "NumericLessThanEquals", "NumericGreaterThan")
_DATES = ("DateEquals", "DateLessThan", "DateLessThanEquals", "DateGreaterThan")
_NOT = {"StringEquals": "StringNotEquals", "StringEqualsIgnoreCase": "StringNotEqualsIgnoreCase"}
_NOT |= {"StringLike": "StringNotLike", "IpAddress": "NotIpAddress", "ArnLike": "ArnNotLike"}
_NOT |= {"ArnEquals": "ArnNotEquals", "NumericEquals": "NumericNotEquals"}
_NOT |= {"DateEquals": "DateNotEquals"}

#: Keys of every request: operators, the policy's values and the request's.
_EVERYWHERE: dict[str, tuple[tuple[str, ...], _Draw, _Draw]] = {
    "aws:PrincipalTag/team": (_STRINGS, _one_of("red", "r*", "R?d", "blue"), _one_of(*_TEAMS)),
    "aws:RequestedRegion": (
        _STRINGS,
        _one_of("us-east-1", "us-*", "eu-west-1"),
        _one_of("us-east-1", "eu-west-1"),
    ),
    "aws:SecureTransport": (("Bool",), _one_of("true", "false", "True"), _one_of("true", "false")),
    "aws:SourceIp": (
        ("IpAddress",),
        _one_of("10.0.0.0/8", "10.1.2.3/32", "192.0.2.0/24", "2001:db8::/32"),
        _one_of("10.1.2.3", "10.9.0.1", "192.0.2.7", "2001:db8::7"),
    ),
    "aws:CurrentTime": (
        _DATES,
        _one_of("2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        _one_of("2026-06-01T00:00:00Z", "2026-11-27T04:00:00Z"),
    ),
    "aws:MultiFactorAuthAge": (
        _NUMBERS,
        _one_of("3600", "60", "60.0"),
        _one_of("59", "60", "7200"),
    ),
    "aws:SourceArn": (
        ("ArnLike", "ArnEquals"),
        _one_of("arn:aws:sns:*:*:ended", f"arn:aws:sns:{_HERE}:ended", "arn:aws:sns:us-east-1:*"),
        _one_of(f"arn:aws:sns:{_HERE}:ended", f"arn:aws:sns:{_HERE}:x:y"),
    ),
    "aws:UserAgent": (
        _STRINGS,
        _one_of("boto*", "${aws:PrincipalTag/team}", "${aws:PrincipalTag/none, 'boto'}", "*"),
        _one_of("boto", "red", "boto3"),
    ),
}
#: Keys that some actions alone carry.
_OF_SOME: dict[str, tuple[tuple[str, ...], _Draw, _Draw]] = {
    "aws:ResourceTag/team": (
        _STRINGS,
        _one_of("red", "r*", "${aws:PrincipalTag/team}"),
        _one_of(*_TEAMS),
    ),
    "aws:RequestTag/team": (_STRINGS, _one_of("red", "b*"), _one_of("red", "blue")),
    "s3:prefix": (
        _STRINGS,
        _one_of("raw", "raw/*", "${aws:PrincipalTag/team}/*"),
        _one_of("raw", "raw/x", "red/1"),
    ),
    "s3:max-keys": (_NUMBERS, _one_of("10", "100"), _one_of("10", "11")),
    "secretsmanager:VersionStage": (
        _STRINGS,
        _one_of("AWSCURRENT", "AWS*"),
        _one_of("AWSCURRENT", "AWSPENDING"),
    ),
}


@dataclass(frozen=True)
class Case:
    """A request with the documents that apply to it."""

    action: str
    resource: str
    kind: str
    principal: str
    context: Mapping[str, tuple[str, ...]]
    identity: tuple[dict[str, Any], ...]
    boundary: dict[str, Any] | None = None
    session: dict[str, Any] | None = None
    resource_policy: dict[str, Any] | None = None
    control: dict[str, Any] | None = field(default=None)

    def simulation(self) -> str:
        """Return the case as a line of JSON for the other evaluator."""
        named = [{"name": f"p{at}", "policy": each} for at, each in enumerate(self.identity)]
        simulation: dict[str, Any] = {
            "request": {
                "principal": self.principal,
                "action": self.action,
                "resource": {"resource": self.resource, "accountId": ACCOUNT},
                "contextVariables": {
                    key: list(values) if key == "aws:TagKeys" else values[0]
                    for key, values in self.context.items()
                },
            },
            "identityPolicies": named,
            "serviceControlPolicies": [],
            "resourceControlPolicies": [],
        }
        if self.control is not None:
            simulation["serviceControlPolicies"] = [
                {"orgIdentifier": "o-1", "policies": [{"name": "c", "policy": self.control}]}
            ]
        if self.boundary is not None:
            simulation["permissionBoundaryPolicies"] = [{"name": "b", "policy": self.boundary}]
        if self.session is not None:
            simulation["sessionPolicy"] = self.session
        if self.resource_policy is not None:
            simulation["resourcePolicy"] = self.resource_policy
        return json.dumps(simulation)


def case(draws: random.Random, carries: Callable[[str, str, str], bool]) -> Case:
    """Draw a case. `carries` tells which actions, on a type of resource, carry a condition key."""
    action = draws.choice(list(ACTIONS))
    kind, arns = ACTIONS[action]
    resource, principal = draws.choice(arns), draws.choice((USER, SESSION))
    own = {key: drawn for key, drawn in _OF_SOME.items() if carries(action, kind, key)}
    # Tags of buckets count only where a bucket says so.
    keys = _EVERYWHERE | ({} if action.startswith("s3:") and "aws:ResourceTag/team" in own else own)
    of_others = {
        key: drawn for key, drawn in _OF_SOME.items() if ":" in key and not key.startswith("aws:")
    }
    context = {
        key: (value(draws),)
        for key, (_, _, value) in (keys | of_others).items()
        if draws.random() < 0.6 or key == "aws:PrincipalTag/team"
    }
    context["aws:PrincipalArn"] = (ROLE if principal == SESSION else USER,)
    context["aws:PrincipalAccount"] = (ACCOUNT,)
    if carries(action, kind, "aws:TagKeys") and draws.random() < 0.7:
        context["aws:TagKeys"] = tuple(draws.sample(("team", "cost", "name"), draws.randint(1, 3)))
    writer = _Writer(draws, action, resource, keys | of_others, tags="aws:TagKeys" in context)
    boundary = writer.policy() if draws.random() < 0.25 else None
    session = writer.policy() if principal == SESSION and draws.random() < 0.25 else None
    writer.principals = _PRINCIPALS if boundary is None and session is None else _ENTITIES
    has_policy = action.startswith(_WITH_POLICY) and draws.random() < 0.4
    return Case(
        action,
        resource,
        kind,
        principal,
        context,
        tuple(writer.policy() for _ in range(draws.randint(1, 2))),
        boundary=boundary,
        session=session,
        resource_policy=writer.policy(of_resource=True) if has_policy else None,
        control=writer.policy() if draws.random() < 0.2 else None,
    )


class _Writer:
    """Writes policies about one request."""

    def __init__(
        self,
        draws: random.Random,
        action: str,
        resource: str,
        keys: Mapping[str, tuple[tuple[str, ...], _Draw, _Draw]],
        *,
        tags: bool,
    ) -> None:
        self._draws, self._action, self._resource, self._tags = draws, action, resource, tags
        self._keys = keys
        self.principals = _PRINCIPALS

    def policy(self, *, of_resource: bool = False) -> dict[str, Any]:
        number = self._draws.randint(1, 3)
        return {
            "Version": "2012-10-17",
            "Statement": [self._statement(of_resource=of_resource) for _ in range(number)],
        }

    def _statement(self, *, of_resource: bool) -> dict[str, Any]:
        draws = self._draws
        statement: dict[str, Any] = {"Effect": draws.choices(("Allow", "Deny"), (8, 2))[0]}
        actions = [self._action_pattern() for _ in range(draws.randint(1, 2))]
        statement["NotAction" if draws.random() < 0.1 else "Action"] = actions
        resources = [self._resource_pattern() for _ in range(draws.randint(1, 2))]
        statement["NotResource" if draws.random() < 0.1 else "Resource"] = resources
        if of_resource:
            statement["Principal"] = self._principal()
        if draws.random() < 0.5:
            statement["Condition"] = self._condition()
        return statement

    def _principal(self) -> Any:
        name = self._draws.choice(self.principals)
        return name if name == "*" and self._draws.random() < 0.5 else {"AWS": name}

    def _action_pattern(self) -> str:
        draws = self._draws
        service, _, name = self._action.partition(":")
        return draws.choice(
            (
                self._action,
                self._action,
                f"{service}:*",
                f"{service}:{name[:3]}*",
                f"{service.upper()}:{name.lower()}",
                f"{service}:{name[:-1]}?",
                f"{service}:*{name[-4:]}",
                draws.choice(list(ACTIONS)),
                f"{service}:{name}s",
            )
        )

    def _resource_pattern(self) -> str:
        draws, arn = self._draws, self._resource
        others = ACTIONS[self._action][1]
        if arn == "*" or draws.random() < 0.3:
            return draws.choice(("*", "*", draws.choice(others)))
        # The name, after the last part that says what it is.
        parts = arn.split(":", 5)
        start = len(arn) - len(parts[5]) + _type_length(parts)
        at = draws.randint(start, len(arn) - 1)
        until = draws.randint(at, len(arn))
        return draws.choice(
            (
                arn,
                f"{arn[:at]}*",
                f"{arn[:at]}*{arn[until:]}",
                f"{arn[:at]}?{arn[at + 1 :]}",
                f"{arn[:start]}*",
                f"{arn[:start]}${{aws:PrincipalTag/team}}{arn[at:]}",
                arn.replace("us-east-1", draws.choice(("*", "us-*", "eu-west-1"))),
                arn.replace(ACCOUNT, draws.choice(("*", "1234567890??", "210987654321"))),
                # A wildcard in the type of a resource.
                f"{arn[: start - 2]}*{arn[start - 1 :]}"
                if start > len(arn) - len(parts[5])
                else arn,
                draws.choice(others),
            )
        )

    def _condition(self) -> dict[str, Any]:
        draws = self._draws
        lines: dict[str, dict[str, Any]] = {}
        for key in draws.sample(list(self._keys), draws.randint(1, 2)):
            operators, wanted, _ = self._keys[key]
            operator = draws.choice(operators)
            if draws.random() < 0.25:
                operator = _NOT.get(operator, operator)
            if draws.random() < 0.25:
                operator += "IfExists"
            if draws.random() < 0.1:
                operator, values = "Null", [draws.choice(("true", "false"))]
            else:
                values = [wanted(draws) for _ in range(draws.randint(1, 2))]
            lines.setdefault(operator, {})[key] = values
        if self._tags and draws.random() < 0.5:
            operator = f"{draws.choice(('ForAllValues', 'ForAnyValue'))}:{draws.choice(_STRINGS)}"
            lines.setdefault(operator, {})["aws:TagKeys"] = draws.sample(("team", "cost", "n*"), 2)
        return lines


def _type_length(parts: list[str]) -> int:
    """Return the length of the part of a resource that names its type, with what ends it."""
    if not parts[3] and not parts[4]:
        return 0
    ends = [parts[5].find(sign) for sign in "/:" if sign in parts[5]]
    return min(ends) + 1 if ends else 0
