"""Buckets and security group rules of the embedded AWS behave as AWS documents, where moto alone
does not.
"""

from __future__ import annotations

import json
from typing import Any

import botocore.exceptions
import pytest

pytestmark = pytest.mark.simulator


@pytest.fixture(scope="module")
def s3(network: Any) -> Any:
    return network.client("s3")


def policy(bucket: str, **statement: Any) -> str:
    whole = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        **statement,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [whole]})


def test_deny_without_tls_denies_nothing_here_and_a_plain_deny_does(s3):
    s3.create_bucket(Bucket="policies")
    unencrypted = {"Bool": {"aws:SecureTransport": "false"}}
    s3.put_bucket_policy(Bucket="policies", Policy=policy("policies", Condition=unencrypted))
    s3.put_object(Bucket="policies", Key="k", Body=b"x")
    assert s3.get_object(Bucket="policies", Key="k")["Body"].read() == b"x"
    assert "SecureTransport" in s3.get_bucket_policy(Bucket="policies")["Policy"]
    s3.put_bucket_policy(Bucket="policies", Policy=policy("policies"))
    with pytest.raises(botocore.exceptions.ClientError, match="Forbidden"):
        s3.put_object(Bucket="policies", Key="k", Body=b"x")


def test_a_versioned_bucket_can_be_emptied(s3):
    s3.create_bucket(Bucket="versions")
    s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="versions", Key="k", Body=b"x")
    s3.delete_object(Bucket="versions", Key="k")
    listed = s3.list_object_versions(Bucket="versions")
    versions = [
        {"Key": one["Key"], "VersionId": one["VersionId"]}
        for one in [*listed["Versions"], *listed["DeleteMarkers"]]
    ]
    assert len(versions) == 2
    assert "Errors" not in s3.delete_objects(Bucket="versions", Delete={"Objects": versions})
    s3.delete_bucket(Bucket="versions")


def test_objects_of_young_buckets_are_missed_and_listed(network, s3):
    for bucket in ("young", "never"):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket="young", VersioningConfiguration={"Status": "Enabled"})
    for bucket in ("young", "never"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with network.sim.hide_objects(1.0):
        with pytest.raises(s3.exceptions.NoSuchKey):
            s3.get_object(Bucket="young", Key="k")
        with pytest.raises(botocore.exceptions.ClientError, match="404"):
            s3.head_object(Bucket="young", Key="k")
        assert s3.list_objects_v2(Bucket="young")["KeyCount"] == 1
        assert s3.get_object(Bucket="never", Key="k")["Body"].read() == b"x"
        with pytest.raises(botocore.exceptions.ClientError, match="Precondition"):
            s3.put_object(Bucket="young", Key="k", Body=b"y", IfNoneMatch="*")
    with network.sim.hide_objects(1.0, seconds=0.0):
        assert s3.get_object(Bucket="young", Key="k")["Body"].read() == b"x"


def codes_of(call: Any, times: int = 12, **asked: Any) -> set[tuple[int, str]]:
    """Return the errors of some calls that all fail."""
    codes = set()
    for _ in range(times):
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            call(**asked)
        answer = caught.value.response
        codes.add((answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]))
    return codes


def test_calls_to_a_bucket_that_was_just_made_fail_and_the_next_ones_do_not(network, s3):
    s3.create_bucket(Bucket="just-made")
    bucket = {"Bucket": "just-made"}
    on = {**bucket, "VersioningConfiguration": {"Status": "Enabled"}}
    missing, aborted = (404, "NoSuchBucket"), (409, "OperationAborted")
    with network.sim.unsettle_buckets(1.0, seconds=1e6, seed=1):
        assert codes_of(s3.put_bucket_versioning, 3, **on) == {aborted}
        assert codes_of(s3.get_bucket_versioning, 3, **bucket) == {missing}
        assert codes_of(s3.delete_bucket_policy, 3, **bucket) == {aborted}
        assert codes_of(s3.put_object, 3, **bucket, Key="k", Body=b"x") == {missing}
        assert codes_of(s3.list_objects_v2, 3, **bucket) == {missing}
        assert codes_of(s3.head_bucket, 3, **bucket) == {(404, "404")}
    with network.sim.unsettle_buckets(0.5, seconds=1e6, seed=1):
        assert codes_of(s3.put_bucket_versioning, **on) == {missing, aborted}
    s3.put_bucket_versioning(**on)
    with network.sim.unsettle_buckets(1.0, seconds=0.0):
        s3.put_object(**bucket, Key="k", Body=b"x")


def test_a_bucket_that_was_just_deleted_is_made_again_a_moment_later(network, s3):
    s3.create_bucket(Bucket="made-twice")
    s3.delete_bucket(Bucket="made-twice")
    with network.sim.unsettle_buckets(1.0, seed=1):
        assert codes_of(s3.create_bucket, 3, Bucket="made-twice") == {(409, "OperationAborted")}
    s3.create_bucket(Bucket="made-twice")


def test_a_bucket_of_another_account_is_refused_to_those_who_expect_this_one(network, s3):
    for bucket in ("given", "own"):
        s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    with network.sim.give_bucket("given", "210987654321"):
        for owner in ({}, {"ExpectedBucketOwner": "210987654321"}):
            assert s3.get_object(Bucket="given", Key="k", **owner)["Body"].read() == b"x"
        mine = "123456789012"
        copied = {"Bucket": "own", "Key": "k", "CopySource": {"Bucket": "given", "Key": "k"}}
        s3.copy_object(**copied, ExpectedBucketOwner=mine)
        for call, parameters in (
            (s3.get_object, {"Bucket": "given", "Key": "k", "ExpectedBucketOwner": mine}),
            (s3.head_bucket, {"Bucket": "given", "ExpectedBucketOwner": mine}),
            (s3.copy_object, {**copied, "ExpectedSourceBucketOwner": mine}),
        ):
            with pytest.raises(botocore.exceptions.ClientError) as caught:
                call(**parameters)
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert s3.head_bucket(Bucket="given", ExpectedBucketOwner=mine)


def test_rules_keep_their_description_whatever_their_peer_is(network):
    own = network.security_group
    peers: list[dict[str, Any]] = [
        {"UserIdGroupPairs": [{"GroupId": own, "Description": "between hosts"}]},
        {"IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "a block"}]},
    ]
    for peer in peers:
        permission = {"IpProtocol": "tcp", "FromPort": 9000, "ToPort": 9001, **peer}
        network.ec2.authorize_security_group_ingress(GroupId=own, IpPermissions=[permission])
    rules = network.ec2.describe_security_group_rules(
        Filters=[{"Name": "group-id", "Values": [own]}]
    )["SecurityGroupRules"]
    (block,) = [
        rule["SecurityGroupRuleId"] for rule in rules if rule.get("CidrIpv4") == "10.0.0.0/8"
    ]
    network.ec2.revoke_security_group_ingress(GroupId=own, SecurityGroupRuleIds=[block])
    with pytest.raises(
        botocore.exceptions.ClientError, match=r"InvalidSecurityGroupRuleId\.NotFound"
    ) as caught:
        network.ec2.revoke_security_group_ingress(GroupId=own, SecurityGroupRuleIds=[block])
    assert block in str(caught.value)
    assert sorted(rule["Description"] for rule in rules if not rule["IsEgress"]) == [
        "a block",
        "between hosts",
    ]
