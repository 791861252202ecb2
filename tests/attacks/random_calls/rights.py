"""What policies permit, right by right, and the API call by which each is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import UnknownServiceError
from botocore.model import OperationModel

#: Services that SDKs name otherwise than policies do.
_SERVICES = {"servicequotas": "service-quotas"}

#: Rights without an operation of their name: the operations that need them, with the parameters
#: that it takes then.
_NAMED_OTHERWISE: dict[str, tuple[tuple[str, frozenset[str]], ...]] = {
    "s3:DeleteObjectVersion": (("DeleteObject", frozenset({"VersionId"})),),
    "s3:GetAccelerateConfiguration": (("GetBucketAccelerateConfiguration", frozenset()),),
    "s3:GetBucketCORS": (("GetBucketCors", frozenset()),),
    "s3:GetBucketObjectLockConfiguration": (("GetObjectLockConfiguration", frozenset()),),
    "s3:GetBucketPublicAccessBlock": (("GetPublicAccessBlock", frozenset()),),
    "s3:GetEncryptionConfiguration": (("GetBucketEncryption", frozenset()),),
    "s3:GetLifecycleConfiguration": (("GetBucketLifecycleConfiguration", frozenset()),),
    "s3:GetObjectVersion": (("GetObject", frozenset({"VersionId"})),),
    "s3:GetReplicationConfiguration": (("GetBucketReplication", frozenset()),),
    "s3:ListBucket": (("ListObjectsV2", frozenset()), ("HeadBucket", frozenset())),
    "s3:ListBucketVersions": (("ListObjectVersions", frozenset()),),
    "s3:ListMultipartUploadParts": (("ListParts", frozenset()),),
    "s3:PutObject": (("PutObject", frozenset()), ("CopyObject", frozenset())),
}

_AGENT = "Session Manager's agent calls it, for its own instance; SDKs have no such operation"

#: Rights that no call uses, with the reason.
NOT_CALLED = {
    "iam:PassRole": "it has no call of its own: what launches passes roles",
    "ssm:UpdateInstanceInformation": _AGENT,
    "ssmmessages:CreateControlChannel": _AGENT,
    "ssmmessages:CreateDataChannel": _AGENT,
    "ssmmessages:OpenControlChannel": _AGENT,
    "ssmmessages:OpenDataChannel": _AGENT,
}


class NoCall(Exception):
    """A right for which there is neither a call nor a reason."""


@dataclass(frozen=True)
class Right:
    """One action that a statement allows on some resources."""

    sid: str
    action: str
    resources: tuple[str, ...]


@dataclass(frozen=True)
class ApiCall:
    """An operation, and parameters that it has to have."""

    service: str
    operation: str
    given: frozenset[str] = field(default_factory=frozenset)

    @property
    def model(self) -> OperationModel:
        return _model(self.service).operation_model(self.operation)

    @property
    def reads(self) -> bool:
        return self.operation.startswith(("Describe", "Get", "Head", "List"))


def rights_of(policies: Iterable[Mapping[str, Any]]) -> list[Right]:
    """Return every right that some policies give; what they deny takes none of them away here."""
    return [
        Right(str(statement.get("Sid", "")), action, tuple(_listed(statement["Resource"])))
        for policy in policies
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow"
        for action in _listed(statement["Action"])
    ]


def calls_of(action: str) -> tuple[ApiCall, ...]:
    """Return the calls that use a right, none where `NOT_CALLED` says why.

    Raises
    ------
    NoCall
        If the right is new in kind: add it to one of the tables above.
    """
    if action in NOT_CALLED:
        return ()
    prefix, _, name = action.partition(":")
    service = _SERVICES.get(prefix, prefix)
    named = _NAMED_OTHERWISE.get(action, ((name, frozenset()),))
    try:
        operations = _model(service).operation_names
    except UnknownServiceError:
        operations = []
    if not {operation for operation, _ in named} <= set(operations):
        raise NoCall(action)
    return tuple(ApiCall(service, operation, given) for operation, given in named)


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _listed(value: Any) -> Iterator[Any]:
    yield from [value] if isinstance(value, str) else value
