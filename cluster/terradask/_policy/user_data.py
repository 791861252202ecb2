"""P1: user data, readable by every process on the host and many identities in the account, has no
keys, and fits.
"""

from __future__ import annotations

from collections.abc import Iterator

from terradask._policy.decoding import Undecodable, from_base64, layers
from terradask._policy.document import PlanDocument, Resource, Unknown
from terradask._policy.findings import PolicyFinding
from terradask._policy.patterns import forbidden_in_user_data

#: EC2's limit on user data before base64 (EC2 User Guide, "Work with instance user data").
MAX_USER_DATA_BYTES = 16_384

_ATTRIBUTES = {
    "aws_launch_template": ("user_data",),
    "aws_instance": ("user_data", "user_data_base64"),
    "aws_spot_instance_request": ("user_data", "user_data_base64"),
    "aws_launch_configuration": ("user_data", "user_data_base64"),
}
_ADVICE = "keep keys in Secrets Manager; hosts read them with their role when they start"


def user_data_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield what user data must not contain, and user data that is too long."""
    for resource in document.of(*_ATTRIBUTES):
        for attribute in _ATTRIBUTES[resource.type]:
            value = resource.values.get(attribute)
            if isinstance(value, Unknown):
                if value.references or value.template:
                    yield _finding(
                        resource,
                        f"{attribute} is known only after the apply, and can't be checked",
                        "warning",
                    )
            elif isinstance(value, str) and value:
                encoded = attribute == "user_data_base64" or resource.type == "aws_launch_template"
                yield from _of_text(resource, attribute, value, encoded)


def _of_text(
    resource: Resource, attribute: str, value: str, encoded: bool
) -> Iterator[PolicyFinding]:
    raw = (from_base64(value) if encoded else None) or value.encode()
    if len(raw) > MAX_USER_DATA_BYTES:
        yield _finding(
            resource,
            f"{attribute} is {len(raw):,} bytes long; EC2 takes {MAX_USER_DATA_BYTES:,}",
            advice="fetch the rest from S3 at boot",
        )
    try:
        kinds = dict.fromkeys(kind for text in layers(raw) for kind in forbidden_in_user_data(text))
    except Undecodable:
        yield _finding(
            resource,
            f"{attribute} is compressed and can't be read",
            advice="compress it with gzip, or not at all",
        )
        return
    for kind in kinds:
        yield _finding(resource, f"{attribute} holds {kind}")


def _finding(
    resource: Resource, message: str, severity: str = "error", *, advice: str = _ADVICE
) -> PolicyFinding:
    return PolicyFinding(
        "P1", "warning" if severity == "warning" else "error", resource.address, message, advice
    )
