"""What hosts' roles may do with topics of SNS, as IAM would decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from terradask_modules.policies import scheduler_policy, worker_policy
from terradask_simulator.iam import Policy, Request, evaluate

from .test_host_rights import ACCOUNT, REGION, SCOPES

TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:dask"


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("sns:Publish", TOPIC, True),
        ("sns:Publish", f"{TOPIC}-two", False),
        ("sns:Publish", "*", False),
        ("sns:Subscribe", TOPIC, False),
    ],
)
def test_a_schedulers_host_tells_its_topic_alone(
    scope: str, action: str, resource: str, allowed: bool
) -> None:
    where = replace(SCOPES[scope], notify_topic_arn=TOPIC)
    request = Request(action, resource, {})
    may = [
        evaluate(request, [Policy.parse(policy(where))]).allowed
        for policy in (scheduler_policy, worker_policy)
    ]
    assert may == [allowed, False]
