"""The workspace's bucket: descriptors, clusters' states, the host program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask_modules.aws import (
    Construct,
    S3Bucket,
    S3BucketOwnershipControls,
    S3BucketPolicy,
    S3BucketPublicAccessBlock,
    S3BucketServerSideEncryptionConfigurationA,
    S3BucketVersioningA,
    S3Object,
    at,
)
from terradask_modules.names import ENVIRONMENTS, REPORTS, TAG_WORKSPACE
from terradask_modules.policies import bucket_policy
from terradask_modules.where import Where

#: How long overwritten or deleted versions are kept, to restore a state.
NONCURRENT_DAYS = 30

#: How long an environment that a host has built can be used again.
ENVIRONMENT_DAYS = 30

#: How long reports of runs are kept.
REPORT_DAYS = 30


class Storage(Construct):
    """A private, encrypted, versioned bucket that answers over TLS only.

    Resources created: an S3 bucket with its public access block, ownership, encryption by a KMS key
    or S3's own (SSE-S3), versioning, lifecycle and policy. Destroying it deletes its content.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        where: Where,
        kms_key_arn: str | None = None,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "storage")
        self.name = where.bucket
        self._tags = dict(tags)
        self._bucket = S3Bucket(
            self,
            "bucket",
            bucket=where.bucket,
            force_destroy=True,
            tags=self._tags,
            # Deprecated; aws_s3_bucket_lifecycle_configuration waits for 55 s after each change.
            lifecycle_rule=[
                {
                    "id": "old-versions",
                    "enabled": True,
                    "noncurrentVersionExpiration": {"days": NONCURRENT_DAYS},
                    "abortIncompleteMultipartUploadDays": 7,
                },
                {
                    "id": "environments",
                    "enabled": True,
                    "prefix": ENVIRONMENTS,
                    "expiration": {"days": ENVIRONMENT_DAYS},
                    "noncurrentVersionExpiration": {"days": 1},
                },
                {
                    "id": "reports",
                    "enabled": True,
                    "prefix": REPORTS,
                    "expiration": {"days": REPORT_DAYS},
                    "noncurrentVersionExpiration": {"days": 1},
                },
            ],
        )
        at("workspace", self._bucket)
        private = self._keep_private()
        self._kms_key_arn = kms_key_arn
        settled = self._encrypt_and_version(kms_key_arn)
        policy = S3BucketPolicy(
            self,
            "policy",
            bucket=self._bucket.id,
            policy=bucket_policy(where.bucket_arn),
            # AWS (reported, s3-conflict): S3 answers 409 OperationAborted to concurrent changes of
            # a bucket's configuration. https://github.com/ansible/ansible/issues/67811
            depends_on=[private],
        )
        at("workspace", policy)
        # Each object has its key and a version; and its age is less than versioning's, by which
        # clients know when S3 no longer misses any object.
        self._guards = [private, policy, *settled]

    def put(self, name: str, *, key: str, **content: Any) -> Any:
        """Put an object into the bucket, once the bucket is private.

        `name` is the resource's name in its address; `content` has ``content`` and
        ``content_type``, or ``source`` and ``source_hash``.
        """
        item = S3Object(
            self,
            f"object-{name}",
            bucket=self._bucket.id,
            key=key,
            # Only the one by which terradask finds it.
            # AWS (documented, s3-ten-tags): S3 takes up to ten tags for an object.
            # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
            tags={TAG_WORKSPACE: self._tags[TAG_WORKSPACE]},
            # The same as the bucket's default: policies may require it in writes.
            server_side_encryption="AES256" if self._kms_key_arn is None else "aws:kms",
            kms_key_id=self._kms_key_arn,
            depends_on=self._guards,
            **content,
        )
        at(name, item)
        return item

    def _keep_private(self) -> Any:
        block = S3BucketPublicAccessBlock(
            self,
            "public-access",
            bucket=self._bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
        )
        at("workspace", block)
        ownership = S3BucketOwnershipControls(
            self,
            "ownership",
            bucket=self._bucket.id,
            rule={"object_ownership": "BucketOwnerEnforced"},
        )
        at("workspace", ownership)
        return block

    def _encrypt_and_version(self, kms_key_arn: str | None) -> list[Any]:
        rule: dict[str, Any] = {"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}
        if kms_key_arn is not None:
            # AWS (documented): An S3 bucket key saves most of the calls to KMS, which are billed.
            # https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-key.html
            rule = {
                "applyServerSideEncryptionByDefault": {
                    "sseAlgorithm": "aws:kms",
                    "kmsMasterKeyId": kms_key_arn,
                },
                "bucketKeyEnabled": True,
            }
        encryption = S3BucketServerSideEncryptionConfigurationA(
            self,
            "encryption",
            bucket=self._bucket.id,
            rule=[rule],
        )
        at("workspace", encryption)
        versioning = S3BucketVersioningA(
            self,
            "versioning",
            bucket=self._bucket.id,
            versioning_configuration={"status": "Enabled"},
        )
        at("workspace", versioning)
        return [encryption, versioning]
