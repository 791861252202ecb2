"""AWS's partitions against botocore's own list."""

from __future__ import annotations

import pytest
from botocore.loaders import create_loader

from terradask_modules.partitions import SUFFIXES, dns_suffix, partition_of
from terradask_modules.policies import PolicyScope, trust_policy
from terradask_modules.where import Where
from terradask_simulator.iam import Policies, Policy, Request, evaluate

ACCOUNT = "123456789012"


def test_regions_and_suffixes_are_those_of_botocore() -> None:
    listed = create_loader().load_data("partitions")["partitions"]
    assert len(listed) >= 8
    for partition in listed:
        assert dns_suffix(partition["id"]) == partition["outputs"]["dnsSuffix"]
        for region in partition["regions"]:
            if not region.endswith("-global"):
                assert partition_of(region) == partition["id"], region
    assert set(SUFFIXES) == {partition["outputs"]["dnsSuffix"] for partition in listed}


def test_services_are_named_as_in_their_partition() -> None:
    assert '"ec2.amazonaws.com.cn"' in trust_policy("aws-cn")
    assert '"ec2.amazonaws.com"' in trust_policy("aws-us-gov")
    scope = PolicyScope(
        where=Where(
            partition="aws-eusc",
            region="eusc-de-east-1",
            account="123456789012",
            workspace="default",
        )
    )
    assert scope.where.dns_suffix == "amazonaws.eu"


@pytest.mark.parametrize(
    ("partition", "service", "expected"),
    [
        ("aws", "ec2.amazonaws.com", True),
        ("aws-cn", "ec2.amazonaws.com.cn", True),
        ("aws", "lambda.amazonaws.com", False),
    ],
)
def test_roles_are_handed_to_instances_alone(partition: str, service: str, expected: bool) -> None:
    (statement,) = Policy.parse(trust_policy(partition)).statements
    assert (("Service", service) in statement.principals) is expected
    assert len(statement.principals) == 1
    request = Request(
        "sts:AssumeRole",
        "*",
        {"aws:PrincipalAccount": (ACCOUNT,)},
        f"arn:aws:iam::{ACCOUNT}:user/anika",
    )
    own = Policy.parse(
        {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
    )
    assert not evaluate(
        request, Policies((own,), resource=Policy.parse(trust_policy(partition)))
    ).allowed
