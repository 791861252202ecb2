"""Create the bucket of the networks' states outside Terraform, which needs it first."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from terradask._aws.answers import unless
from terradask._aws.session import Aws
from terradask._aws.tags import tags_of
from terradask._terraform.state.s3 import MAKE_BUCKET, bucket_errors, missing_bucket
from terradask.errors import AccessDenied, AwsError, BackendMissing, InvalidInput
from terradask_modules.iam import POLICY_VERSION, deny_without_tls

#: Tag of a bucket that terradask created and configures.
TAG = "terradask:state"

#: How long an overwritten state can be restored.
NONCURRENT_DAYS = 90

_RULE = "terradask-old-versions"
#: How long to retry calls on a new bucket, as the Terraform provider does.
#: AWS (reported): S3 answers NoSuchBucket to configuration calls for a while after a bucket's
#: creation. https://github.com/hashicorp/terraform-provider-aws/issues/33478
_SETTLED_SECONDS = 120.0
_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
_STATEMENT = "TerradaskTlsOnly"

_Result = TypeVar("_Result")


def make_state_bucket(
    aws: Aws,
    bucket: str,
    *,
    tags: Mapping[str, str],
    kms_key_arn: str | None,
    own_name: bool,
    warn: Callable[[str], None],
    owner: str | None = None,
) -> bool:
    """Create the bucket, or check its settings: private, versioned, encrypted, only TLS, old
    versions kept for 90 days.

    After an interruption, the next call continues. An existing bucket with a name from the settings
    that terradask didn't create keeps its own settings.

    S3 may not know a new bucket everywhere at once: each call is retried for two minutes.

    Raises `AwsError`, `BackendMissing` for a bucket of another account that isn't there,
    `AccessDenied`, `AwsError`.

    Permissions needed: ``s3:CreateBucket``, ``s3:ListBucket``, ``s3:PutBucketPublicAccessBlock``,
    ``s3:PutBucketOwnershipControls``, ``s3:PutBucketVersioning``, ``s3:GetBucketVersioning``,
    ``s3:PutEncryptionConfiguration``, ``s3:GetBucketPolicy``, ``s3:PutBucketPolicy``,
    ``s3:GetLifecycleConfiguration``, ``s3:PutLifecycleConfiguration``, ``s3:GetBucketTagging``,
    ``s3:PutBucketTagging``, all on the bucket.
    """
    aws.bucket_owners[bucket] = owner or aws.account_id
    made = aws.bucket_owners[bucket] == aws.account_id and _create(aws, bucket)
    if not made:
        versioned = check_state_bucket(aws, bucket, own_name=own_name)
        if not own_name and TAG not in _tags(aws, bucket):
            if not versioned:
                warn(unversioned(bucket))
            warn(f"bucket {bucket} exists and is not terradask's: its settings are not changed")
            return False
    client = aws.client("s3")
    wanted = {**_tags(aws, bucket), **tags, TAG: "true"}
    settings = {
        # The tag first: it tells the next call that terradask configures the bucket.
        "s3:PutBucketTagging": lambda: client.put_bucket_tagging(
            Bucket=bucket,
            Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in sorted(wanted.items())]},
        ),
        "s3:PutBucketPublicAccessBlock": lambda: client.put_public_access_block(
            Bucket=bucket,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True,
                "IgnorePublicAcls": True,
                "BlockPublicPolicy": True,
                "RestrictPublicBuckets": True,
            },
        ),
        "s3:PutBucketOwnershipControls": lambda: client.put_bucket_ownership_controls(
            Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        ),
        "s3:PutEncryptionConfiguration": lambda: client.put_bucket_encryption(
            Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [_encryption(kms_key_arn)]}
        ),
        "s3:PutBucketPolicy": lambda: client.put_bucket_policy(
            Bucket=bucket,
            Policy=json.dumps(
                _with_tls_only(_policy(aws, bucket), f"arn:{aws.partition}:s3:::{bucket}")
            ),
        ),
        "s3:PutLifecycleConfiguration": lambda: client.put_bucket_lifecycle_configuration(
            Bucket=bucket, LifecycleConfiguration={"Rules": _with_expiry(_rules(aws, bucket))}
        ),
        # Last: a bucket without it is incomplete.
        "s3:PutBucketVersioning": lambda: client.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
        ),
    }
    for action, put in settings.items():
        _settled(bucket, action, put)
    if made:
        # What follows is Terraform, which takes a bucket that isn't known yet for a missing one.
        _settled(bucket, "s3:ListBucket", lambda: client.list_objects_v2(Bucket=bucket, MaxKeys=1))
    return made


def _settled(bucket: str, action: str, call: Callable[[], _Result]) -> _Result:
    """Call S3, and retry for a while if its answer is that of a bucket that was just created or
    deleted. botocore retries neither.
    Raises `AccessDenied`, `AwsError`.
    """
    deadline = time.monotonic() + _SETTLED_SECONDS
    pauses = iter(_PAUSES_SECONDS)
    while True:
        try:
            with bucket_errors(bucket, action):
                return call()
        except (BackendMissing, ClientError) as error:
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else None
            if code not in (None, "OperationAborted"):
                raise
            if time.monotonic() > deadline:
                raise AwsError(
                    f"S3 still works on bucket {bucket}, {_SETTLED_SECONDS:.0f} s later",
                    given=f"{action}: {error.__cause__ or error}",
                    advice="run the command again in some minutes: it continues. A name that "
                    "another account has given up can take an hour",
                ) from error
            time.sleep(next(pauses, _PAUSES_SECONDS[-1]))


def check_state_bucket(aws: Aws, bucket: str, *, own_name: bool) -> bool:
    """Check that the bucket exists, with its owner and in the workspace's region, before Terraform
    reads the state, without an expected owner; return whether it is versioned.
    Raises `BackendMissing`, `AwsError`, `AccessDenied`, `InvalidInput`.

    Permissions needed: ``s3:ListBucket``; ``s3:GetBucketVersioning``, without which old versions
    aren't asked for.
    """
    region = _region(aws, bucket, own_name=own_name)
    if region and region != aws.region:
        raise InvalidInput(
            "the state's bucket is in another region than the workspace",
            given=f"{bucket} in {region}, workspace.region {aws.region}",
            allowed=f"a bucket in {aws.region}",
            advice="one bucket for each region: set state.bucket to another one, or leave it out",
        )
    with contextlib.suppress(AccessDenied), bucket_errors(bucket, "s3:GetBucketVersioning"):
        answer = aws.client("s3").get_bucket_versioning(Bucket=bucket)
        return bool(answer.get("Status") == "Enabled")
    return True


def unversioned(bucket: str) -> str:
    """Return the warning about a bucket without versioning."""
    return f"warning: bucket {bucket} keeps no old versions: an overwritten state can't be restored"


def _region(aws: Aws, bucket: str, *, own_name: bool) -> str | None:
    client, owner = aws.client("s3"), aws.bucket_owners.get(bucket, aws.account_id)
    try:
        answer = client.head_bucket(Bucket=bucket, ExpectedBucketOwner=owner)
    except AccessDenied as error:
        if _exists_for_others(client, bucket):
            raise (_taken(bucket) if own_name else _not_of(owner, bucket)) from error
        raise AccessDenied(
            "s3:ListBucket", f"bucket {bucket}; it may also belong to another account"
        ) from error
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status == 404:
            with_them = "" if owner == aws.account_id else f", with credentials of account {owner}"
            raise missing_bucket(bucket, MAKE_BUCKET + with_them) from error
        region = _header(error.response)
        if status == 301 and region:
            return region
        raise
    return answer.get("BucketRegion") or _header(answer)


def _header(answer: Mapping[str, Any]) -> str | None:
    found = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("x-amz-bucket-region")
    return str(found) if found else None


def _exists_for_others(client: Any, bucket: str) -> bool:
    """Return whether the bucket answers, so that S3 refused its owner."""
    try:
        client.head_bucket(Bucket=bucket)
    except (AccessDenied, ClientError):
        return False
    return True


def _create(aws: Aws, bucket: str) -> bool:
    # us-east-1 is the only region that may not be named.
    where = (
        {}
        if aws.region == "us-east-1"
        else {"CreateBucketConfiguration": {"LocationConstraint": aws.region}}
    )
    if _is_mine(aws, bucket):
        return False
    try:
        _settled(
            bucket,
            "s3:CreateBucket",
            lambda: aws.client("s3").create_bucket(
                Bucket=bucket, ObjectOwnership="BucketOwnerEnforced", **where
            ),
        )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "BucketAlreadyOwnedByYou":
            return False
        if code == "BucketAlreadyExists":
            raise _taken(bucket) from error
        raise
    return True


def _is_mine(aws: Aws, bucket: str) -> bool:
    """Return whether the caller has the bucket: in us-east-1 a second creation is no error."""
    try:
        aws.client("s3").head_bucket(Bucket=bucket)
    except AccessDenied:
        return False
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"] == 301
    return True


def _taken(bucket: str) -> AwsError:
    return AwsError(
        "a bucket of this name belongs to another AWS account",
        given=bucket,
        advice=(
            "choose another name: bucket under [state] in terradask.toml; bucket names are "
            "unique across all of AWS"
        ),
    )


def _not_of(owner: str, bucket: str) -> AwsError:
    return AwsError(
        "the bucket for the state belongs to another AWS account: its owner would get the state, "
        "and could plant another",
        given=bucket,
        allowed=f"a bucket of account {owner}",
        advice=(
            "if you don't know the other account: name another bucket under [state] in "
            "terradask.toml; if it is your team's: set TERRADASK_STATE__BUCKET_OWNER to its twelve "
            "digits"
        ),
    )


def _encryption(kms_key_arn: str | None) -> dict[str, Any]:
    if kms_key_arn is None:
        return {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    # With a bucket key, S3 calls KMS once instead of for every object.
    return {
        "ApplyServerSideEncryptionByDefault": {
            "SSEAlgorithm": "aws:kms",
            "KMSMasterKeyID": kms_key_arn,
        },
        "BucketKeyEnabled": True,
    }


def _with_tls_only(policy: Mapping[str, Any], arn: str) -> dict[str, Any]:
    kept = [
        statement for statement in policy.get("Statement", ()) if statement.get("Sid") != _STATEMENT
    ]
    return {
        "Version": POLICY_VERSION,
        **policy,
        "Statement": [*kept, deny_without_tls(_STATEMENT, arn)],
    }


def _with_expiry(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    own = {
        "ID": _RULE,
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": NONCURRENT_DAYS},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
    }
    return [*(rule for rule in rules if rule.get("ID") != _RULE), own]


def _policy(aws: Aws, bucket: str) -> dict[str, Any]:
    found = _held(aws, bucket, "s3:GetBucketPolicy", "get_bucket_policy", "NoSuchBucketPolicy")
    policy: dict[str, Any] = json.loads(found["Policy"]) if found else {}
    return policy


def _rules(aws: Aws, bucket: str) -> list[dict[str, Any]]:
    missing, method = "NoSuchLifecycleConfiguration", "get_bucket_lifecycle_configuration"
    found = _held(aws, bucket, "s3:GetLifecycleConfiguration", method, missing)
    return list(found["Rules"]) if found else []


def _tags(aws: Aws, bucket: str) -> dict[str, str]:
    found = _held(aws, bucket, "s3:GetBucketTagging", "get_bucket_tagging", "NoSuchTagSet")
    return tags_of(found["TagSet"]) if found else {}


def _held(aws: Aws, bucket: str, action: str, method: str, missing: str) -> Mapping[str, Any]:
    """Return a part of a bucket's configuration; empty if S3 answers that there is none."""
    get: Callable[..., Mapping[str, Any]] = getattr(aws.client("s3"), method)
    with unless(missing):
        return _settled(bucket, action, lambda: get(Bucket=bucket))
    return {}
