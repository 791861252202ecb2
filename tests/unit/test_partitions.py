"""AWS's partitions against botocore's own list."""

from __future__ import annotations

from botocore.loaders import create_loader

from terradask_modules.partitions import SUFFIXES, dns_suffix, partition_of
from terradask_modules.policies import PolicyScope, trust_policy


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
        partition="aws-eusc", region="eusc-de-east-1", account="123456789012", workspace="default"
    )
    assert scope.dns_suffix == "amazonaws.eu"
