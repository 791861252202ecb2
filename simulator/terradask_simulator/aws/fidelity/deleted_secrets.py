"""Names of secrets that were deleted a moment ago, if switched on.

AWS (documented): A secret that is deleted without recovery goes later, by an asynchronous process;
until then no secret of its name can be created.
https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DeleteSecret.html

AWS (reported): CreateSecret answers InvalidRequestException, "already scheduled for deletion".
https://github.com/redpanda-data/console/issues/1835
"""

from __future__ import annotations

import re
import time

from terradask_simulator.aws.iam.operation import Operation, named
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.switchboard import Setting

__all__ = ["LINGERING", "check_secrets", "note_secret"]

#: How long a deleted secret's name can't be used.
LINGERING = Setting(seconds=0.0)

_DELETED: dict[str, float] = {}
#: A secret's ARN ends with its name and six characters of AWS's.
_ARN = re.compile(r"arn:[^:]+:secretsmanager:[^:]+:[^:]+:secret:(.+)-\w{6}")


def check_secrets(operation: Operation) -> Refusal | None:
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


def note_secret(operation: Operation, status: str) -> None:
    """Note that a secret was deleted without recovery."""
    if (
        (operation.service, operation.name) == ("secretsmanager", "DeleteSecret")
        and status.startswith("2")
        and operation.parameters.get("ForceDeleteWithoutRecovery")
    ):
        given = named(operation.parameters, "SecretId")
        arn = _ARN.fullmatch(given)
        _DELETED[f"{operation.region} {arn[1] if arn else given}"] = time.monotonic()
