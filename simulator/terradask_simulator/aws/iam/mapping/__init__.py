"""From an operation to the requests that policies are asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping.autoscaling import autoscaling_needs
from terradask_simulator.aws.iam.mapping.ec2 import ec2_needs
from terradask_simulator.aws.iam.mapping.identity import iam_needs, sts_needs
from terradask_simulator.aws.iam.mapping.keys import key_needs
from terradask_simulator.aws.iam.mapping.need import Facts, Need
from terradask_simulator.aws.iam.mapping.others import (
    any_needs,
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


def needs_of(operation: Operation, world: World) -> list[Need]:
    """Return every permission that an operation needs; one that needs none has an empty list."""
    needs = list(_SERVICES.get(operation.service, any_needs)(operation, world))
    return [*needs, *key_needs(operation, needs, world)]


def context_of(need: Need, common: Mapping[str, tuple[str, ...]]) -> Facts:
    """Return the condition keys of a request: those of every request, and of the others those that
    AWS sends with the action.
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
