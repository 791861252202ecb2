"""The account on moto, by several threads at once, as the host program uses it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import boto3

from ..moto_account import moto_account


def test_an_object_is_read_while_others_overwrite_it() -> None:
    interval = sys.getswitchinterval()
    with moto_account(), ThreadPoolExecutor(4) as pool:
        s3 = boto3.client("s3", "us-east-1")
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="key", Body=b"first")
        sys.setswitchinterval(1e-5)
        try:
            writes = [
                pool.submit(s3.put_object, Bucket="bucket", Key="key", Body=b"next")
                for _ in range(200)
            ]
            for _ in range(200):
                read = s3.get_object(Bucket="bucket", Key="key")["Body"].read()
                assert read in (b"first", b"next")
            for write in writes:
                write.result()
        finally:
            sys.setswitchinterval(interval)
            s3.close()
