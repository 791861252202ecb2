"""Operations on objects, secrets and keys become the permissions that AWS asks for; the pages are
named where they say so.
"""

from __future__ import annotations

import pytest
from tests.unit.iam_requests import ACCOUNT, REGION, SmallWorld, asked, call, context, rest

from terradask_simulator.aws.iam.mapping.s3 import BUCKET_PARTS, OBJECT_PARTS

SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:"


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
@pytest.mark.parametrize(
    ("method", "path", "string", "expected"),
    [
        ("GET", "/", "", [("ListAllMyBuckets", "*")]),
        ("PUT", "/b", "", [("CreateBucket", "b")]),
        ("HEAD", "/b", "", [("ListBucket", "b")]),
        ("GET", "/b", "list-type=2&prefix=a", [("ListBucket", "b")]),
        ("GET", "/b", "versions&prefix=a", [("ListBucketVersions", "b")]),
        ("GET", "/b", "encryption", [("GetEncryptionConfiguration", "b")]),
        ("PUT", "/b", "lifecycle", [("PutLifecycleConfiguration", "b")]),
        ("DELETE", "/b", "publicAccessBlock", [("PutBucketPublicAccessBlock", "b")]),
        ("DELETE", "/b", "policy", [("DeleteBucketPolicy", "b")]),
        ("GET", "/b/k", "", [("GetObject", "b/k")]),
        ("HEAD", "/b/k", "", [("GetObject", "b/k")]),
        ("GET", "/b/k", "versionId=1", [("GetObjectVersion", "b/k")]),
        ("GET", "/b/k", "tagging", [("GetObjectTagging", "b/k")]),
        ("PUT", "/b/k/l", "", [("PutObject", "b/k/l")]),
        ("DELETE", "/b/k", "", [("DeleteObject", "b/k")]),
        ("DELETE", "/b/k", "versionId=1", [("DeleteObjectVersion", "b/k")]),
        ("POST", "/b/k", "uploads", [("PutObject", "b/k")]),
        ("PUT", "/b/k", "partNumber=1&uploadId=x", [("PutObject", "b/k")]),
        ("POST", "/b/k", "uploadId=x", [("PutObject", "b/k")]),
        ("DELETE", "/b/k", "uploadId=x", [("AbortMultipartUpload", "b/k")]),
        ("GET", "/b/k", "uploadId=x", [("ListMultipartUploadParts", "b/k")]),
        ("GET", "/b/k", "attributes", [("GetObject", "b/k"), ("GetObjectAttributes", "b/k")]),
    ],
)
def test_s3(method, path, string, expected):
    found = asked(rest(method, path, string), SmallWorld(objects={"b/k"}))
    assert found == [
        (f"s3:{action}", resource if resource == "*" else f"arn:aws:s3:::{resource}")
        for action, resource in expected
    ]


# https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
def test_what_a_bucket_is_made_with_needs_the_right_to_change_that():
    def needed(**headers):
        return [action.removeprefix("s3:") for action, _ in asked(rest("PUT", "/b", **headers))]

    assert needed(x_amz_acl="private") == ["CreateBucket"]
    assert needed(x_amz_acl="public-read") == ["CreateBucket", "PutBucketAcl"]
    assert needed(x_amz_object_ownership="BucketOwnerEnforced") == [
        "CreateBucket",
        "PutBucketOwnershipControls",
    ]
    assert needed(x_amz_bucket_object_lock_enabled="true") == [
        "CreateBucket",
        "PutBucketObjectLockConfiguration",
        "PutBucketVersioning",
    ]


def test_every_sub_resource_of_s3_is_an_action_that_aws_knows():
    for part in BUCKET_PARTS:
        asked(rest("GET", "/b", part))
        if part not in ("location", "policyStatus"):
            asked(rest("PUT", "/b", part))
            asked(rest("DELETE", "/b", part))
    for part in OBJECT_PARTS:
        asked(rest("GET", "/b/k", part))


# https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html: 404 for those who may list,
# 403 for others.
def test_who_may_not_list_is_not_told_that_an_object_is_missing():
    assert asked(rest("GET", "/b/gone")) == [
        ("s3:GetObject", "arn:aws:s3:::b/gone"),
        ("s3:ListBucket", "arn:aws:s3:::b"),
    ]


