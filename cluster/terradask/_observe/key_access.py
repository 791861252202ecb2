"""Check and explain access to a private cluster's keys; AWS decides about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from terradask._aws.answers import unless
from terradask._aws.session import Aws
from terradask._observe.documents import Descriptor
from terradask.errors import AccessDenied, ClusterPrivate
from terradask_modules.secret_policy import is_named

_NO_VALUE = "ResourceNotFoundException"


@contextmanager
def translated_key_errors(aws: Aws, descriptor: Descriptor) -> Iterator[None]:
    """Translate AWS's denial to `ClusterPrivate` with the permitted principals."""
    try:
        yield
    except AccessDenied as error:
        if not descriptor.cluster_settings.private_to_creator:
            raise
        raise ClusterPrivate(
            descriptor.cluster, caller=aws.caller_arn, principals=_principals(descriptor)
        ) from error


def check_key_access(aws: Aws, descriptor: Descriptor) -> None:
    """Check before a start that this caller may read a private cluster's keys.

    Raises `ClusterPrivate`.

    Permission needed: ``secretsmanager:GetSecretValue`` on its secret.
    """
    # A cluster that was never started has no keys.
    with translated_key_errors(aws, descriptor), unless(_NO_VALUE):
        aws.client("secretsmanager").get_secret_value(SecretId=descriptor.secret_id)


def check_may_change(aws: Aws, descriptor: Descriptor, doing: str) -> None:
    """Check, before a change of a private cluster, that this caller is among the principals of its
    secret. `doing`: the caller's action.

    Raises `ClusterPrivate`.
    """
    if not descriptor.cluster_settings.private_to_creator:
        return
    principals = _principals(descriptor)
    if not is_named(aws.caller_arn, principals):
        raise ClusterPrivate(
            descriptor.cluster,
            caller=aws.caller_arn,
            principals=principals,
            doing=doing,
        )


def _principals(descriptor: Descriptor) -> list[str]:
    return [str(descriptor.lock["creator"]), *descriptor.cluster_settings.secret_principals]
