"""What using a customer's KMS key through another service needs of the caller.

`S3
<https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html#require-sse-kms>`_,
`Secrets Manager
<https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html>`_,
`SNS <https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html>`_
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from terradask_simulator.aws.iam.mapping.need import Need
from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.world import World

__all__ = ["key_needs"]

_READ, _WRITE = ("kms:Decrypt",), ("kms:GenerateDataKey",)
_BOTH = (*_WRITE, *_READ)
_USES = {
    "s3:GetObject": _READ,
    "s3:GetObjectVersion": _READ,
    "s3:PutObject": _WRITE,
    "secretsmanager:CreateSecret": _BOTH,
    "secretsmanager:GetSecretValue": _READ,
    "secretsmanager:PutSecretValue": _BOTH,
    "secretsmanager:UpdateSecret": _BOTH,
    "sns:Publish": _BOTH,
}


def key_needs(operation: Operation, needs: Iterable[Need], world: World) -> Iterator[Need]:
    """Yield what an operation needs of KMS, where a customer's key is used; AWS's own keys need
    nothing.
    """
    for need in needs:
        actions = _USES.get(need.action, ())
        if need.action == "s3:PutObject" and "uploadId" in operation.parameters:
            # The parts are read again when they are put together.
            actions = _BOTH
        key = (
            world.key_of(need.resource, _named_key(operation), new=need.action == "s3:PutObject")
            if actions
            else ""
        )
        service = need.action.partition(":")[0]
        facts = {
            "kms:ViaService": (f"{service}.{world.region}.amazonaws.com",),
            "kms:CallerAccount": (world.account,),
        }
        for action in actions if key else ():
            yield Need(action, key, "key", context=facts)


def _named_key(operation: Operation) -> str:
    if operation.service == "secretsmanager":
        return str(operation.parameters.get("KmsKeyId", ""))
    if operation.headers.get("x-amz-server-side-encryption", "") == "AES256":
        return "AES256"
    return operation.headers.get("x-amz-server-side-encryption-aws-kms-key-id", "")