def test_s3_condition_keys():
    assert context(rest("GET", "/b", "list-type=2&prefix=a%2F&delimiter=%2F")) == {
        "s3:prefix": ("a/",),
        "s3:delimiter": ("/",),
    }
    assert context(rest("PUT", "/b/k", x_amz_server_side_encryption="aws:kms"))[
        "s3:x-amz-server-side-encryption"
    ] == ("aws:kms",)


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-delete-enforce.html, and the
# guide's page on conditional writes.
def test_who_changes_one_version_only_must_be_able_to_read_it():
    read = ("s3:GetObject", "arn:aws:s3:::b/k")
    for method, action in (("PUT", "s3:PutObject"), ("DELETE", "s3:DeleteObject")):
        change = (action, "arn:aws:s3:::b/k")
        assert asked(rest(method, "/b/k", if_match='"etag"')) == sorted([change, read])
        assert asked(rest(method, "/b/k", if_match="*")) == [change]
    assert asked(rest("PUT", "/b/k", if_none_match="*")) == [("s3:PutObject", "arn:aws:s3:::b/k")]
    body = b"<Delete><Object><Key>k</Key><ETag>e</ETag></Object></Delete>"
    deleted = [("s3:DeleteObject", "arn:aws:s3:::b/k"), read]
    assert asked(rest("POST", "/b", "delete", body)) == deleted


def test_tagged_copied_and_deleted_objects():
    tagged = asked(rest("PUT", "/b/k", x_amz_tagging="a=1"))
    assert tagged == [
        ("s3:PutObject", "arn:aws:s3:::b/k"),
        ("s3:PutObjectTagging", "arn:aws:s3:::b/k"),
    ]
    assert asked(rest("PUT", "/b/k", x_amz_copy_source="/from/a%20b")) == [
        ("s3:GetObject", "arn:aws:s3:::from/a b"),
        ("s3:PutObject", "arn:aws:s3:::b/k"),
    ]
    body = (
        b"<Delete "
        b'xmlns="x"><Object><Key>a</Key></Object><Object><Key>b</Key><VersionId>1</VersionId></Object></Delete>'
    )
    expected = [
        ("s3:DeleteObject", "arn:aws:s3:::b/a"),
        ("s3:DeleteObjectVersion", "arn:aws:s3:::b/b"),
    ]
    assert asked(rest("POST", "/b", "delete", body)) == expected


# https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html: with tags,
# secretsmanager:TagResource as well.
def test_secrets():
    create = call("secretsmanager", "CreateSecret", Name="t/a/c", Tags=[{"Key": "w", "Value": "a"}])
    assert asked(create) == [
        ("secretsmanager:CreateSecret", f"{SECRET}t/a/c-??????"),
        ("secretsmanager:TagResource", f"{SECRET}t/a/c-??????"),
    ]
    assert context(create)["aws:RequestTag/w"] == ("a",)
    world = SmallWorld(secrets={"t/a/c": (f"{SECRET}t/a/c-AbCdEf", {"w": "a"})})
    read = call("secretsmanager", "GetSecretValue", SecretId="t/a/c", VersionId="1")
    assert asked(read, world) == [("secretsmanager:GetSecretValue", f"{SECRET}t/a/c-AbCdEf")]
    assert context(read, world) == {
        "aws:ResourceTag/w": ("a",),
        "secretsmanager:ResourceTag/w": ("a",),
        "secretsmanager:SecretId": ("t/a/c",),
        "secretsmanager:VersionId": ("1",),
    }
    assert asked(call("secretsmanager", "ListSecrets")) == [("secretsmanager:ListSecrets", "*")]


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html#require-sse-kms
def test_a_customers_key_asks_the_caller():
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1"
    world = SmallWorld(objects={"b/k"}, key=key)
    assert asked(rest("GET", "/b/k"), world) == [
        ("kms:Decrypt", key),
        ("s3:GetObject", "arn:aws:s3:::b/k"),
    ]
    assert asked(rest("PUT", "/b/k"), world) == [
        ("kms:GenerateDataKey", key),
        ("s3:PutObject", "arn:aws:s3:::b/k"),
    ]
    assert [action for action, _ in asked(rest("POST", "/b/k", "uploadId=1"), world)] == [
        "kms:Decrypt",
        "kms:GenerateDataKey",
        "s3:PutObject",
    ]
    assert context(rest("GET", "/b/k"), world, 1)["kms:ViaService"] == (
        "s3.us-east-1.amazonaws.com",
    )
    # https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:ends"
    assert asked(call("sns", "Publish", TopicArn=topic), world) == [
        ("kms:Decrypt", key),
        ("kms:GenerateDataKey", key),
        ("sns:Publish", topic),
    ]
    assert asked(call("sns", "CreateTopic", Name="ends")) == [("sns:CreateTopic", topic)]


# https://docs.aws.amazon.com/kms/latest/developerguide/services-parameter-store.html
def test_a_parameter_that_a_customers_key_encrypts_asks_the_caller_to_decrypt():
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1"
    world = SmallWorld(key=key)
    arn = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/team/token"
    for name in (arn, "/team/token"):
        read = call("ssm", "GetParameter", Name=name, WithDecryption=True)
        assert asked(read, world) == [("kms:Decrypt", key), ("ssm:GetParameter", arn)]
    assert context(read, world, 1)["kms:ViaService"] == ("ssm.us-east-1.amazonaws.com",)
    encrypted = call("ssm", "GetParameter", Name=arn)
    assert asked(encrypted, world) == [("ssm:GetParameter", arn)]
