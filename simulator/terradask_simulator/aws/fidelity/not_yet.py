"""Refuse calls for what AWS doesn't know yet, or hasn't finished: one check a subject, each off
until it is switched on. Call these functions with the state's lock held.

AWS (documented): Every call of Auto Scaling may fail with ResourceContention and HTTP status 500:
another update of the resource is pending.
https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_SetDesiredCapacity.html
Calls that only read are left alone: they make no update.

AWS (documented): A secret that is deleted without recovery goes later, by an asynchronous process;
until then no secret of its name can be created.
https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DeleteSecret.html

AWS (reported): CreateSecret answers InvalidRequestException, "already scheduled for deletion".
https://github.com/redpanda-data/console/issues/1835
"""

from __future__ import annotations

import re
import time

from terradask_simulator.aws.fidelity.young_buckets import check_buckets, note_bucket
from terradask_simulator.aws.fidelity.young_identities import check_identities
from terradask_simulator.aws.fidelity.young_resources import check_resources, note_resource
from terradask_simulator.aws.iam.operation import Operation, named
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.switchboard import Setting

__all__ = ["CONTENTION", "LINGERING", "check_contention", "check_not_yet", "note_served"]

#: How often calls that change groups are refused.
CONTENTION = Setting(share=0.0, seed=0)
#: How long a deleted secret's name can't be used.
LINGERING = Setting(seconds=0.0)

_DELETED: dict[str, float] = {}
#: A secret's ARN ends with its name and six characters of AWS's.
_ARN = re.compile(r"arn:[^:]+:secretsmanager:[^:]+:[^:]+:secret:(.+)-\w{6}")


def check_not_yet(operation: Operation) -> Refusal | None:
    """Return the error for a call that comes too early, or None."""
    return (
        check_contention(operation)
        or check_identities(operation)
        or check_buckets(operation)
        or check_resources(operation)
        or _check_secrets(operation)
    )


def note_served(operation: Operation, status: str, body: bytes) -> None:
    """Note what a call has created or deleted."""
    note_bucket(operation, status)
    note_resource(operation, status, body)
    _note_secret(operation, status)


def check_contention(operation: Operation) -> Refusal | None:
    """Return the error for a call that meets another one's update, or None."""
    if (
        not CONTENTION.share
        or operation.service != "autoscaling"
        or operation.name.startswith(("Describe", "Get"))
        or CONTENTION.draws.random() >= CONTENTION.share
    ):
        return None
    return worded(
        operation,
        "ResourceContention",
        "You already have a pending update to an Amazon EC2 Auto Scaling resource (for example, an "
        "Auto Scaling group, instance, or load balancer).",
        "500 Internal Server Error",
    )


def _check_secrets(operation: Operation) -> Refusal | None:
    """Return the error for a secret whose name was just deleted, or None."""
    if (operation.service, operation.name) != ("secretsmanager", "CreateSecret"):
        return None
    deleted = _DELETED.get(f"{operation.region} {named(operation.parameters, 'Name')}")
    if deleted is None or time.monotonic() - deleted >= LINGERING.seconds:
        return None
    return worded(
        operation,
        "InvalidRequestException",
        "You can't create this secret because a secret with this name is already scheduled for "
        "deletion.",
    )


def _note_secret(operation: Operation, status: str) -> None:
    """Note that a secret was deleted without recovery."""
    if (
        (operation.service, operation.name) == ("secretsmanager", "DeleteSecret")
        and status.startswith("2")
        and operation.parameters.get("ForceDeleteWithoutRecovery")
    ):
        given = named(operation.parameters, "SecretId")
        arn = _ARN.fullmatch(given)
        _DELETED[f"{operation.region} {arn[1] if arn else given}"] = time.monotonic()
