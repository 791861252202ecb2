"""Map an operation to the requests that policies decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping.autoscaling import autoscaling_needs
from terradask_simulator.aws.iam.mapping.ec2 import ec2_needs
from terradask_simulator.aws.iam.mapping.identity import iam_needs, sts_needs
from terradask_simulator.aws.iam.mapping.need import Facts, Need
from terradask_simulator.aws.iam.mapping.others import (
    any_needs,
    budgets_needs,
    connect_needs,
    logs_needs,
    quota_needs,
    secret_needs,
    ssm_needs,
)
from terradask_simulator.aws.iam.mapping.s3 import s3_needs
from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.world import World

__all__ = ["Need", "context_of", "needs_of"]

_SERVICES: dict[str, Callable[[Operation, World], Iterator[Need]]] = {
    "autoscaling": autoscaling_needs,
    "budgets": budgets_needs,
    "ec2": ec2_needs,
    "ec2-instance-connect": connect_needs,
    "iam": iam_needs,
    "logs": logs_needs,
    "s3": s3_needs,
    "secretsmanager": secret_needs,
    "servicequotas": quota_needs,
    "ssm": ssm_needs,
    "sts": sts_needs,
}


_READ, _WRITE = ("kms:Decrypt",), ("kms:GenerateDataKey",)
_BOTH = (*_WRITE, *_READ)
#: AWS (documented): A call that uses a customer's KMS key through another service needs permissions
#: of the caller for the key.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html#require-sse-kms,
#: https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html,
#: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html,
#: https://docs.aws.amazon.com/kms/latest/developerguide/services-parameter-store.html
_USES = {
    "s3:GetObject": _READ,
    "s3:GetObjectVersion": _READ,
    "s3:PutObject": _WRITE,
    "secretsmanager:CreateSecret": _BOTH,
    "secretsmanager:GetSecretValue": _READ,
    "secretsmanager:PutSecretValue": _BOTH,
    "secretsmanager:UpdateSecret": _BOTH,
    "sns:Publish": _BOTH,
    "ssm:GetParameter": _READ,
    "ssm:GetParameters": _READ,
}


def needs_of(operation: Operation, world: World) -> list[Need]:
    """Return the permissions that an operation needs; the list may be empty."""
    needs = list(_SERVICES.get(operation.service, any_needs)(operation, world))
    return [*needs, *_key_needs(operation, needs, world)]


def context_of(need: Need, common: Mapping[str, tuple[str, ...]]) -> Facts:
    """Return the condition keys of a request: those of every request, and those that AWS sends with
    the action.
    """
    service = need.action.partition(":")[0]
    keys: Facts = dict(need.context)
    for name, value in (need.has_tags or {}).items():
        keys |= {f"{prefix}:ResourceTag/{name}": (value,) for prefix in ("aws", service)}
    for name, value in (need.gets_tags or {}).items():
        keys[f"aws:RequestTag/{name}"] = (value,)
    named = (*(need.gets_tags or {}), *need.gets_keys)
    if named:
        keys["aws:TagKeys"] = named
    return {
        **common,
        **{
            key: values
            for key, values in keys.items()
            if reference.carries(need.action, need.kind, key)
        },
    }


def _key_needs(operation: Operation, needs: Iterable[Need], world: World) -> Iterator[Need]:
    """Yield the KMS permissions for a customer's key; AWS's own keys need none."""
    for need in needs:
        actions = _USES.get(need.action, ())
        if operation.service == "ssm" and not operation.parameters.get("WithDecryption"):
            actions = ()
        if need.action == "s3:PutObject" and "uploadId" in operation.parameters:
            # Completing an upload reads the parts again.
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
