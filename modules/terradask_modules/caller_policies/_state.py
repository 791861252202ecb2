"""Rights on the network's state, in a bucket of its own."""

from __future__ import annotations

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow, both, present
from terradask_modules.task_rights import USE_KEY

#: AWS (documented): IAM's key s3:if-none-match is present in a request that writes an S3 object
#: only if there is none of its name.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
NEW_OBJECT = present("s3:if-none-match")
SET_UP_BUCKET = (
    "s3:PutBucketOwnershipControls",
    "s3:PutBucketPolicy",
    "s3:PutBucketPublicAccessBlock",
    "s3:PutBucketTagging",
    "s3:PutBucketVersioning",
    "s3:PutEncryptionConfiguration",
    "s3:PutLifecycleConfiguration",
)


def read_network_state(scope: CallerScope) -> list[Statement]:
    """Return the right to read the network's state, and to lock it, which every plan does."""
    state = scope.state_arn
    return [
        allow("ReadStateOfNetwork", "s3:GetObject", state),
        allow(
            "LockStateOfNetwork",
            ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            f"{state}.tflock",
        ),
        # For a missing state. AWS (s3-403-or-404)
        allow(
            "FindStateOfNetwork", ["s3:GetBucketVersioning", "s3:ListBucket"], scope.state_bucket
        ),
        *_use_key(scope),
    ]


def keep_network_state(scope: CallerScope) -> list[Statement]:
    """Return the rights to make the state's bucket, and to read, lock and write the state."""
    folder = f"{scope.state_arn.rpartition('/')[0]}/*"
    return [
        allow(
            "KeepBucketOfStates",
            [
                "s3:CreateBucket",
                "s3:GetBucketPolicy",
                "s3:GetBucketTagging",
                "s3:GetBucketVersioning",
                "s3:GetLifecycleConfiguration",
                "s3:ListBucket",
                *SET_UP_BUCKET,
            ],
            scope.state_bucket,
        ),
        allow("KeepStateOfNetwork", ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], folder),
        record_unlocks("RecordUnlocksOfNetwork", scope.state_bucket),
        *_use_key(scope),
    ]


def record_unlocks(sid: str, bucket: str) -> Statement:
    """Return the right to record a broken lock, which breaking requires; records never change."""
    return allow(sid, "s3:PutObject", f"{bucket}/unlocks/*", NEW_OBJECT)


def _use_key(scope: CallerScope) -> list[Statement]:
    """Return the use of the state's key, only through S3. The lock is written with it too."""
    if scope.state_key_arn is None:
        return []
    key, condition = scope.state_key_arn, scope.where.through("s3")
    place, _, alias = key.partition(":alias/")
    if alias:
        # An alias isn't a resource of these actions: the key is named by its aliases.
        by_alias = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": f"alias/{alias}"}}
        key, condition = f"{place}:key/*", both(condition, by_alias)
    return [allow("UseKeyOfState", list(USE_KEY), key, condition)]
