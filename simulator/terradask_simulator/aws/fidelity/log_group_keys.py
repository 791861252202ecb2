"""A log group takes another key, or none, after it was made.

moto knows a group's key from its making alone, and answers the two calls that change it with HTTP
500, which the Terraform provider repeats for minutes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]


def install() -> None:
    """Add the two calls to moto's CloudWatch Logs."""
    from moto.logs.exceptions import ResourceNotFoundException
    from moto.logs.responses import LogsResponse

    def group(response: Any) -> Any:
        found = response.logs_backend.groups.get(response._get_param("logGroupName"))
        if found is None:
            raise ResourceNotFoundException
        return found

    def associate_kms_key(response: Any) -> str:
        group(response).kms_key_id = response._get_param("kmsKeyId")
        return ""

    def disassociate_kms_key(response: Any) -> str:
        group(response).kms_key_id = None
        return ""

    # moto's answers are dispatched by method name.
    for answer in (associate_kms_key, disassociate_kms_key):
        setattr(LogsResponse, answer.__name__, answer)
