"""Whose a bucket of terradask's is: bucket names are unique across all of AWS, and another account
can take one first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

#: Names that terradask chooses: of a workspace's bucket, and of one for states.
_NAME = re.compile(r"terradask-.+-(?P<account>[0-9]{12})-[a-z0-9-]+")


def expect_owner(client: Any, owners: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Have a client of S3 name the account that is in a bucket's name, and return it: where the
    bucket is another account's, S3 refuses.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-owner-condition.html

    Parameters
    ----------
    client
        The client.
    owners
        Bucket -> account, whatever is in its name; read at each call.
    """
    client.meta.events.register("before-parameter-build.s3", partial(_name_owner, owners))
    return client


def _name_owner(owners: Mapping[str, str], params: dict[str, Any], model: Any, **_: Any) -> None:
    # HeadBucket reads and writes nothing, and is how a bucket of another account is recognised.
    if model.name == "HeadBucket":
        return
    # botocore has made a text of it.
    source = str(params.get("CopySource", "")).partition("/")[0]
    for parameter, bucket in (
        ("ExpectedBucketOwner", params.get("Bucket")),
        ("ExpectedSourceBucketOwner", source),
    ):
        named = _NAME.fullmatch(str(bucket))
        owner = owners.get(str(bucket)) or (named and named["account"])
        if owner and parameter in model.input_shape.members:
            params.setdefault(parameter, owner)
