"""Every right of the generated policies has a generator of calls, or a reason why it is not called:
a new right is attacked without a line for it, or fails here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.validate import ParamValidator

from terradask_modules.caller_policies import CallerScope, caller_policies
from terradask_modules.policies import PolicyScope, scheduler_policy, worker_policy
from terradask_modules.task_rights import TaskPolicy
from terradask_modules.where import Where

from ...simulator.acting import ACCOUNT, REGION
from .calls import Caller, NoValue
from .names import Names, kind_of
from .reach import NOT_COUNTED
from .rights import NOT_CALLED, NoCall, Right, calls_of, rights_of

SHARED = PolicyScope(
    where=Where(partition="aws", region=REGION, account=ACCOUNT, workspace="default"),
    data_buckets=("lake/raw",),
    task_policies=(TaskPolicy(arn=f"arn:aws:iam::{ACCOUNT}:policy/queries"),),
    kms_key_arn=f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0",
    session_manager=True,
)
ISOLATED = replace(SHARED, where=SHARED.where.of_cluster("etl"), groups=("scheduler", "workers"))
SCOPES = [
    CallerScope(
        hosts=SHARED,
        session_manager=True,
        private_clusters=("*",),
        settings=frozenset({"dual_stack"}),
    ),
    CallerScope(
        hosts=SHARED,
        isolated=True,
        network_state="state/network",
        settings=frozenset({"flow_logs"}),
    ),
    CallerScope(
        hosts=SHARED, own_templates=True, permissions_boundary=f"arn:aws:iam::{ACCOUNT}:policy/b"
    ),
]


def policies() -> Iterator[dict[str, Any]]:
    for scope in SCOPES:
        for caller in ("user", "ongoing", "ci"):
            yield from caller_policies(scope, caller).values()
    for place in (SHARED, ISOLATED):
        yield json.loads(scheduler_policy(place))
        yield json.loads(worker_policy(place))


RIGHTS = {f"{right.sid} {right.action}": right for right in rights_of(policies())}


def caller() -> Caller:
    tags = {"terradask:workspace": "default", "terradask:cluster": "etl"}
    return Caller(
        random.Random(0), Names({"object": ["prod-data/table"]}), tags, lambda key: key.encode()
    )


def test_every_right_has_calls_that_aws_would_take() -> None:
    drawing = caller()
    for name, right in RIGHTS.items():
        for _ in range(50):
            call = drawing.call(right)
            if call is None:
                assert NOT_CALLED[right.action], name
                break
            shape = call.api.model.input_shape
            report = None if shape is None else ParamValidator().validate(call.parameters, shape)
            assert report is None or not report.has_errors(), (name, report.generate_report())


def test_no_reason_is_left_over() -> None:
    assert set(NOT_CALLED) <= {right.action for right in RIGHTS.values()}


def test_every_resource_is_of_a_kind_with_names() -> None:
    patterns = {one for right in RIGHTS.values() for one in right.resources}
    assert {pattern for pattern in patterns if not kind_of(pattern)[0]} <= {"*"}
    assert not kind_of("*")[0]


def test_what_is_new_fails() -> None:
    with pytest.raises(NoCall, match="ec2:Nothing"):
        calls_of("ec2:Nothing")
    with pytest.raises(NoCall, match="nothing:Read"):
        calls_of("nothing:Read")
    with pytest.raises(LookupError, match="arn:aws:sqs"):
        kind_of(f"arn:aws:sqs:{REGION}:{ACCOUNT}:queue")
    with pytest.raises(NoValue, match="repositoryName"):
        caller().call(Right("New", "ecr:CreateRepository", ("*",)))
    # An operation of a service that is known, with parameters that are.
    assert caller().call(
        Right("New", "ec2:StopInstances", (f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/*",))
    )


def test_what_is_not_counted_is_said_in_the_docs() -> None:
    docs = Path(__file__).parents[3] / "docs"
    for what, (page, words) in NOT_COUNTED.items():
        assert words in " ".join((docs / page).read_text().split()), what
