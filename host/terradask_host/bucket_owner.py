"""Check of a bucket's owner: bucket names are unique across AWS, another account can take one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

#: Names that terradask chooses: of workspaces' buckets, and of those for states.
_NAME = re.compile(r"terradask-.+-(?P<account>[0-9]{12})-[a-z0-9-]+")


def expect_owner(client: Any, owners: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Add the account in a bucket's name to an S3 client's calls, and return the client.

    `owners` maps buckets to accounts and takes precedence over the name; it is read at each call.

    AWS (documented, s3-owner): S3 refuses a call with ExpectedBucketOwner by 403 Access Denied if
    the bucket belongs to another account.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-owner-condition.html
    """
    client.meta.events.register("before-parameter-build.s3", partial(_name_owner, owners))
    return client


def _name_owner(owners: Mapping[str, str], params: dict[str, Any], model: Any, **_: Any) -> None:
    # HeadBucket reads no content, and is how a bucket of another account is recognised.
    if model.name == "HeadBucket":
        return
    # botocore passes it as text.
    source = str(params.get("CopySource", "")).partition("/")[0]
    for parameter, bucket in (
        ("ExpectedBucketOwner", params.get("Bucket")),
        ("ExpectedSourceBucketOwner", source),
    ):
        named = _NAME.fullmatch(str(bucket))
        owner = owners.get(str(bucket)) or (named and named["account"])
        if owner and parameter in model.input_shape.members:
            params.setdefault(parameter, owner)
