"""Access to a private cluster's keys: AWS decides, and the errors here explain it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from terradask._deployments.documents import Descriptor
from terradask.errors import AccessDenied, ClusterPrivate

if TYPE_CHECKING:
    from terradask._aws.session import Aws

_NO_VALUE = "ResourceNotFoundException"


@contextmanager
def translated_key_errors(aws: Aws, descriptor: Descriptor) -> Iterator[None]:
    """Raise an error that lists who may read a private cluster's keys, if AWS denies reading them
    inside.

    Raises `ClusterPrivate`.
    """
    try:
        yield
    except AccessDenied as error:
        if not descriptor.settings.get("private_to_creator"):
            raise
        principals = [
            str(descriptor.lock["creator"]),
            *descriptor.settings.get("secret_principals", ()),
        ]
        raise ClusterPrivate(
            descriptor.cluster, caller=aws.caller_arn, principals=principals
        ) from error


def check_key_access(aws: Aws, descriptor: Descriptor) -> None:
    """Check that this caller may read a private cluster's keys, before it is started.

    Raises `ClusterPrivate`.

    Notes
    -----
    Permission needed: ``secretsmanager:GetSecretValue`` on its secret.
    """
    from botocore.exceptions import ClientError

    with translated_key_errors(aws, descriptor):
        try:
            aws.client("secretsmanager").get_secret_value(SecretId=descriptor.secret_id)
        except ClientError as error:
            # A cluster that was never started has no keys.
            if error.response["Error"]["Code"] != _NO_VALUE:
                raise
