"""Policies and requests, as short as they can be written."""

from terradask_simulator.iam import Policy, Request, evaluate

ACCOUNT = "123456789012"
USER = f"arn:aws:iam::{ACCOUNT}:user/anika"
ROLE, SESSION = (
    f"arn:aws:iam::{ACCOUNT}:role/team/analyst",
    f"arn:aws:sts::{ACCOUNT}:assumed-role/analyst/i-1",
)


def policy(*statements, version="2012-10-17"):
    return Policy.parse({"Version": version, "Statement": list(statements)})


def allow(action, resource="*", **more):
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action, resource="*", **more):
    return {**allow(action, resource, **more), "Effect": "Deny"}


def asks(action, resource="*", principal=USER, **context):
    entity = ROLE if principal == SESSION else principal
    keys = {"aws:PrincipalArn": (entity,), "aws:PrincipalAccount": (ACCOUNT,)}
    keys |= {
        key: (value,) if isinstance(value, str) else tuple(value)
        for key, value in context.get("context", {}).items()
    }
    return Request(action, resource, keys, principal)


def allowed(request, *statements):
    return evaluate(request, [policy(*statements)]).allowed
