"""Objects of a cluster's stack: the workspace's and its own description, the secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from terradask_modules.aws import (
    Construct,
    DataAwsS3Object,
    Postcondition,
    S3Object,
    SecretsmanagerSecret,
    TerraformElement,
    TerraformResourceLifecycle,
    at,
    literal,
)
from terradask_modules.names import WORKSPACE_KEY, cluster_key
from terradask_modules.where import ClusterWhere


def workspace_text(scope: Construct, bucket: str, conditions: Iterable[tuple[str, str]]) -> str:
    """Return Terraform's reference to the text of ``workspace.json``, which a plan reads.

    `conditions` are its required conditions, with their messages.
    """
    data = DataAwsS3Object(
        scope,
        "baseline",
        bucket=bucket,
        key=WORKSPACE_KEY,
        lifecycle=TerraformResourceLifecycle(
            postcondition=[
                Postcondition(condition=condition, error_message=message)
                for condition, message in conditions
            ]
        ),
    )
    at("baseline", data)
    text: str = data.body
    return text


def keys_secret(
    scope: Construct,
    where: ClusterWhere,
    *,
    kms_key_id: str,
    policy: str | None,
    tags: Mapping[str, str],
) -> TerraformElement:
    """Make the secret for a cluster's keys, without a value.

    Resources created: a secret. AWS (secret-price)
    """
    secret = SecretsmanagerSecret(
        scope,
        "keys",
        name=where.secret_id,
        description=f"Keys of Dask cluster {where.cluster}; written when it starts",
        # Without a recovery window, so that the name can be used again at once.
        recovery_window_in_days=0,
        kms_key_id=kms_key_id,
        # A separate resource would be destroyed before the secret, which the destroying caller may
        # not do.
        policy=policy,
        tags=tags,
    )
    at("keys", secret)
    return secret  # type: ignore[no-any-return]


def cluster_description(
    scope: Construct,
    where: ClusterWhere,
    content: str,
    *,
    encryption: str,
    kms_key_id: str,
    depends_on: Sequence[Any],
) -> None:
    """Write a cluster's description, ``cluster.json``, once all in `depends_on` exists.

    Resources created: an object in the workspace's bucket.
    """
    descriptor = S3Object(
        scope,
        "descriptor",
        bucket=where.bucket,
        key=cluster_key(where.cluster, "cluster.json"),
        content=literal(content),
        content_type="application/json",
        # Only those by which terradask finds it. AWS (s3-ten-tags)
        tags=where.tags,
        server_side_encryption=encryption,
        kms_key_id=kms_key_id,
        depends_on=depends_on,
    )
    at("descriptor", descriptor)
