"""Check what AssumeRole is given as STS does.

AWS (recorded): STS refuses ARNs and session names that aren't ones, transitive tags without a value
or that the calling session has, and tag keys that differ only in case.
tests/records/data/sts.json

AWS (recorded): STS returns a packed size of policies and tags only where AssumeRole has some.
tests/records/data/sts.json

AWS (reported): STS refuses a role that doesn't exist as one that the caller may not assume.
https://github.com/uswitch/kiam/issues/33

moto checks only the length of the session's name.
"""

from __future__ import annotations

import re
from typing import Any

from terradask_simulator.aws.backend import ACCOUNT, account_in
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.iam.operation import Operation, named
from terradask_simulator.aws.iam.principals import find_principal
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.iam.world import iam_backend

__all__ = ["check_role", "install", "refused_role"]

_ARN = re.compile(r"arn:[^:]+:[^:]+:[^:]*:[^:]*:.+")
_SESSION_NAME = r"[\w+=,.@-]*"


def install() -> None:
    """Replace moto's answers."""
    from moto.sts.responses import TokenResponse

    @around(TokenResponse, "assume_role")
    def assume_role(assume: Any, response: Any) -> Any:
        _check_names(response._get_param("RoleArn"), response._get_param("RoleSessionName"))
        tags = [one["Key"] for one in response._get_param("Tags") or []]
        transitive = response._get_param("TransitiveTagKeys") or []
        inherited = _transitive(response.backend).get(response.get_access_key(), frozenset())
        _check_tags(tags, transitive, inherited)
        answer = assume(response)
        key = answer.result["Credentials"].access_key_id
        _transitive(response.backend)[key] = inherited | {one.casefold() for one in transitive}
        if not tags and not response._get_param("Policy"):
            del answer.result["PackedPolicySize"]
        return answer

    @around(TokenResponse, "get_federation_token")
    def get_federation_token(get: Any, response: Any) -> Any:
        answer = get(response)
        if not response._get_param("Policy"):
            answer.result["PackedPolicySize"] = 0
        return answer


def _check_names(arn: str, session: str) -> None:
    from moto.sts.exceptions import STSValidationError

    if not _ARN.fullmatch(arn):
        raise STSValidationError(f"{arn} is invalid")
    if not re.fullmatch(_SESSION_NAME, session):
        raise STSValidationError(
            f"1 validation error detected: Value '{session}' at 'roleSessionName' failed to "
            "satisfy constraint: Member must satisfy regular expression pattern: "
            f"{_SESSION_NAME}"
        )


def check_role(operation: Operation) -> Refusal | None:
    """Return the error for a role that doesn't exist; call it with the state's lock held."""
    if (operation.service, operation.name) != ("sts", "AssumeRole"):
        return None
    arn = named(operation.parameters, "RoleArn")
    session = named(operation.parameters, "RoleSessionName")
    if not (_ARN.fullmatch(arn) and re.fullmatch(_SESSION_NAME, session)):
        return None
    roles = iam_backend(account_in(arn)).roles.values()
    return None if any(role.arn == arn for role in roles) else refused_role(operation)


def refused_role(operation: Operation) -> Refusal:
    """Return the error for a role that the caller may not assume."""
    principal = find_principal(operation.access_key)
    caller = principal.arn if principal is not None else f"arn:aws:iam::{ACCOUNT}:root"
    arn = named(operation.parameters, "RoleArn")
    message = f"User: {caller} is not authorized to perform: sts:AssumeRole on resource: {arn}"
    return worded(operation, "AccessDenied", message)


def _check_tags(tags: list[str], transitive: list[str], inherited: frozenset[str]) -> None:
    from moto.sts.exceptions import STSClientError

    keys = [key.casefold() for key in tags]
    problem = ""
    if len(set(keys)) < len(keys):
        problem = "Duplicate tag keys found. Please note that Tag keys are case insensitive."
    elif not {key.casefold() for key in transitive} <= {*keys}:
        problem = "The specified transitive tag key must be included in the requested tags."
    elif inherited & {*keys}:
        problem = (
            "One of the specified transitive tag keys can't be set because it conflicts with a "
            "transitive tag key from the calling session."
        )
    if problem:
        raise STSClientError("InvalidParameterValue", problem)


def _transitive(backend: Any) -> dict[str, frozenset[str]]:
    """Return the keys of transitive tags by the access key of a session."""
    return backend.__dict__.setdefault("_embedded_transitive_tags", {})
