"""Large objects as streams, with S3 by moto."""

from __future__ import annotations

import os

from terradask_host.agent.aws import Aws
from terradask_host.agent.object_stream import PART_BYTES
from terradask_host.agent.objects import ClusterObjects
from terradask_host.documents import sha256_of

from ..moto_account import moto_account

BUCKET = "terradask-tests"


def test_large_objects_arrive_as_they_were_sent() -> None:
    content = os.urandom(2 * PART_BYTES + 123)
    reads: list[None] = []
    with moto_account():
        aws = Aws("us-east-1")
        s3 = aws.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        objects = ClusterObjects(aws, BUCKET, "one")
        with objects.upload("large") as upload:
            for start in range(0, len(content), 1_000_001):
                upload.write(content[start : start + 1_000_001])
            upload.complete()
        assert upload.size == len(content)
        with objects.download("large", upload.size, on_read=lambda: reads.append(None)) as download:
            assert download.read(5) == content[:5]
            assert download.rest_sha256() == upload.sha256 == sha256_of(content)
        s3.close()
    assert reads
